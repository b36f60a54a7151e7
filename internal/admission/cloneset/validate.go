package cloneset

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/rollout"
)

// Validate returns everything that is wrong with a set. Values that were stored already and are unchanged are not wrong:
// old is what they are compared with, nil on creation.
func Validate(old, set *v1beta1.CloneSet) field.ErrorList {
	spec := field.NewPath("spec")
	s := &set.Spec
	var errs field.ErrorList
	errs = append(errs, validateNumbers(s, spec)...)
	errs = append(errs, validateSelector(s, spec)...)
	errs = append(errs, validateTemplate(s, spec)...)
	errs = append(errs, validateScale(&s.ScaleStrategy, spec.Child("scaleStrategy"))...)
	errs = append(errs, validateUpdate(s, spec.Child("updateStrategy"))...)
	if old == nil {
		return errs
	}
	errs = ratchet(errs, old)
	if !equality.Semantic.DeepEqual(old.Spec.Selector, s.Selector) {
		errs = append(errs, field.Forbidden(spec.Child("selector"), "may not be changed"))
	}
	return append(errs, validateInPlace(old, set, spec.Child("template"))...)
}

// ratchet drops what was wrong before as well.
func ratchet(errs field.ErrorList, old *v1beta1.CloneSet) field.ErrorList {
	known := map[string]bool{}
	for _, e := range Validate(nil, old) {
		known[e.Error()] = true
	}
	var fresh field.ErrorList
	for _, e := range errs {
		if !known[e.Error()] {
			fresh = append(fresh, e)
		}
	}
	return fresh
}

func validateNumbers(s *v1beta1.CloneSetSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	notNegative := func(name string, value int32) {
		if value < 0 {
			errs = append(errs, field.Invalid(at.Child(name), value, "must not be negative"))
		}
	}
	notNegative("replicas", ptr.Deref(s.Replicas, 1))
	notNegative("minReadySeconds", s.MinReadySeconds)
	notNegative("revisionHistoryLimit", ptr.Deref(s.RevisionHistoryLimit, 0))
	if d := s.ProgressDeadlineSeconds; d != nil && *d != math.MaxInt32 && *d <= s.MinReadySeconds {
		errs = append(errs, field.Invalid(at.Child("progressDeadlineSeconds"), *d, "must be greater than minReadySeconds"))
	}
	return errs
}

func validateSelector(s *v1beta1.CloneSetSpec, at *field.Path) field.ErrorList {
	path := at.Child("selector")
	if s.Selector == nil {
		return field.ErrorList{field.Required(path, "says which Pods the set keeps")}
	}
	errs := metavalidation.ValidateLabelSelector(s.Selector, metavalidation.LabelSelectorValidationOptions{}, path)
	if len(s.Selector.MatchLabels)+len(s.Selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(path, s.Selector, "must not be empty: it would select every Pod"))
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	if len(errs) > 0 || err != nil {
		return errs
	}
	if !selector.Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("template", "metadata", "labels"), s.Template.Labels, "must match spec.selector"))
	}
	return errs
}

