// Package cloneset says what admission does with CloneSets.
package cloneset

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// Kind is what admission does with CloneSets. templates may be nil: then Pod templates are not judged.
func Kind(templates *admission.Templates) admission.Kind {
	return admission.Rules[v1beta1.CloneSet]{
		Resource: "clonesets", Kind: "CloneSet", AlphaField: admission.AlphaCloneSetField, Templates: templates,
		Default: func(_, set *v1beta1.CloneSet) { v1beta1.SetDefaults_CloneSetSpec(&set.Spec) },
		Parts: func(set *v1beta1.CloneSet) admission.Parts {
			return admission.Parts{Pods: &set.Spec.Template, Claims: set.Spec.VolumeClaimTemplates}
		},
		Validate: func(_ context.Context, old, set *v1beta1.CloneSet, _ admission.Request) (field.ErrorList, []string) {
			return Validate(old, set), advise(&set.Spec, field.NewPath("spec"))
		},
	}.Of()
}
