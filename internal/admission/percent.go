package admission

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What more than 100% means, for those who get a warning of it.
const (
	MeansAll  = "all Pods"
	MeansNone = "that no Pod is updated"
)

// WarnOfMoreThanAll warns of a percentage that is accepted, as it always was, but cannot be meant.
func WarnOfMoreThanAll(v *intstr.IntOrString, means string, at *field.Path) []string {
	if v == nil || v.Type != intstr.String {
		return nil
	}
	number, isPercentage := strings.CutSuffix(v.StrVal, "%")
	if percent, err := strconv.ParseFloat(number, 64); !isPercentage || err != nil || percent <= 100 {
		return nil
	}
	return []string{at.String() + ": over 100% means " + means}
}
