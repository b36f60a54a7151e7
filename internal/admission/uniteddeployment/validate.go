package uniteddeployment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/subset"
)

// Names of workloads and revisions are made of the object's.
const (
	maxName = 52
	// restOfPodLabel is what a StatefulSet adds to the names of object and subset in a label of its Pods.
	restOfPodLabel = 7
)

// anyRevision stands for the revision of the template, which is not known yet.
const anyRevision = "revision"

// Validate returns everything that is wrong with an object, and what is worth a warning. Values that were stored already and
// are unchanged are not wrong: old is what they are compared with, nil on creation.
func Validate(old, object *v1beta1.UnitedDeployment) (field.ErrorList, []string) {
	is := defaulted(object)
	errs, warnings := validateObject(is)
	if old != nil {
		was := defaulted(old)
		before, _ := validateObject(was)
		errs = admission.Ratchet(errs, before, was, is)
		errs = append(errs, validateChange(was, is)...)
		old = was
	}
	return append(errs, validatePatches(old, is)...), warnings
}

func defaulted(object *v1beta1.UnitedDeployment) *v1beta1.UnitedDeployment {
	object = object.DeepCopy()
	v1beta1.SetDefaults_UnitedDeployment(object)
	return object
}

// validateObject is for what can be said without knowing what was there before.
func validateObject(object *v1beta1.UnitedDeployment) (field.ErrorList, []string) {
	spec, s := field.NewPath("spec"), &object.Spec
	var errs field.ErrorList
	if len(object.Name) > maxName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), object.Name, fmt.Sprintf("must be at most %d characters", maxName)))
	}
	errs = append(errs, admission.NotNegative(*s.Replicas, spec.Child("replicas"))...)
	errs = append(errs, admission.NotNegative(*s.RevisionHistoryLimit, spec.Child("revisionHistoryLimit"))...)
	if s.Selector == nil {
		errs = append(errs, field.Required(spec.Child("selector"), "is on all Pods of all subsets"))
	}
	errs = append(errs, admission.CheckNarrow(s.Selector, spec.Child("selector"))...)
	more, warnings := validateTemplate(&s.Template, selectorOf(s))
	errs = append(errs, more...)
	errs = append(errs, validateTopology(s, spec.Child("topology"))...)
	errs = append(errs, validateStrategy(s, spec.Child("updateStrategy"))...)
	return errs, append(warnings, longNames(object)...)
}

// selectorOf is nil for one that cannot be read.
func selectorOf(s *v1beta1.UnitedDeploymentSpec) labels.Selector {
	if s.Selector == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	if err != nil {
		// CheckNarrow has said so.
		return nil
	}
	return selector
}

// longNames warns of what a StatefulSet of a subset cannot do.
func longNames(object *v1beta1.UnitedDeployment) []string {
	var warnings []string
	if !isStateful(&object.Spec.Template) {
		return nil
	}
	for i, s := range object.Spec.Topology.Subsets {
		if len(object.Name)+len(s.Name)+restOfPodLabel > maxName {
			warnings = append(warnings, fmt.Sprintf("spec.topology.subsets[%d].name: with the object's it has more than %d characters: no StatefulSet can label its Pods", i, maxName-restOfPodLabel))
		}
	}
	return warnings
}

func isStateful(t *v1beta1.SubsetTemplate) bool {
	return slices.ContainsFunc(workloads(t), func(w workload) bool { return w.isStateful })
}

func validateStrategy(s *v1beta1.UnitedDeploymentSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	u := &s.UpdateStrategy
	if u.Type != v1beta1.ManualUpdateStrategyType {
		errs = append(errs, field.NotSupported(at.Child("type"), u.Type, []v1beta1.UpdateStrategyType{v1beta1.ManualUpdateStrategyType}))
	}
	if u.ManualUpdate == nil {
		return errs
	}
	path := at.Child("manualUpdate", "partitions")
	for _, name := range slices.Sorted(maps.Keys(u.ManualUpdate.Partitions)) {
		if !slices.ContainsFunc(s.Topology.Subsets, func(s v1beta1.Subset) bool { return s.Name == name }) {
			errs = append(errs, field.Invalid(path, name, "is the name of no subset"))
		}
		errs = append(errs, admission.NotNegative(u.ManualUpdate.Partitions[name], path.Key(name))...)
	}
	return errs
}

