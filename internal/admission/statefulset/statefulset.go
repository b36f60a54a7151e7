// Package statefulset says what admission does with StatefulSets.
package statefulset

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
		Resource: "statefulsets", Kind: "StatefulSet", Ready: classes.Synced, Templates: templates,
		Default: func(_, set *v1beta1.StatefulSet) { v1beta1.SetDefaults_StatefulSetSpec(&set.Spec) },
		Parts: func(set *v1beta1.StatefulSet) admission.Parts {
			return admission.Parts{Pods: &set.Spec.Template, Claims: set.Spec.VolumeClaimTemplates}
		},
		Validate: func(_ context.Context, old, set *v1beta1.StatefulSet, _ admission.Request) (field.ErrorList, []string) {
			return Validate(old, set, classes.List()), Advise(&set.Spec, field.NewPath("spec"))
		},
	}.Of()
}
