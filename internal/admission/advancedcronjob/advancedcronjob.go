// Package advancedcronjob says what admission does with AdvancedCronJobs.
package advancedcronjob

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/schedule"
)

// Kind is what admission does with AdvancedCronJobs. templates may be nil: then Pod templates are not judged.
func Kind(templates *admission.Templates, now clock.PassiveClock) admission.Kind {
	return admission.Rules[v1beta1.AdvancedCronJob]{
		Resource: "advancedcronjobs", Kind: "AdvancedCronJob", Default: setDefaults,
		Validate: func(ctx context.Context, old, job *v1beta1.AdvancedCronJob, r admission.Request) (field.ErrorList, []string) {
			warnings := advise(&job.Spec)
			if errs := Validate(old, job, now.Now()); len(errs) > 0 {
				return errs, warnings
			}
			template, at := podTemplate(&job.Spec.Template)
			if template == nil {
				return nil, warnings
			}
			var was *corev1.PodTemplateSpec
			if old != nil {
				was, _ = podTemplate(&old.Spec.Template)
			}
			errs, more := templates.CheckChanged(ctx, r, was, template, nil, at)
			return errs, append(warnings, more...)
		},
	}.Of()
}

// podTemplate is the template of the Pods, and where it is; nil where there are none.
func podTemplate(t *v1beta1.CronJobTemplate) (*corev1.PodTemplateSpec, *field.Path) {
	at := field.NewPath("spec", "template")
	switch {
	case t.JobTemplate != nil:
		return &t.JobTemplate.Spec.Template, at.Child("jobTemplate", "spec", "template")
	case t.BroadcastJobTemplate != nil:
		return &t.BroadcastJobTemplate.Spec.Template, at.Child("broadcastJobTemplate", "spec", "template")
	}
	return nil, nil
}

// setDefaults leaves Pod templates alone that the update does not change.
func setDefaults(old, job *v1beta1.AdvancedCronJob) {
	v1beta1.SetDefaults_AdvancedCronJobSpec(&job.Spec)
	if old != nil {
		// Some of these defaults are in the template.
		v1beta1.SetDefaults_AdvancedCronJobSpec(&old.Spec)
		if equality.Semantic.DeepEqual(old.Spec.Template, job.Spec.Template) {
			return
		}
	}
	if t := job.Spec.Template.JobTemplate; t != nil {
		defaults.SetPodTemplate(&t.Spec.Template)
	}
	if t := job.Spec.Template.BroadcastJobTemplate; t != nil {
		defaults.SetPodTemplate(&t.Spec.Template)
	}
}

// fewSeconds: a run that may not start later than this may be missed between two looks of the controller.
const fewSeconds = 10

// advise is about what is allowed but seldom meant.
func advise(s *v1beta1.AdvancedCronJobSpec) []string {
	var warnings []string
	if schedule.HasZone(s.Schedule) {
		warnings = append(warnings, "spec.schedule: a time zone in the schedule is discouraged; set spec.timeZone instead")
	}
	if d := s.StartingDeadlineSeconds; d != nil && *d < fewSeconds {
		warnings = append(warnings, "spec.startingDeadlineSeconds: with less than 10 seconds runs may be missed")
	}
	return warnings
}
