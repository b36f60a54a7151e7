// Package broadcastjob says what admission does with BroadcastJobs.
package broadcastjob

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// longestName: the name of the job is the value of a label.
const longestName = 63

// Labels that the controller puts on Pods.
const (
	nameLabel = "broadcastjob-name"
	uidLabel  = "broadcastjob-controller-uid"
)

// Kind is what admission does with BroadcastJobs. templates may be nil: then Pod templates are not judged.
func Kind(templates *admission.Templates) admission.Kind {
	return admission.Rules[v1beta1.BroadcastJob]{
		Resource: "broadcastjobs", Kind: "BroadcastJob", Templates: templates,
		Default: func(_, job *v1beta1.BroadcastJob) { v1beta1.SetDefaults_BroadcastJobSpec(&job.Spec) },
		Parts:   func(job *v1beta1.BroadcastJob) admission.Parts { return admission.Parts{Pods: &job.Spec.Template} },
		Validate: func(_ context.Context, old, job *v1beta1.BroadcastJob, _ admission.Request) (field.ErrorList, []string) {
			return Validate(old, job), admission.WarnOfMoreThanAll(job.Spec.Parallelism, admission.MeansAll, field.NewPath("spec", "parallelism"))
		},
	}.Of()
}

// Validate returns everything that is wrong with a job. Values that were stored already and are unchanged are not wrong:
// old is what they are compared with, nil on creation.
func Validate(old, job *v1beta1.BroadcastJob) field.ErrorList {
	errs := ValidateSpec(&job.Spec, field.NewPath("spec"))
	if old == nil {
		return append(admission.CheckName(&job.ObjectMeta, longestName), errs...)
	}
	return admission.Ratchet(errs, ValidateSpec(&old.Spec, field.NewPath("spec")), old, job)
}

// ValidateSpec returns everything that is wrong with the spec of a job, whether it has its defaults or not. The Pod template
// must have them.
func ValidateSpec(s *v1beta1.BroadcastJobSpec, at *field.Path) field.ErrorList {
	errs := validateCompletion(&s.CompletionPolicy, at.Child("completionPolicy"))
	errs = append(errs, validateFailure(&s.FailurePolicy, at.Child("failurePolicy"))...)
	errs = append(errs, admission.CheckWholeAmount(s.Parallelism, 0, at.Child("parallelism"))...)
	template := at.Child("template")
	errs = append(errs, admission.CheckFinite(&s.Template.Spec, template.Child("spec"))...)
	for _, label := range []string{nameLabel, uidLabel} {
		if value := s.Template.Labels[label]; value != "" {
			errs = append(errs, field.Invalid(template.Child("metadata", "labels"), value, fmt.Sprintf("label %s is set by the controller", label)))
		}
	}
	return errs
}

func validateCompletion(p *v1beta1.CompletionPolicy, at *field.Path) field.ErrorList {
	errs := admission.NotNegative(ptr.Deref(p.ActiveDeadlineSeconds, 0), at.Child("activeDeadlineSeconds"))
	errs = append(errs, admission.NotNegative(ptr.Deref(p.TTLSecondsAfterFinished, 0), at.Child("ttlSecondsAfterFinished"))...)
	switch p.Type {
	case "", v1beta1.Always:
	case v1beta1.Never:
		if p.ActiveDeadlineSeconds != nil {
			errs = append(errs, field.Invalid(at.Child("activeDeadlineSeconds"), *p.ActiveDeadlineSeconds, "must not be set with type Never"))
		}
		if p.TTLSecondsAfterFinished != nil {
			errs = append(errs, field.Invalid(at.Child("ttlSecondsAfterFinished"), *p.TTLSecondsAfterFinished, "must not be set with type Never"))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("type"), p.Type, []v1beta1.CompletionPolicyType{v1beta1.Always, v1beta1.Never}))
	}
	return errs
}

func validateFailure(p *v1beta1.FailurePolicy, at *field.Path) field.ErrorList {
	errs := admission.NotNegative(p.RestartLimit, at.Child("restartLimit"))
	switch p.Type {
	case "", v1beta1.FailurePolicyTypeContinue, v1beta1.FailurePolicyTypeFailFast, v1beta1.FailurePolicyTypePause:
	default:
		errs = append(errs, field.NotSupported(at.Child("type"), p.Type,
			[]v1beta1.FailurePolicyType{v1beta1.FailurePolicyTypeContinue, v1beta1.FailurePolicyTypeFailFast, v1beta1.FailurePolicyTypePause}))
	}
	return errs
}
