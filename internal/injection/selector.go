package injection

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demand is what selectors want of one label.
type demand struct {
	// allowed are the values that will do; nil: any.
	allowed           []string
	excluded          []string
	isNarrow          bool
	present, isAbsent bool
}

// Overlap tells whether any labels can match both selectors. nil matches everything. Labels are independent of each other,
// so the answer is exact; what cannot be read counts as no demand.
func Overlap(a, b *metav1.LabelSelector) bool {
	demands := map[string]*demand{}
	for _, s := range []*metav1.LabelSelector{a, b} {
		if s != nil {
			collect(s, demands)
		}
	}
	for _, d := range demands {
		if !d.canBeMet() {
			return false
		}
	}
	return true
}

func collect(s *metav1.LabelSelector, demands map[string]*demand) {
	of := func(key string) *demand {
		if demands[key] == nil {
			demands[key] = &demand{}
		}
		return demands[key]
	}
	for key, value := range s.MatchLabels {
		of(key).narrow([]string{value})
	}
	for _, e := range s.MatchExpressions {
		switch d := of(e.Key); e.Operator {
		case metav1.LabelSelectorOpIn:
			d.narrow(e.Values)
		case metav1.LabelSelectorOpNotIn:
			// The label may as well be absent.
			d.excluded = append(d.excluded, e.Values...)
		case metav1.LabelSelectorOpExists:
			d.present = true
		case metav1.LabelSelectorOpDoesNotExist:
			d.isAbsent = true
		}
	}
}

func (d *demand) narrow(values []string) {
	if d.isNarrow {
		d.allowed = slices.DeleteFunc(slices.Clone(d.allowed), func(v string) bool { return !slices.Contains(values, v) })
	} else {
		d.allowed = slices.Clone(values)
	}
	d.isNarrow, d.present = true, true
}

func (d *demand) canBeMet() bool {
	if d.isAbsent {
		return !d.present
	}
	return !d.isNarrow || slices.ContainsFunc(d.allowed, func(v string) bool { return !slices.Contains(d.excluded, v) })
}

// Selects tells whether a selector matches labels. It reads what admission refuses as the guard does (see
// deploy/sidecar-guard/sidecar-guard.yaml), so that the two never disagree: an operator that is not known matches nothing.
func Selects(s *metav1.LabelSelector, labels map[string]string) bool {
	for key, want := range s.MatchLabels {
		if value, there := labels[key]; !there || value != want {
			return false
		}
	}
	for i := range s.MatchExpressions {
		if !meets(&s.MatchExpressions[i], labels) {
			return false
		}
	}
	return true
}

func meets(e *metav1.LabelSelectorRequirement, labels map[string]string) bool {
	value, there := labels[e.Key]
	switch e.Operator {
	case metav1.LabelSelectorOpIn:
		return there && slices.Contains(e.Values, value)
	case metav1.LabelSelectorOpNotIn:
		return !there || !slices.Contains(e.Values, value)
	case metav1.LabelSelectorOpExists:
		return there
	case metav1.LabelSelectorOpDoesNotExist:
		return !there
	}
	return false
}
