package sidecarset

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/injection"
)

// taken is a name of a container that a set claims in Pods, and where it says so.
type taken struct {
	name string
	at   *field.Path
}

// names are those of all containers. One that is upgraded hot has two in the Pod; its own name is that of the pair. Init
// containers that end are not upgraded.
func names(s *v1beta1.SidecarSetSpec) []taken {
	spec := field.NewPath("spec")
	var out []taken
	add := func(list []v1beta1.SidecarContainer, isInit bool, at *field.Path) {
		for i := range list {
			c, path := &list[i], at.Index(i).Child("name")
			out = append(out, taken{c.Name, path})
			if c.UpgradeStrategy.UpgradeType == v1beta1.SidecarContainerHotUpgrade && (!isInit || injection.IsNative(&c.Container)) {
				out = append(out, taken{c.Name + "-1", path}, taken{c.Name + "-2", path})
			}
		}
	}
	add(s.InitContainers, true, spec.Child("initContainers"))
	add(s.Containers, false, spec.Child("containers"))
	return out
}

// validateOthers compares with every set that may meet this one in a Pod.
func validateOthers(set *v1beta1.SidecarSet, sets []*v1beta1.SidecarSet) field.ErrorList {
	var errs field.ErrorList
	for _, other := range sets {
		if other.Name == set.Name || base(set) == other.Name || base(other) == set.Name {
			// A canary takes the place of its base, so the two never meet.
			continue
		}
		if injection.Overlap(set.Spec.Selector, other.Spec.Selector) && injection.Overlap(set.Spec.NamespaceSelector, other.Spec.NamespaceSelector) {
			errs = append(errs, conflicts(&set.Spec, defaulted(other))...)
		}
	}
	return errs
}

// adviseOthers is about sets that this one could not be compared with.
func adviseOthers(set *v1beta1.SidecarSet, c *Cluster) []string {
	var warnings []string
	for _, name := range c.Unknown {
		if name != set.Name {
			warnings = append(warnings, "spec.containers: not compared with SidecarSet "+name+", which cannot be read")
		}
	}
	return warnings
}

func conflicts(s *v1beta1.SidecarSetSpec, other *v1beta1.SidecarSet) field.ErrorList {
	spec := field.NewPath("spec")
	also := fmt.Sprintf("SidecarSet %s, which may select the same Pods, has it too", other.Name)
	var errs field.ErrorList
	claimed := map[string]bool{}
	for _, n := range names(&other.Spec) {
		claimed[n.name] = true
	}
	for _, n := range names(s) {
		if claimed[n.name] {
			errs = append(errs, field.Invalid(n.at, n.name, also))
		}
	}
	for i := range s.Volumes {
		for j := range other.Spec.Volumes {
			mine, theirs := &s.Volumes[i], &other.Spec.Volumes[j]
			if mine.Name == theirs.Name && !equality.Semantic.DeepEqual(mine, theirs) {
				errs = append(errs, field.Invalid(spec.Child("volumes").Index(i), mine.Name, also+", of another content"))
			}
		}
	}
	theirs := map[string]v1beta1.SidecarSetPatchPolicyType{}
	for _, p := range other.Spec.PatchPodMetadata {
		for key := range p.Annotations {
			theirs[key] = p.PatchPolicy
		}
	}
	for _, p := range s.PatchPodMetadata {
		for _, key := range sorted(p.Annotations) {
			if policy, there := theirs[key]; there && fight(p.PatchPolicy, policy) {
				errs = append(errs, field.Invalid(spec.Child("patchPodMetadata"), key, also))
			}
		}
	}
	return errs
}

// fight tells whether two sets that patch an annotation undo each other's work.
func fight(a, b v1beta1.SidecarSetPatchPolicyType) bool {
	const retain, overwrite = v1beta1.SidecarSetRetainPatchPolicy, v1beta1.SidecarSetOverwritePatchPolicy
	return a != retain && b != retain && (a == overwrite || b == overwrite)
}
