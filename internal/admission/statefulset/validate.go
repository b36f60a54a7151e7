package statefulset

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/ordinals"
)

// longestName leaves room in the labels of Pods for the hash of the revision.
const longestName = 52

// longestMinReady is in seconds.
const longestMinReady = 300

// Validate returns everything that is wrong with a set that has its defaults. Values that were stored already and are
// unchanged are not wrong: old is what they are compared with, nil on creation.
func Validate(old, set *v1beta1.StatefulSet, classes []*storagev1.StorageClass) field.ErrorList {
	errs := validateSpec(&set.Spec, field.NewPath("spec"))
	if old == nil {
		return append(admission.CheckName(&set.ObjectMeta, longestName), errs...)
	}
	errs = admission.Ratchet(errs, validateSpec(&old.Spec, field.NewPath("spec")), old, set)
	return append(errs, validateChange(&old.Spec, &set.Spec, classes, field.NewPath("spec"))...)
}

func validateSpec(s *v1beta1.StatefulSetSpec, at *field.Path) field.ErrorList {
	errs := admission.NotNegative(ptr.Deref(s.Replicas, 1), at.Child("replicas"))
	errs = append(errs, admission.NotNegative(ptr.Deref(s.RevisionHistoryLimit, 0), at.Child("revisionHistoryLimit"))...)
	errs = append(errs, validateManagement(s.PodManagementPolicy, at.Child("podManagementPolicy"))...)
	errs = append(errs, validateOrdinals(s, at)...)
	if s.ScaleStrategy != nil {
		errs = append(errs, validateBudget(s, s.ScaleStrategy.MaxUnavailable, at.Child("scaleStrategy", "maxUnavailable"))...)
	}
	errs = append(errs, validateUpdate(s, at)...)
	errs = append(errs, validateClaims(s, at)...)
	errs = append(errs, admission.CheckSelector(s.Selector, s.Template.Labels, at)...)
	// As for Deployments, a template's own labels have no "metadata" in their path.
	errs = append(errs, metavalidation.ValidateLabels(s.Template.Labels, at.Child("template", "labels"))...)
	errs = append(errs, validation.ValidateAnnotations(s.Template.Annotations, at.Child("template", "annotations"))...)
	return append(errs, admission.CheckEndless(&s.Template.Spec, at.Child("template", "spec"))...)
}

func validateManagement(p v1beta1.PodManagementPolicyType, at *field.Path) field.ErrorList {
	switch p {
	case v1beta1.OrderedReadyPodManagement, v1beta1.ParallelPodManagement:
		return nil
	case "":
		return field.ErrorList{field.Required(at, "OrderedReady or Parallel")}
	}
	return field.ErrorList{field.Invalid(at, p, "must be OrderedReady or Parallel")}
}

func validateOrdinals(s *v1beta1.StatefulSetSpec, at *field.Path) field.ErrorList {
	var start int32
	var errs field.ErrorList
	if s.Ordinals != nil {
		start = s.Ordinals.Start
		errs = admission.NotNegative(start, at.Child("ordinals", "start"))
	}
	if tooMany := admission.CheckCount(len(s.ReserveOrdinals), admission.MostNames, at.Child("reserveOrdinals")); len(tooMany) > 0 {
		return append(errs, tooMany...)
	}
	var reserved []ordinals.Range
	for i, entry := range s.ReserveOrdinals {
		r, err := ordinals.Parse(entry)
		if err != nil {
			errs = append(errs, field.Invalid(at.Child("reserveOrdinals").Index(i), entry.String(), err.Error()))
			continue
		}
		reserved = append(reserved, r)
	}
	replicas := ptr.Deref(s.Replicas, 1)
	if len(errs) == 0 && int64(start)+int64(replicas)+ordinals.Count(reserved) > math.MaxInt32 {
		errs = append(errs, field.Invalid(at.Child("replicas"), replicas, "with ordinals.start and reserveOrdinals the ordinals would exceed 2147483647"))
	}
	return errs
}

// validateBudget checks an amount of unavailable Pods.
func validateBudget(s *v1beta1.StatefulSetSpec, amount *intstr.IntOrString, at *field.Path) field.ErrorList {
	errs := admission.CheckWholeAmount(amount, 1, at)
	if amount != nil && *amount != intstr.FromInt32(1) && s.PodManagementPolicy != v1beta1.ParallelPodManagement {
		errs = append(errs, field.Invalid(at, amount.String(), "must be 1 unless podManagementPolicy is Parallel"))
	}
	return errs
}

func validateUpdate(s *v1beta1.StatefulSetSpec, spec *field.Path) field.ErrorList {
	at := spec.Child("updateStrategy")
	rolling := at.Child("rollingUpdate")
	switch s.UpdateStrategy.Type {
	case v1beta1.RollingUpdateStatefulSetStrategyType:
	case v1beta1.OnDeleteStatefulSetStrategyType:
		if s.UpdateStrategy.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(rolling, field.OmitValueType{}, "must be null where the type is OnDelete")}
		}
	case "":
		return field.ErrorList{field.Required(at, "type must be RollingUpdate or OnDelete")}
	default:
		return field.ErrorList{field.Invalid(at, s.UpdateStrategy.Type, "type must be RollingUpdate or OnDelete")}
	}
	if s.UpdateStrategy.RollingUpdate == nil {
		return nil
	}
	return validateRolling(s, s.UpdateStrategy.RollingUpdate, spec, rolling)
}

