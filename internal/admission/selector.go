package admission

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CheckNarrow checks a selector that may be left out, but selects less than everything if it is there.
func CheckNarrow(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at)
	if isEmpty(s) {
		errs = append(errs, field.Invalid(at, s, "must not be empty: it would select everything"))
	}
	return errs
}
