package cloneset

import (
	"math"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/rollout"
)

// Validate returns everything that is wrong with a set. Values that were stored already and are unchanged are not wrong:
// old is what they are compared with, nil on creation.
func Validate(old, set *v1beta1.CloneSet) field.ErrorList {
	spec := field.NewPath("spec")
	s := &set.Spec
	var errs field.ErrorList
	errs = append(errs, validateNumbers(s, spec)...)
	errs = append(errs, admission.CheckSelector(s.Selector, s.Template.Labels, spec)...)
	errs = append(errs, admission.CheckEndless(&s.Template.Spec, spec.Child("template", "spec"))...)
	errs = append(errs, admission.CheckClaims(s.VolumeClaimTemplates, spec.Child("volumeClaimTemplates"))...)
	errs = append(errs, admission.CheckClaimSpecs(s.VolumeClaimTemplates, spec.Child("volumeClaimTemplates"))...)
	errs = append(errs, validateScale(&s.ScaleStrategy, spec.Child("scaleStrategy"))...)
	errs = append(errs, validateUpdate(s, spec.Child("updateStrategy"))...)
	if old == nil {
		return errs
	}
	errs = admission.Ratchet(errs, Validate(nil, old), old, set)
	if !equality.Semantic.DeepEqual(old.Spec.Selector, s.Selector) {
		errs = append(errs, field.Forbidden(spec.Child("selector"), "may not be changed"))
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil && r.PodUpdatePolicy == v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType {
		errs = append(errs, admission.CheckInPlaceOnly(&old.Spec.Template, &s.Template, spec.Child("template"))...)
	}
	return errs
}

func validateNumbers(s *v1beta1.CloneSetSpec, at *field.Path) field.ErrorList {
	errs := admission.NotNegative(ptr.Deref(s.Replicas, 1), at.Child("replicas"))
	errs = append(errs, admission.NotNegative(s.MinReadySeconds, at.Child("minReadySeconds"))...)
	errs = append(errs, admission.NotNegative(ptr.Deref(s.RevisionHistoryLimit, 0), at.Child("revisionHistoryLimit"))...)
	if d := s.ProgressDeadlineSeconds; d != nil && *d != math.MaxInt32 && *d <= s.MinReadySeconds {
		errs = append(errs, field.Invalid(at.Child("progressDeadlineSeconds"), *d, "must be greater than minReadySeconds"))
	}
	return errs
}

func validateScale(s *v1beta1.CloneSetScaleStrategy, at *field.Path) field.ErrorList {
	errs := admission.CheckAmount(s.MaxUnavailable, at.Child("maxUnavailable"))
	if tooMany := admission.CheckCount(len(s.PodsToDelete), admission.MostNames, at.Child("podsToDelete")); len(tooMany) > 0 {
		return append(errs, tooMany...)
	}
	seen := map[string]bool{}
	for _, name := range s.PodsToDelete {
		if seen[name] {
			errs = append(errs, field.Invalid(at.Child("podsToDelete"), name, "is named twice"))
		}
		seen[name] = true
	}
	return errs
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
	amounts := admission.CheckAmount(r.Partition, path.Child("partition"))
	amounts = append(amounts, admission.CheckAmount(r.MaxUnavailable, path.Child("maxUnavailable"))...)
	amounts = append(amounts, admission.CheckAmount(r.MaxSurge, path.Child("maxSurge"))...)
	if errs = append(errs, amounts...); len(amounts) == 0 {
		errs = append(errs, validateBudget(s, r, path)...)
	}
	errs = append(errs, admission.CheckInPlaceStrategy(r.InPlaceUpdateStrategy, path.Child("inPlaceUpdateStrategy"))...)
	errs = append(errs, admission.CheckPriority(r.PriorityStrategy, path.Child("priorityStrategy"))...)
	return append(errs, admission.CheckScatter(r.ScatterStrategy, path.Child("scatterStrategy"))...)
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

// advise is about what is allowed in a set but hardly meant.
func advise(s *v1beta1.CloneSetSpec, at *field.Path) []string {
	warnings := AdviseTemplate(s, at)
	if r := s.UpdateStrategy.RollingUpdate; r != nil {
		warnings = append(warnings, admission.WarnOfMoreThanAll(r.Partition, admission.MeansNone, at.Child("updateStrategy", "rollingUpdate", "partition"))...)
	}
	return warnings
}

// AdviseTemplate is the same for sets whose partition somebody else sets.
func AdviseTemplate(s *v1beta1.CloneSetSpec, at *field.Path) []string {
	warnings := admission.WarnOfMoreThanAll(s.ScaleStrategy.MaxUnavailable, admission.MeansAll, at.Child("scaleStrategy", "maxUnavailable"))
	if r := s.UpdateStrategy.RollingUpdate; r != nil {
		warnings = append(warnings, admission.WarnOfMoreThanAll(r.MaxUnavailable, admission.MeansAll, at.Child("updateStrategy", "rollingUpdate", "maxUnavailable"))...)
	}
	return warnings
}
