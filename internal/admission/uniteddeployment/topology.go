package uniteddeployment

import (
	"fmt"
	"math/big"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/subset"
)

// mostSubsets is as the schema has it.
const mostSubsets = 100

// unlimited is what a subset without maxReplicas counts as.
const unlimited = 1000000

func validateTopology(s *v1beta1.UnitedDeploymentSpec, at *field.Path) field.ErrorList {
	strategy, path := &s.Topology.ScheduleStrategy, at.Child("scheduleStrategy")
	var errs field.ErrorList
	isAdaptive := strategy.Type == v1beta1.AdaptiveUnitedDeploymentScheduleStrategyType
	if a := strategy.Adaptive; a != nil {
		if isAdaptive && a.ReserveUnschedulablePods && isStateful(&s.Template) {
			errs = append(errs, field.Invalid(path, "", "reserveUnschedulablePods is not for StatefulSets"))
		}
		if v := a.RescheduleCriticalSeconds; v != nil {
			errs = append(errs, admission.NotNegative(*v, path.Child("adaptive", "rescheduleCriticalSeconds"))...)
		}
		if v := a.UnschedulableDuration; v != nil {
			errs = append(errs, admission.NotNegative(*v, path.Child("adaptive", "unschedulableDuration"))...)
		}
	}
	names := map[string]bool{}
	subsets := at.Child("subsets")
	if tooMany := admission.CheckCount(len(s.Topology.Subsets), mostSubsets, subsets); len(tooMany) > 0 {
		return append(errs, tooMany...)
	}
	sums := amounts{total: *s.Replicas, isUnreadable: *s.Replicas < 0}
	for i := range s.Topology.Subsets {
		one, place := &s.Topology.Subsets[i], subsets.Index(i)
		errs = append(errs, validateSubsetName(one.Name, names, place.Child("name"))...)
		errs = append(errs, validateTerm(&one.NodeSelectorTerm, place.Child("nodeSelectorTerm"))...)
		errs = append(errs, validateTolerations(one.Tolerations, place.Child("tolerations"))...)
		if isAdaptive && one.Replicas != nil {
			errs = append(errs, field.Forbidden(place.Child("replicas"), "the strategy is Adaptive: use minReplicas and maxReplicas"))
		}
		errs = append(errs, sums.add(one, place)...)
	}
	return append(errs, sums.check(subsets)...)
}

func validateSubsetName(name string, names map[string]bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(at, "names the subset"))
	}
	for _, problem := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(at, name, problem))
	}
	if names[name] {
		errs = append(errs, field.Invalid(at, name, "is the name of another subset too"))
	}
	names[name] = true
	return errs
}

// amounts sums up what the subsets ask for.
type amounts struct {
	total                      int32
	subsets, shared, unbounded int
	isBounded, isUnreadable    bool
	shares, minimums, maximums int64
	exactShares                big.Rat
}

func (a *amounts) add(s *v1beta1.Subset, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	resolve := func(name string, q *intstr.IntOrString, absent int64) int64 {
		if q == nil {
			return absent
		}
		n, err := subset.Resolve(*q, max(0, a.total))
		if err != nil {
			errs = append(errs, field.Invalid(at.Child(name), q.String(), err.Error()))
		}
		return n
	}
	share := resolve("replicas", s.Replicas, 0)
	low, high := resolve("minReplicas", s.MinReplicas, 0), resolve("maxReplicas", s.MaxReplicas, unlimited)
	a.subsets++
	if len(errs) > 0 {
		a.isUnreadable = true
		return errs
	}
	if s.Replicas != nil {
		a.shared++
		if exact, err := subset.Exact(*s.Replicas, max(0, a.total)); err == nil {
			a.exactShares.Add(&a.exactShares, exact)
		}
	}
	a.isBounded = a.isBounded || s.MinReplicas != nil || s.MaxReplicas != nil
	if s.MaxReplicas == nil {
		a.unbounded++
	}
	a.shares, a.minimums, a.maximums = a.shares+share, a.minimums+low, a.maximums+high
	if low > high {
		errs = append(errs, field.Invalid(at.Child("minReplicas"), s.MinReplicas.String(), fmt.Sprintf("must not be more than maxReplicas: of %d Pods that is %d", a.total, high)))
	}
	return errs
}

func (a *amounts) check(at *field.Path) field.ErrorList {
	if problem := a.problem(); problem != "" {
		return field.ErrorList{field.Invalid(at, a.subsets, problem)}
	}
	return nil
}

// problem compares the sums with the total. Shares that miss it only because percentages are rounded are put right when they
// are given out.
func (a *amounts) problem() string {
	total := big.NewRat(int64(a.total), 1)
	switch {
	case a.isUnreadable:
	case a.isBounded && a.shared > 0:
		return "either replicas, or minReplicas and maxReplicas, for all of them"
	case a.isBounded && a.unbounded == 0:
		return "one must be without maxReplicas, to take the rest"
	case a.isBounded && a.minimums > a.maximums:
		return fmt.Sprintf("the sum of minReplicas, %d, must not be more than that of maxReplicas, %d", a.minimums, a.maximums)
	case a.isBounded:
	case a.shares > int64(a.total) && a.exactShares.Cmp(total) > 0:
		return fmt.Sprintf("the sum of replicas, %d, must not be more than spec.replicas, %d", a.shares, a.total)
	case a.subsets > 0 && a.shared == a.subsets && a.shares < int64(a.total) && a.exactShares.Cmp(total) < 0:
		return fmt.Sprintf("the sum of replicas, %d, must be spec.replicas, %d, where every subset has them", a.shares, a.total)
	}
	return ""
}