func validateRolling(s *v1beta1.StatefulSetSpec, r *v1beta1.RollingUpdateStatefulSetStrategy, spec, at *field.Path) field.ErrorList {
	errs := admission.NotNegative(ptr.Deref(r.Partition, 0), at.Child("partition"))
	if seconds := ptr.Deref(r.MinReadySeconds, 0); seconds < 0 || seconds > longestMinReady {
		errs = append(errs, field.Invalid(at.Child("minReadySeconds"), seconds, fmt.Sprintf("must be 0 to %d", longestMinReady)))
	}
	if r.MaxUnavailable == nil {
		errs = append(errs, field.Required(at.Child("maxUnavailable"), "at least 1"))
	}
	errs = append(errs, validateBudget(s, r.MaxUnavailable, at.Child("maxUnavailable"))...)
	switch r.PodUpdatePolicy {
	case v1beta1.RecreatePodUpdateStrategyType:
	case v1beta1.InPlaceIfPossiblePodUpdateStrategyType, v1beta1.InPlaceOnlyPodUpdateStrategyType:
		if !hasInPlaceGate(&s.Template.Spec) {
			errs = append(errs, field.Invalid(spec.Child("template", "spec", "readinessGates"), s.Template.Spec.ReadinessGates,
				fmt.Sprintf("must hold %s where podUpdatePolicy is %s", pub.InPlaceUpdateReady, r.PodUpdatePolicy)))
		}
	case "":
		errs = append(errs, field.Required(at.Child("podUpdatePolicy"), "ReCreate, InPlaceIfPossible or InPlaceOnly"))
	default:
		errs = append(errs, field.Invalid(at.Child("podUpdatePolicy"), r.PodUpdatePolicy, "must be ReCreate, InPlaceIfPossible or InPlaceOnly"))
	}
	if u := r.UnorderedUpdate; u != nil {
		if s.PodManagementPolicy != v1beta1.ParallelPodManagement {
			errs = append(errs, field.Required(at.Child("unorderedUpdate"), "may be set only if podManagementPolicy is Parallel"))
		}
		errs = append(errs, admission.CheckPriority(u.PriorityStrategy, at.Child("unorderedUpdate", "priorityStrategy"))...)
	}
	return errs
}

func hasInPlaceGate(s *corev1.PodSpec) bool {
	for _, g := range s.ReadinessGates {
		if g.ConditionType == pub.InPlaceUpdateReady {
			return true
		}
	}
	return false
}

// validateClaims checks what becomes of claims.
func validateClaims(s *v1beta1.StatefulSetSpec, at *field.Path) field.ErrorList {
	errs := admission.CheckClaims(s.VolumeClaimTemplates, at.Child("volumeClaimTemplates"))
	switch t := s.VolumeClaimUpdateStrategy.Type; t {
	case "", v1beta1.OnDeleteVolumeClaimUpdateStrategyType, v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType:
	default:
		errs = append(errs, field.NotSupported(at.Child("volumeClaimUpdateStrategy", "type"), t,
			[]v1beta1.VolumeClaimUpdateStrategyType{v1beta1.OnDeleteVolumeClaimUpdateStrategyType, v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType}))
	}
	p := s.PersistentVolumeClaimRetentionPolicy
	if p == nil {
		return errs
	}
	path := at.Child("persistentVolumeClaimRetentionPolicy")
	errs = append(errs, validateRetention(p.WhenDeleted, path.Child("whenDeleted"))...)
	return append(errs, validateRetention(p.WhenScaled, path.Child("whenScaled"))...)
}

func validateRetention(p v1beta1.PersistentVolumeClaimRetentionPolicyType, at *field.Path) field.ErrorList {
	switch p {
	case "", v1beta1.RetainPersistentVolumeClaimRetentionPolicyType, v1beta1.DeletePersistentVolumeClaimRetentionPolicyType:
		return nil
	}
	return field.ErrorList{field.NotSupported(at, p, []v1beta1.PersistentVolumeClaimRetentionPolicyType{
		v1beta1.RetainPersistentVolumeClaimRetentionPolicyType, v1beta1.DeletePersistentVolumeClaimRetentionPolicyType,
	})}
}

// validateChange says what an update may not do.
func validateChange(old, s *v1beta1.StatefulSetSpec, classes []*storagev1.StorageClass, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	was := old.DeepCopy()
	v1beta1.SetDefaults_StatefulSetSpec(was)
	if !equality.Semantic.DeepEqual(was.Selector, s.Selector) || was.ServiceName != s.ServiceName || was.PodManagementPolicy != s.PodManagementPolicy {
		errs = append(errs, field.Forbidden(at, "selector, serviceName and podManagementPolicy may not be changed"))
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil && r.PodUpdatePolicy == v1beta1.InPlaceOnlyPodUpdateStrategyType {
		errs = append(errs, admission.CheckInPlaceOnly(&old.Template, &s.Template, at.Child("template"))...)
	}
	if s.VolumeClaimUpdateStrategy.Type == v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType {
		errs = append(errs, validateClaimChange(old.VolumeClaimTemplates, s.VolumeClaimTemplates, classes, at.Child("volumeClaimTemplates"))...)
	}
	return errs
}

// Advise is about what is allowed in a spec but hardly meant.
func Advise(s *v1beta1.StatefulSetSpec, at *field.Path) []string {
	var warnings []string
	if c := s.ScaleStrategy; c != nil {
		warnings = admission.WarnOfMoreThanAll(c.MaxUnavailable, admission.MeansAll, at.Child("scaleStrategy", "maxUnavailable"))
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil {
		warnings = append(warnings, admission.WarnOfMoreThanAll(r.MaxUnavailable, admission.MeansAll, at.Child("updateStrategy", "rollingUpdate", "maxUnavailable"))...)
	}
	return warnings
}
