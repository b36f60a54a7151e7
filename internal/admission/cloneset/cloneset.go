// Package cloneset says what admission does with CloneSets.
package cloneset

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// Kind is what admission does with CloneSets. templates may be nil: then Pod templates are not judged.
func Kind(templates *admission.Templates) admission.Kind {
	return admission.Rules[v1beta1.CloneSet]{
		Resource: "clonesets", Kind: "CloneSet", Default: setDefaults, AlphaField: alphaField,
		Validate: func(ctx context.Context, old, set *v1beta1.CloneSet, r admission.Request) (field.ErrorList, []string) {
			if errs := Validate(old, set); len(errs) > 0 {
				return errs, nil
			}
			var was *corev1.PodTemplateSpec
			if old != nil {
				was = &old.Spec.Template
			}
			return templates.CheckChanged(ctx, r, was, &set.Spec.Template, set.Spec.VolumeClaimTemplates, field.NewPath("spec", "template"))
		},
	}.Of()
}

// setDefaults leaves a template alone that the update does not change: defaults that a new release brings must not start a
// rollout.
func setDefaults(old, set *v1beta1.CloneSet) {
	v1beta1.SetDefaults_CloneSetSpec(&set.Spec)
	if old == nil || !equality.Semantic.DeepEqual(old.Spec.Template, set.Spec.Template) {
		defaults.SetPodTemplate(&set.Spec.Template)
	}
	if old == nil || !equality.Semantic.DeepEqual(old.Spec.VolumeClaimTemplates, set.Spec.VolumeClaimTemplates) {
		for i := range set.Spec.VolumeClaimTemplates {
			defaults.SetClaimTemplate(&set.Spec.VolumeClaimTemplates[i])
		}
	}
}

// alphaField is where v1alpha1 has a field, or the field itself where it has none.
func alphaField(name string) string {
	const rolling = "spec.updateStrategy.rollingUpdate"
	switch {
	case name == rolling+".podUpdatePolicy":
		return "spec.updateStrategy.type"
	case name == "spec.scaleStrategy.enablePVCReuse":
		return "spec.scaleStrategy.disablePVCReuse"
	case strings.HasPrefix(name, rolling):
		return "spec.updateStrategy" + strings.TrimPrefix(name, rolling)
	}
	return name
}
