package advancedcronjob

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/admission/broadcastjob"
	"github.com/flotilla-k8s/flotilla/internal/schedule"
)

// longestName leaves room for the time in the names of runs.
const longestName = 52

// foreseeable is the time in years within which a schedule must be due: later is a mistake.
const foreseeable = 5

// Validate returns everything that is wrong with a job. Values that were stored already and are unchanged are not wrong: old
// is what they are compared with, nil on creation. Both are judged with their defaults, which what an object of v1alpha1
// carries in an annotation never gets.
func Validate(old, job *v1beta1.AdvancedCronJob, now time.Time) field.ErrorList {
	spec := field.NewPath("spec")
	job = defaulted(job)
	errs := validateSpec(&job.Spec, now, spec)
	if old == nil {
		errs = append(admission.CheckName(&job.ObjectMeta, longestName), errs...)
		return append(errs, validateTemplate(&job.Spec.Template, spec.Child("template"))...)
	}
	old = defaulted(old)
	errs = admission.Ratchet(errs, validateSpec(&old.Spec, now, spec), old, job)
	if equality.Semantic.DeepEqual(old.Spec.Template, job.Spec.Template) {
		return errs
	}
	was, is := kindsOf(&old.Spec.Template), kindsOf(&job.Spec.Template)
	if len(was) == 1 && len(is) == 1 && was[0] != is[0] {
		errs = append(errs, field.Forbidden(spec.Child("template"), "is for a "+string(was[0])+", which may not be changed"))
	}
	return append(errs, validateTemplate(&job.Spec.Template, spec.Child("template"))...)
}

// defaulted is a job with its defaults, but for those of Pod templates: none of them makes a template valid.
func defaulted(job *v1beta1.AdvancedCronJob) *v1beta1.AdvancedCronJob {
	job = job.DeepCopy()
	v1beta1.SetDefaults_AdvancedCronJobSpec(&job.Spec)
	return job
}

// validateSpec checks everything but the template.
func validateSpec(s *v1beta1.AdvancedCronJobSpec, now time.Time, at *field.Path) field.ErrorList {
	errs := validateSchedule(s, now, at)
	errs = append(errs, admission.NotNegative(ptr.Deref(s.StartingDeadlineSeconds, 0), at.Child("startingDeadlineSeconds"))...)
	errs = append(errs, admission.NotNegative(ptr.Deref(s.SuccessfulJobsHistoryLimit, 0), at.Child("successfulJobsHistoryLimit"))...)
	errs = append(errs, admission.NotNegative(ptr.Deref(s.FailedJobsHistoryLimit, 0), at.Child("failedJobsHistoryLimit"))...)
	path := at.Child("concurrencyPolicy")
	switch p := s.ConcurrencyPolicy; p {
	case v1beta1.ForbidConcurrent, v1beta1.ReplaceConcurrent:
	case v1beta1.AllowConcurrent, "":
		if s.Template.ImageListPullJobTemplate != nil && p != "" {
			errs = append(errs, field.Invalid(path, p, "must be Replace or Forbid with imageListPullJobTemplate"))
		}
	default:
		errs = append(errs, field.Invalid(path, p, "must be Allow, Forbid or Replace"))
	}
	return errs
}

func validateSchedule(s *v1beta1.AdvancedCronJobSpec, now time.Time, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	zone := time.UTC
	if name := s.TimeZone; name != nil {
		found, err := schedule.LoadZone(*name)
		if err != nil {
			errs = append(errs, field.Invalid(at.Child("timeZone"), *name, err.Error()))
		} else {
			zone = found
		}
	}
	path := at.Child("schedule")
	wrong := func(reason string) field.ErrorList { return append(errs, field.Invalid(path, s.Schedule, reason)) }
	if s.TimeZone != nil && schedule.HasZone(s.Schedule) {
		errs = wrong("must not hold a time zone where spec.timeZone is set")
	}
	parsed, err := schedule.Parse(s.Schedule)
	if err != nil {
		return wrong(err.Error())
	}
	if next := parsed.Next(now, zone); next.IsZero() || next.After(now.AddDate(foreseeable, 0, 0)) {
		return wrong("is never due within the next 5 years")
	}
	return errs
}

// kindsOf are the kinds that there are templates for.
func kindsOf(t *v1beta1.CronJobTemplate) []v1beta1.TemplateKind {
	var kinds []v1beta1.TemplateKind
	if t.JobTemplate != nil {
		kinds = append(kinds, v1beta1.JobTemplate)
	}
	if t.BroadcastJobTemplate != nil {
		kinds = append(kinds, v1beta1.BroadcastJobTemplate)
	}
	if t.ImageListPullJobTemplate != nil {
		kinds = append(kinds, v1beta1.ImageListPullJobTemplate)
	}
	return kinds
}

func validateTemplate(t *v1beta1.CronJobTemplate, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(kindsOf(t)) != 1 {
		errs = append(errs, field.Forbidden(at, "exactly one of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate must be set"))
	}
	if j := t.JobTemplate; j != nil {
		errs = append(errs, validateJob(&j.Spec, at.Child("jobTemplate", "spec"))...)
	}
	if b := t.BroadcastJobTemplate; b != nil {
		errs = append(errs, broadcastjob.ValidateSpec(&b.Spec, at.Child("broadcastJobTemplate", "spec"))...)
	}
	if p := t.ImageListPullJobTemplate; p != nil {
		errs = append(errs, validatePull(&p.Spec, at.Child("imageListPullJobTemplate", "spec"))...)
	}
	return errs
}

// validateJob refuses what would fail at every run. What else a Job may be, its own admission says.
func validateJob(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	errs := admission.CheckFinite(&s.Template.Spec, at.Child("template", "spec"))
	if s.Selector != nil {
		errs = append(errs, field.Invalid(at.Child("selector"), s.Selector, "must not be set: each run has its own"))
	}
	if ptr.Deref(s.ManualSelector, false) {
		errs = append(errs, field.Invalid(at.Child("manualSelector"), true, "must not be true: each run has its own selector"))
	}
	return errs
}
