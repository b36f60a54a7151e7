package sidecarset

import (
	"regexp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/injection"
)

// Cluster is what the rules need to know beside the set.
type Cluster struct {
	// Sets are all SidecarSets, each as it was when it could be read last; Unknown are the names of those that never could.
	Sets    []*v1beta1.SidecarSet
	Unknown []string
	// Revisions are those of them that are kept.
	Revisions []*appsv1.ControllerRevision
	// WhiteList says, as JSON, which annotations may be patched; nil: nothing does.
	WhiteList *string
	// PatchAllowed is what holds where it says nothing.
	PatchAllowed bool
}

// Validate returns everything that is wrong with a set. Values that were stored already and are unchanged are not wrong, but
// for the permission to patch annotations, which may have been taken away; old is nil on creation. Whether it gets into
// another's way is looked at last, once it is right in itself.
func Validate(old, set *v1beta1.SidecarSet, c *Cluster) field.ErrorList {
	is := defaulted(set)
	errs := validateSet(is, c)
	var was *v1beta1.SidecarSet
	if old == nil {
		errs = append(errs, validateNewCanary(is, c.Sets)...)
	} else {
		was = defaulted(old)
		errs = admission.Ratchet(errs, validateSet(was, c), was, is)
		errs = append(errs, validateChange(was, is)...)
	}
	errs = append(errs, validatePin(was, is, c)...)
	errs = append(errs, validatePermission(is, c)...)
	if len(errs) > 0 {
		return errs
	}
	errs = validateOthers(is, c.Sets)
	if was != nil {
		errs = admission.Ratchet(errs, validateOthers(was, c.Sets), was, is)
	}
	return errs
}

// validateSet is for what can be said without knowing what was there before.
func validateSet(set *v1beta1.SidecarSet, c *Cluster) field.ErrorList {
	spec, s := field.NewPath("spec"), &set.Spec
	var errs field.ErrorList
	errs = append(errs, validateName(set)...)
	errs = append(errs, validateCanary(set, c.Sets)...)
	if s.Selector == nil {
		errs = append(errs, field.Required(spec.Child("selector"), "says which Pods are injected"))
	}
	errs = append(errs, admission.CheckNarrow(s.Selector, spec.Child("selector"))...)
	errs = append(errs, admission.CheckNarrow(s.NamespaceSelector, spec.Child("namespaceSelector"))...)
	errs = append(errs, validateUpdateStrategy(s, spec.Child("updateStrategy"))...)
	if s.RevisionHistoryLimit != nil {
		errs = append(errs, admission.NotNegative(*s.RevisionHistoryLimit, spec.Child("revisionHistoryLimit"))...)
	}
	for _, problem := range validation.IsValidLabelValue(s.CustomVersion) {
		errs = append(errs, field.Invalid(spec.Child("customVersion"), s.CustomVersion, problem))
	}
	if len(s.Containers)+len(s.InitContainers) == 0 {
		errs = append(errs, field.Required(spec, "at least one of containers and initContainers"))
	}
	errs = append(errs, validateContainers(s, spec)...)
	return append(errs, validateMetadata(s.PatchPodMetadata, spec.Child("patchPodMetadata"))...)
}

const maxName = 63

func validateName(set *v1beta1.SidecarSet) field.ErrorList {
	at, name := field.NewPath("metadata", "name"), set.Name
	if name == "" {
		at, name = field.NewPath("metadata", "generateName"), set.GenerateName
	}
	var errs field.ErrorList
	if !regexp.MustCompile(`^[a-zA-Z0-9\-]+$`).MatchString(name) {
		errs = append(errs, field.Invalid(at, name, "must consist of letters, digits and -"))
	}
	if len(name) > maxName {
		errs = append(errs, field.TooLong(at, name, maxName))
	}
	return errs
}

func validateUpdateStrategy(s *v1beta1.SidecarSetSpec, at *field.Path) field.ErrorList {
	u := &s.UpdateStrategy
	var errs field.ErrorList
	switch u.Type {
	case v1beta1.NotUpdateSidecarSetStrategyType:
	case v1beta1.RollingUpdateSidecarSetStrategyType:
		if injection.HasNative(s.InitContainers) {
			errs = append(errs, field.Invalid(at.Child("type"), u.Type, "must be NotUpdate where an init container has restartPolicy Always: it cannot be upgraded"))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("type"), u.Type, []v1beta1.SidecarSetUpdateStrategyType{
			v1beta1.NotUpdateSidecarSetStrategyType, v1beta1.RollingUpdateSidecarSetStrategyType,
		}))
	}
	if p := u.Partition; u.Selector != nil && p != nil && (p.Type == intstr.String || p.IntVal != 0) {
		errs = append(errs, field.Invalid(at, p.String(), "only one of selector and partition"))
	}
	errs = append(errs, admission.CheckNarrow(u.Selector, at.Child("selector"))...)
	errs = append(errs, admission.CheckWholeAmount(u.Partition, 0, at.Child("partition"))...)
	errs = append(errs, admission.CheckWholeAmount(u.MaxUnavailable, 0, at.Child("maxUnavailable"))...)
	errs = append(errs, admission.CheckPriority(u.PriorityStrategy, at.Child("priorityStrategy"))...)
	return append(errs, admission.CheckScatter(u.ScatterStrategy, at.Child("scatterStrategy"))...)
}

