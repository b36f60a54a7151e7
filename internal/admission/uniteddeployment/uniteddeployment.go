// Package uniteddeployment says what admission does with UnitedDeployments.
package uniteddeployment

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/rawjson"
	"github.com/flotilla-k8s/flotilla/internal/subset"
)

// Kind is what admission does with UnitedDeployments. templates may be nil: then Pod templates are not judged.
func Kind(templates *admission.Templates) admission.Kind {
	return admission.Rules[v1beta1.UnitedDeployment]{
		Resource: "uniteddeployments", Kind: "UnitedDeployment", Default: setDefaults, AlphaField: alphaField,
		Validate: func(ctx context.Context, old, object *v1beta1.UnitedDeployment, r admission.Request) (field.ErrorList, []string) {
			errs, warnings := Validate(old, object)
			if len(errs) > 0 || templates == nil {
				return errs, warnings
			}
			errs, more := judge(ctx, templates, old, object, r)
			return errs, append(warnings, more...)
		},
	}.Of()
}

// alphaField is where an object of v1alpha1 has a field. Its template of CloneSets may be flat, as those of v1alpha1 are.
func alphaField(name string, object []byte) string {
	const at = "spec.template.cloneSetTemplate"
	below, isBelow := strings.CutPrefix(name, at+".")
	if !isBelow || admission.Has(object, name) {
		return name
	}
	template := object
	for member := range strings.SplitSeq(at, ".") {
		template = rawjson.Member(template, member)
	}
	if flat := admission.AlphaCloneSetField(below, template); admission.Has(template, flat) {
		return at + "." + flat
	}
	return name
}

// setDefaults leaves a template alone that the update does not change: defaults that a new release brings must not start a
// rollout.
func setDefaults(old, object *v1beta1.UnitedDeployment) {
	if old == nil || !equality.Semantic.DeepEqual(old.Spec.Template, object.Spec.Template) {
		v1beta1.SetDefaults_UnitedDeployment(object)
		return
	}
	v1beta1.SetDefaults_UnitedDeploymentSpec(&object.Spec)
}

// Bounds of what the API server is asked for one object.
const (
	maxPatches  = 10
	judgeWithin = 4 * time.Second
)

// judge has the Pod template judged if it changed and, where it is good, what the patches of subsets make of it.
func judge(ctx context.Context, templates *admission.Templates, old, object *v1beta1.UnitedDeployment, r admission.Request) (field.ErrorList, []string) {
	ctx, cancel := context.WithTimeout(ctx, judgeWithin)
	defer cancel()
	var errs field.ErrorList
	var warnings []string
	for _, w := range workloads(&object.Spec.Template) {
		if changed(old, object) {
			errs, warnings = templates.CheckChanged(ctx, r, nil, w.pods, w.claims, w.at.Child("spec", "template"))
		}
		patches := changedPatches(old, object)
		for i := 0; i < min(len(patches), maxPatches) && len(errs) == 0 && ctx.Err() == nil; i++ {
			t, err := subset.PodTemplate(w.pods, patches[i].subset, anyRevision)
			if err != nil {
				return field.ErrorList{field.Invalid(patches[i].at, "", err.Error())}, warnings
			}
			found, more := templates.Check(ctx, r.Namespace, t, w.claims, patches[i].at)
			errs, warnings = atPatch(found, patches[i].at), append(warnings, more...)
		}
	}
	return errs, warnings
}

// atPatch says for every mistake that the patch is to blame: places in the result are not those in the patch.
func atPatch(found field.ErrorList, at *field.Path) field.ErrorList {
	for _, e := range found {
		if place := strings.TrimPrefix(e.Field, at.String()+"."); place != e.Field {
			e.Detail = fmt.Sprintf("%s of the result: %s", place, e.Detail)
		}
		e.Field = at.String()
	}
	return found
}

func changed(old, object *v1beta1.UnitedDeployment) bool {
	return old == nil || !equality.Semantic.DeepEqual(old.Spec.Template, object.Spec.Template)
}

// patchOf is a subset's patch.
type patchOf struct {
	subset *v1beta1.Subset
	at     *field.Path
}

// changedPatches are those that are new or differ, and all of them where the template does.
func changedPatches(old, object *v1beta1.UnitedDeployment) []patchOf {
	all := changed(old, object)
	before := map[string]*v1beta1.Subset{}
	if old != nil {
		before = byName(old)
	}
	var out []patchOf
	for i := range object.Spec.Topology.Subsets {
		s := &object.Spec.Topology.Subsets[i]
		was := before[s.Name]
		if subset.HasPatch(s.Patch.Raw) && (all || was == nil || !subset.SamePatch(was.Patch.Raw, s.Patch.Raw)) {
			out = append(out, patchOf{s, field.NewPath("spec", "topology", "subsets").Index(i).Child("patch")})
		}
	}
	return out
}

func byName(object *v1beta1.UnitedDeployment) map[string]*v1beta1.Subset {
	out := map[string]*v1beta1.Subset{}
	for i := range object.Spec.Topology.Subsets {
		s := &object.Spec.Topology.Subsets[i]
		out[s.Name] = s
	}
	return out
}
