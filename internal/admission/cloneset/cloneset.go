// Package cloneset says what admission does with CloneSets.
package cloneset

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// Kind is what admission does with CloneSets. templates may be nil: then Pod templates are not judged.
func Kind(templates *admission.Templates) admission.Kind {
	return admission.Kind{
		Resource: "clonesets", Kind: "CloneSet", Default: setDefaults, AlphaField: alphaField,
		Validate: func(ctx context.Context, old, object conversion.Tree, r admission.Request) (field.ErrorList, []string) {
			set, err := decode(object)
			if err != nil {
				return field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())}, nil
			}
			var was *v1beta1.CloneSet
			if old != nil {
				// An old object that cannot be read is no reason to keep it.
				was, _ = decode(old)
			}
			errs := Validate(was, set)
			if len(errs) > 0 || templates == nil || was != nil && equality.Semantic.DeepEqual(was.Spec.Template, set.Spec.Template) {
				return errs, nil
			}
			return templates.Check(ctx, r.Namespace, &set.Spec.Template, set.Spec.VolumeClaimTemplates, field.NewPath("spec", "template"))
		},
	}
}

func decode(t conversion.Tree) (*v1beta1.CloneSet, error) {
	raw, err := conversion.Encode(t)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	set := &v1beta1.CloneSet{}
	if err := json.Unmarshal(raw, set); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	return set, nil
}

func encode(set *v1beta1.CloneSet) (conversion.Tree, error) {
	raw, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	tree, err := conversion.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	return tree, nil
}

// setDefaults leaves a template alone that the update does not change: defaults that a new release brings must not start a
// rollout.
func setDefaults(old, object conversion.Tree) (before, after conversion.Tree, err error) {
	set, err := decode(object)
	if err != nil {
		return nil, nil, err
	}
	if before, err = encode(set); err != nil {
		return nil, nil, err
	}
	v1beta1.SetDefaults_CloneSetSpec(&set.Spec)
	var was *v1beta1.CloneSet
	if old != nil {
		if was, err = decode(old); err != nil {
			was = nil
		}
	}
	if was == nil || !equality.Semantic.DeepEqual(was.Spec.Template, set.Spec.Template) {
		defaults.SetPodTemplate(&set.Spec.Template)
	}
	if was == nil || !equality.Semantic.DeepEqual(was.Spec.VolumeClaimTemplates, set.Spec.VolumeClaimTemplates) {
		for i := range set.Spec.VolumeClaimTemplates {
			defaults.SetClaimTemplate(&set.Spec.VolumeClaimTemplates[i])
		}
	}
	after, err = encode(set)
	return before, after, err
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