// base names the set that a canary stands in for; "" for others.
func base(set *v1beta1.SidecarSet) string {
	if set.Annotations[pub.SidecarSetCanaryKey] != "true" {
		return ""
	}
	return set.Annotations[pub.SidecarSetBaseKey]
}

func validateCanary(set *v1beta1.SidecarSet, sets []*v1beta1.SidecarSet) field.ErrorList {
	name := base(set)
	if name == "" {
		return nil
	}
	problem := "is the name of no SidecarSet"
	for _, other := range sets {
		switch {
		case other.Name != name:
		case base(other) != "":
			problem = "is the name of a canary: there are two levels at most"
		default:
			problem = ""
		}
	}
	if name == set.Name {
		problem = "is the name of the canary itself"
	}
	at := field.NewPath("metadata", "annotations")
	var errs field.ErrorList
	if problem != "" {
		errs = append(errs, field.Invalid(at, name, pub.SidecarSetBaseKey+" "+problem))
	}
	if set.Spec.UpdateStrategy.Type != v1beta1.NotUpdateSidecarSetStrategyType {
		errs = append(errs, field.Invalid(at, "true", pub.SidecarSetCanaryKey+" needs spec.updateStrategy.type NotUpdate"))
	}
	return errs
}

// validateNewCanary refuses a canary that others are waiting for as their base, which may have been deleted while they stayed.
func validateNewCanary(set *v1beta1.SidecarSet, sets []*v1beta1.SidecarSet) field.ErrorList {
	if base(set) == "" || !slices.ContainsFunc(sets, func(other *v1beta1.SidecarSet) bool { return other.Name != set.Name && base(other) == set.Name }) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations"), "true",
		pub.SidecarSetCanaryKey+" is not for the base of another canary: there are two levels at most")}
}

// validateChange refuses what would leave running Pods behind.
func validateChange(was, is *v1beta1.SidecarSet) field.ErrorList {
	var errs field.ErrorList
	// Without the other annotation that of the base says nothing, so that what was no canary cannot have had a base.
	if name := base(is); name != "" && name != base(was) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations"), name, pub.SidecarSetBaseKey+" cannot be changed, and no other SidecarSet can become a canary"))
	}
	types := map[string]v1beta1.SidecarContainerUpgradeType{}
	for i := range was.Spec.Containers {
		types[was.Spec.Containers[i].Name] = was.Spec.Containers[i].UpgradeStrategy.UpgradeType
	}
	for i := range is.Spec.Containers {
		c, at := &is.Spec.Containers[i], field.NewPath("spec", "containers").Index(i)
		switch before, known := types[c.Name]; {
		case !known:
			errs = append(errs, field.Invalid(at.Child("name"), c.Name, "containers can be neither added nor renamed: running Pods would never get them"))
		case before != c.UpgradeStrategy.UpgradeType:
			errs = append(errs, field.Invalid(at.Child("upgradeStrategy", "upgradeType"), c.UpgradeStrategy.UpgradeType, "cannot be changed"))
		}
	}
	return errs
}

// validatePin checks the revision that is injected. Whether it exists is asked when it is new or begins to count: it must not
// block other changes once it is gone.
func validatePin(was, is *v1beta1.SidecarSet, c *Cluster) field.ErrorList {
	r, at := is.Spec.InjectionStrategy.Revision, field.NewPath("spec", "injectionStrategy", "revision")
	if r == nil {
		return nil
	}
	if was != nil && equality.Semantic.DeepEqual(was.Spec.InjectionStrategy.Revision, r) && (is.Spec.InjectionStrategy.Paused || !was.Spec.InjectionStrategy.Paused) {
		return nil
	}
	var errs field.ErrorList
	switch name, version := ptr.Deref(r.RevisionName, ""), ptr.Deref(r.CustomVersion, ""); {
	case name == "" && version == "":
		errs = append(errs, field.Invalid(at, "", "one of revisionName and customVersion"))
	case !c.hasRevision(is.Name, name, version):
		errs = append(errs, field.Invalid(at, name+version, "is no revision of this SidecarSet"))
	}
	if r.Policy != v1beta1.AlwaysSidecarSetInjectRevisionPolicy && r.Policy != v1beta1.PartialSidecarSetInjectRevisionPolicy {
		errs = append(errs, field.Invalid(at.Child("policy"), r.Policy, "must be Always or Partial"))
	}
	return errs
}

// hasRevision looks for a name or, without one, for a custom version.
func (c *Cluster) hasRevision(set, name, version string) bool {
	for _, r := range c.Revisions {
		if r.Labels[pub.SidecarSetNameKey] == set && (r.Name == name || name == "" && r.Labels[pub.SidecarSetCustomVersionKey] == version) {
			return true
		}
	}
	return false
}