func validateTemplate(s *v1beta1.CloneSetSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	spec := at.Child("template", "spec")
	if p := s.Template.Spec.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(spec.Child("restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if s.Template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(spec.Child("activeDeadlineSeconds"), "the set would replace its Pods for ever"))
	}
	names := map[string]bool{}
	for i := range s.VolumeClaimTemplates {
		name := s.VolumeClaimTemplates[i].Name
		path := at.Child("volumeClaimTemplates").Index(i).Child("metadata", "name")
		switch {
		case name == "":
			errs = append(errs, field.Required(path, "names the volume"))
		case names[name]:
			errs = append(errs, field.Duplicate(path, name))
		}
		names[name] = true
	}
	return errs
}

func validateScale(s *v1beta1.CloneSetScaleStrategy, at *field.Path) field.ErrorList {
	errs := amount(s.MaxUnavailable, at.Child("maxUnavailable"))
	seen := map[string]bool{}
	for _, name := range s.PodsToDelete {
		if seen[name] {
			errs = append(errs, field.Invalid(at.Child("podsToDelete"), name, "is named twice"))
		}
		seen[name] = true
	}
	return errs
}

// amount checks a number or percentage of Pods.
func amount(v *intstr.IntOrString, at *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	if _, err := rollout.Scaled(v, 1, 0, rollout.Up); err != nil {
		return field.ErrorList{field.Invalid(at, v.String(), err.Error())}
	}
	return nil
}

func validateUpdate(s *v1beta1.CloneSetSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch s.UpdateStrategy.Type {
	case "", v1beta1.RollingUpdateCloneSetUpdateStrategyType, v1beta1.OnDeleteCloneSetUpdateStrategyType:
	default:
		errs = append(errs, field.Invalid(at.Child("type"), s.UpdateStrategy.Type, "must be RollingUpdate or OnDelete"))
	}
	r, path := s.UpdateStrategy.RollingUpdate, at.Child("rollingUpdate")
	if r == nil {
		return errs
	}
	switch r.PodUpdatePolicy {
	case "", v1beta1.ReCreateCloneSetPodUpdatePolicyType, v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType, v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType:
	default:
		errs = append(errs, field.Invalid(path.Child("podUpdatePolicy"), r.PodUpdatePolicy, "must be ReCreate, InPlaceIfPossible or InPlaceOnly"))
	}
	amounts := amount(r.Partition, path.Child("partition"))
	amounts = append(amounts, amount(r.MaxUnavailable, path.Child("maxUnavailable"))...)
	amounts = append(amounts, amount(r.MaxSurge, path.Child("maxSurge"))...)
	if errs = append(errs, amounts...); len(amounts) == 0 {
		errs = append(errs, validateBudget(s, r, path)...)
	}
	errs = append(errs, validateInPlaceStrategy(r.InPlaceUpdateStrategy, path.Child("inPlaceUpdateStrategy"))...)
	errs = append(errs, validatePriority(r.PriorityStrategy, path.Child("priorityStrategy"))...)
	terms := map[string]bool{}
	for i, t := range r.ScatterStrategy {
		at := path.Child("scatterStrategy").Index(i)
		if t.Key == "" {
			errs = append(errs, field.Required(at.Child("key"), "names a label"))
		}
		if id := t.Key + "=" + t.Value; terms[id] {
			errs = append(errs, field.Required(at, fmt.Sprintf("%s is there twice", id)))
		} else {
			terms[id] = true
		}
	}
	return errs
}

func validateInPlaceStrategy(p *pub.InPlaceUpdateStrategy, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	for name, n := range map[string]*int32{
		"gracePeriodSeconds": &p.GracePeriodSeconds, "imagePreDownloadTimeoutSeconds": p.ImagePreDownloadTimeoutSeconds,
		"imagePreDownloadMinUpdatedReadyPods": p.ImagePreDownloadMinUpdatedReadyPods,
	} {
		if ptr.Deref(n, 0) < 0 {
			errs = append(errs, field.Invalid(at.Child(name), *n, "must not be negative"))
		}
	}
	if v := p.ImagePreDownloadParallelism; v != nil {
		if n, err := strconv.Atoi(v.String()); err != nil || n < 0 {
			errs = append(errs, field.Invalid(at.Child("imagePreDownloadParallelism"), v.String(), "must be a number of 0 or more: there is nothing that a percentage could be of"))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}

// validateBudget is for amounts that can be read.
func validateBudget(s *v1beta1.CloneSetSpec, r *v1beta1.RollingUpdateCloneSetStrategy, path *field.Path) field.ErrorList {
	replicas := int(ptr.Deref(s.Replicas, 1))
	// They have been read once.
	unavailable, _ := rollout.Scaled(r.MaxUnavailable, replicas, 0, rollout.Up)
	surge, _ := rollout.Scaled(r.MaxSurge, replicas, 0, rollout.Up)
	var errs field.ErrorList
	// One that is left out gets its default, which is never 0.
	if replicas > 0 && r.MaxUnavailable != nil && unavailable == 0 && surge == 0 {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), r.MaxUnavailable.String(), "must not be 0 where maxSurge is 0 as well: no Pod could ever be updated"))
	}
	if surge > 0 && r.PodUpdatePolicy == v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType {
		errs = append(errs, field.Invalid(path.Child("maxSurge"), r.MaxSurge.String(), "must be 0 with podUpdatePolicy InPlaceOnly: no Pod is ever replaced"))
	}
	return errs
}

func validatePriority(p *pub.UpdatePriorityStrategy, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	if len(p.WeightPriority) > 0 && len(p.OrderPriority) > 0 {
		errs = append(errs, field.Required(at, "only one of weightPriority and orderPriority"))
	}
	for i := range p.WeightPriority {
		t, path := &p.WeightPriority[i], at.Child("weightPriority").Index(i)
		if t.Weight < 0 || t.Weight > 100 {
			errs = append(errs, field.Required(path.Child("weight"), fmt.Sprintf("0 to 100: %d", t.Weight)))
		}
		if _, err := metav1.LabelSelectorAsSelector(&t.MatchSelector); err != nil || len(t.MatchSelector.MatchLabels)+len(t.MatchSelector.MatchExpressions) == 0 {
			errs = append(errs, field.Required(path.Child("matchSelector"), "a selector that is valid and not empty"))
		}
	}
	for i, t := range p.OrderPriority {
		if t.OrderedKey == "" {
			errs = append(errs, field.Required(at.Child("orderPriority").Index(i).Child("orderedKey"), "names a label"))
		}
	}
	return errs
}

// validateInPlace refuses, where Pods are never replaced, what cannot be done to a Pod in place.
func validateInPlace(old, set *v1beta1.CloneSet, at *field.Path) field.ErrorList {
	r := set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.PodUpdatePolicy != v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType {
		return nil
	}
	was, is := old.DeepCopy(), set.DeepCopy()
	v1beta1.SetDefaults_CloneSet(was)
	v1beta1.SetDefaults_CloneSet(is)
	change, err := inplace.Compare(&was.Spec.Template, &is.Spec.Template, inplace.Abilities{Resize: true})
	if err == nil {
		err = change.CheckServed(&corev1.Pod{})
	}
	if err != nil {
		return field.ErrorList{field.Forbidden(at, "podUpdatePolicy is InPlaceOnly: "+err.Error())}
	}
	return nil
}
