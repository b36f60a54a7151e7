// Package statefulset says what admission does with StatefulSets.
package statefulset

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// Classes are the StorageClasses of the cluster.
type Classes interface {
	List() []*storagev1.StorageClass
	// Synced says why the list is not complete yet.
	Synced() error
}

// Kind is what admission does with StatefulSets. templates may be nil: then Pod templates are not judged.
func Kind(templates *admission.Templates, classes Classes) admission.Kind {
	return admission.Rules[v1beta1.StatefulSet]{
		Resource: "statefulsets", Kind: "StatefulSet", Default: setDefaults, Ready: classes.Synced,
		Validate: func(ctx context.Context, old, set *v1beta1.StatefulSet, r admission.Request) (field.ErrorList, []string) {
			if errs := Validate(old, set, classes.List()); len(errs) > 0 {
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

// setDefaults leaves templates alone that the update does not change: defaults that a new release brings must not start a
// rollout.
func setDefaults(old, set *v1beta1.StatefulSet) {
	v1beta1.SetDefaults_StatefulSetSpec(&set.Spec)
	if old == nil || !equality.Semantic.DeepEqual(old.Spec.Template, set.Spec.Template) {
		defaults.SetPodTemplate(&set.Spec.Template)
	}
	if old == nil || !equality.Semantic.DeepEqual(old.Spec.VolumeClaimTemplates, set.Spec.VolumeClaimTemplates) {
		for i := range set.Spec.VolumeClaimTemplates {
			defaults.SetClaimTemplate(&set.Spec.VolumeClaimTemplates[i])
		}
	}
}
