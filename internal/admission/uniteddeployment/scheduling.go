package uniteddeployment

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateTerm says what the API server would of the term in a Pod.
func validateTerm(t *corev1.NodeSelectorTerm, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range t.MatchExpressions {
		r, path := &t.MatchExpressions[i], at.Child("matchExpressions").Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(r.Key, path.Child("key"))...)
		errs = append(errs, validateOperator(r, path)...)
	}
	for i := range t.MatchFields {
		r, path := &t.MatchFields[i], at.Child("matchFields").Index(i)
		if r.Key != "metadata.name" {
			errs = append(errs, field.Invalid(path.Child("key"), r.Key, "must be metadata.name"))
		}
		if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "must be In or NotIn"))
		}
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(path.Child("values"), "exactly one"))
		}
	}
	return errs
}

func validateOperator(r *corev1.NodeSelectorRequirement, at *field.Path) field.ErrorList {
	values := at.Child("values")
	var errs field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, "at least one"))
		}
		for i, v := range r.Values {
			for _, problem := range validation.IsValidLabelValue(v) {
				errs = append(errs, field.Invalid(values.Index(i), v, problem))
			}
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values, "there is nothing to compare with"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values, "exactly one"))
		} else if _, err := strconv.ParseInt(r.Values[0], 10, 64); err != nil {
			errs = append(errs, field.Invalid(values.Index(0), r.Values[0], "must be a whole number"))
		}
	default:
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "must be In, NotIn, Exists, DoesNotExist, Gt or Lt"))
	}
	return errs
}

// validateTolerations says what the API server would of them in a Pod.
func validateTolerations(list []corev1.Toleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		t, path := &list[i], at.Index(i)
		if t.Key != "" {
			errs = append(errs, metavalidation.ValidateLabelName(t.Key, path.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), t.Operator, "must be Exists where key is empty"))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(path.Child("effect"), t.Effect, "must be NoExecute where tolerationSeconds is set"))
		}
		errs = append(errs, validateTolerated(t, path)...)
		effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
		if t.Effect != "" && !slices.Contains(effects, t.Effect) {
			errs = append(errs, field.NotSupported(path.Child("effect"), t.Effect, effects))
		}
	}
	return errs
}

func validateTolerated(t *corev1.Toleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		for _, problem := range validation.IsValidLabelValue(t.Value) {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, problem))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be empty with operator Exists"))
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be a whole number"))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator, []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	return errs
}