// validateChange refuses what workloads that are there already could not follow.
func validateChange(was, is *v1beta1.UnitedDeployment) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(was.Spec.Selector, is.Spec.Selector) {
		errs = append(errs, field.Invalid(spec.Child("selector"), is.Spec.Selector, "cannot be changed: the workloads that there are would be left behind"))
	}
	before := byName(was)
	for i := range is.Spec.Topology.Subsets {
		s, at := &is.Spec.Topology.Subsets[i], spec.Child("topology", "subsets").Index(i)
		old, there := before[s.Name]
		if !there {
			continue
		}
		if !equality.Semantic.DeepEqual(old.NodeSelectorTerm, s.NodeSelectorTerm) {
			errs = append(errs, field.Forbidden(at.Child("nodeSelectorTerm"), "cannot be changed"))
		}
		if !equality.Semantic.DeepEqual(old.Tolerations, s.Tolerations) {
			errs = append(errs, field.Forbidden(at.Child("tolerations"), "cannot be changed"))
		}
	}
	template := spec.Child("template")
	if a, b := was.Spec.Template.StatefulSetTemplate, is.Spec.Template.StatefulSetTemplate; a != nil && b != nil && isRebuilt(&a.Spec, &b.Spec) {
		errs = append(errs, field.Forbidden(template.Child("statefulSetTemplate", "spec"), "serviceName, podManagementPolicy and volumeClaimTemplates cannot be changed"))
	}
	if a, b := was.Spec.Template.AdvancedStatefulSetTemplate, is.Spec.Template.AdvancedStatefulSetTemplate; a != nil && b != nil && isRebuiltAdvanced(&a.Spec, &b.Spec) {
		errs = append(errs, field.Forbidden(template.Child("advancedStatefulSetTemplate", "spec"), "selector, serviceName and podManagementPolicy cannot be changed"))
	}
	return errs
}

func isRebuilt(a, b *appsv1.StatefulSetSpec) bool {
	const policy = appsv1.OrderedReadyPodManagement
	return a.ServiceName != b.ServiceName || cmp.Or(a.PodManagementPolicy, policy) != cmp.Or(b.PodManagementPolicy, policy) ||
		!equality.Semantic.DeepEqual(a.VolumeClaimTemplates, b.VolumeClaimTemplates)
}

func isRebuiltAdvanced(a, b *v1beta1.StatefulSetSpec) bool {
	const policy = v1beta1.OrderedReadyPodManagement
	return a.ServiceName != b.ServiceName || cmp.Or(a.PodManagementPolicy, policy) != cmp.Or(b.PodManagementPolicy, policy) ||
		a.Selector != nil && !equality.Semantic.DeepEqual(a.Selector, b.Selector)
}

// validatePatches tries the patches that are new, or new for this template: a workload that they spoil would never come.
func validatePatches(old, object *v1beta1.UnitedDeployment) field.ErrorList {
	selector := selectorOf(&object.Spec)
	var errs field.ErrorList
	for _, p := range changedPatches(old, object) {
		for _, w := range workloads(&object.Spec.Template) {
			if problem := patchProblem(&w, p.subset, selector); problem != "" {
				errs = append(errs, field.Invalid(p.at, string(p.subset.Patch.Raw), problem))
			}
		}
	}
	return errs
}

func patchProblem(w *workload, s *v1beta1.Subset, selector labels.Selector) string {
	t, err := subset.PodTemplate(w.pods, s, anyRevision)
	switch {
	case err != nil:
		return err.Error()
	case t.Labels[pub.SubsetNameKey] != s.Name || t.Labels[pub.SubsetRevisionKey] != anyRevision:
		return fmt.Sprintf("must leave labels %s and %s alone", pub.SubsetNameKey, pub.SubsetRevisionKey)
	case selector != nil && selector.Matches(labels.Set(w.pods.Labels)) && !selector.Matches(labels.Set(t.Labels)):
		return "must leave the labels of spec.selector alone"
	}
	return ""
}
