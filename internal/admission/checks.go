package admission

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/rollout"
)

// Most entries of lists, as the schema has them. It does not see what a v1alpha1 object carries.
const (
	mostTerms = 100
	// MostNames is for Pods and for ordinals.
	MostNames = 10_000
)

// CheckCount refuses a list that is too long. Its entries need not be looked at then.
func CheckCount(count, most int, at *field.Path) field.ErrorList {
	if count > most {
		return field.ErrorList{field.TooMany(at, count, most)}
	}
	return nil
}

// CheckName is for the names of new objects that become part of others' names: a DNS label of at most longest characters.
func CheckName(m *metav1.ObjectMeta, longest int) field.ErrorList {
	name, at, prefix := m.Name, field.NewPath("metadata", "name"), false
	if name == "" {
		name, at, prefix = m.GenerateName, field.NewPath("metadata", "generateName"), true
	}
	if name == "" {
		return field.ErrorList{field.Required(field.NewPath("metadata", "name"), "names the object")}
	}
	var errs field.ErrorList
	if len(name) > longest {
		errs = append(errs, field.Invalid(at, name, fmt.Sprintf("must be at most %d characters", longest)))
	}
	for _, problem := range validation.NameIsDNSLabel(name, prefix) {
		// Ours is the shorter limit.
		if !strings.Contains(problem, "no more than") {
			errs = append(errs, field.Invalid(at, name, problem))
		}
	}
	return errs
}

// NotNegative checks a number.
func NotNegative[N int32 | int64](value N, at *field.Path) field.ErrorList {
	if value < 0 {
		return field.ErrorList{field.Invalid(at, value, "must not be negative")}
	}
	return nil
}

// CheckAmount checks a number or percentage of Pods. Percentages may have a fraction.
func CheckAmount(v *intstr.IntOrString, at *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	if _, err := rollout.Scaled(v, 1, 0, rollout.Up); err != nil {
		return field.ErrorList{field.Invalid(at, v.String(), err.Error())}
	}
	return nil
}

// CheckWholeAmount checks a number or percentage of at least least. Percentages have no fraction.
func CheckWholeAmount(v *intstr.IntOrString, least int, at *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	value := int(v.IntVal)
	if v.Type == intstr.String {
		digits, percent := strings.CutSuffix(v.StrVal, "%")
		number, err := strconv.ParseUint(digits, 10, 31)
		if !percent || err != nil {
			return field.ErrorList{field.Invalid(at, v.StrVal, `must be a number or a percentage such as "20%"`)}
		}
		value = int(number)
	}
	if value < least {
		return field.ErrorList{field.Invalid(at, v.String(), fmt.Sprintf("must be at least %d", least))}
	}
	return nil
}

// CheckSelector checks a workload's selector and that it matches the labels of the template. spec is where both are.
func CheckSelector(selector *metav1.LabelSelector, template map[string]string, spec *field.Path) field.ErrorList {
	at, mismatch := spec.Child("selector"), field.Invalid(spec.Child("template", "metadata", "labels"), template, "must match "+spec.Child("selector").String())
	if selector == nil {
		return field.ErrorList{field.Required(at, "says which Pods belong to the object"), mismatch}
	}
	errs := metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, at)
	if isEmpty(selector) {
		errs = append(errs, field.Invalid(at, selector, "must not be empty: it would select every Pod"))
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if len(errs) > 0 || err != nil {
		return errs
	}
	if !parsed.Matches(labels.Set(template)) {
		errs = append(errs, mismatch)
	}
	return errs
}

func isEmpty(s *metav1.LabelSelector) bool { return len(s.MatchLabels)+len(s.MatchExpressions) == 0 }

// CheckEndless checks the template of Pods that run until they are deleted.
func CheckEndless(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := spec.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(at.Child("restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(at.Child("activeDeadlineSeconds"), "the Pods would be replaced for ever"))
	}
	return errs
}

// CheckFinite checks the template of Pods that run to completion.
func CheckFinite(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	if p := spec.RestartPolicy; p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever {
		return field.ErrorList{field.Invalid(at.Child("restartPolicy"), p, "must be OnFailure or Never")}
	}
	return nil
}

// CheckClaims checks that claim templates can be told apart: their names are those of the volumes.
func CheckClaims(claims []corev1.PersistentVolumeClaim, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range claims {
		name, path := claims[i].Name, at.Index(i).Child("metadata", "name")
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

// CheckPriority checks the order in which Pods are updated.
func CheckPriority(p *pub.UpdatePriorityStrategy, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := CheckCount(len(p.WeightPriority), mostTerms, at.Child("weightPriority"))
	if errs = append(errs, CheckCount(len(p.OrderPriority), mostTerms, at.Child("orderPriority"))...); len(errs) > 0 {
		return errs
	}
	if len(p.WeightPriority) > 0 && len(p.OrderPriority) > 0 {
		errs = append(errs, field.Required(at, "only one of weightPriority and orderPriority"))
	}
	for i := range p.WeightPriority {
		t, path := &p.WeightPriority[i], at.Child("weightPriority").Index(i)
		if t.Weight < 0 || t.Weight > 100 {
			errs = append(errs, field.Required(path.Child("weight"), fmt.Sprintf("0 to 100: %d", t.Weight)))
		}
		if _, err := metav1.LabelSelectorAsSelector(&t.MatchSelector); err != nil || isEmpty(&t.MatchSelector) {
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

// CheckInPlaceOnly refuses, where Pods are never replaced, what cannot be done to a Pod in place.
func CheckInPlaceOnly(from, to *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	was, is := from.DeepCopy(), to.DeepCopy()
	defaults.SetPodTemplate(was)
	defaults.SetPodTemplate(is)
	change, err := inplace.Compare(was, is, inplace.Abilities{Resize: true})
	if err == nil {
		err = change.CheckServed(&corev1.Pod{})
	}
	if err != nil {
		return field.ErrorList{field.Forbidden(at, "podUpdatePolicy is InPlaceOnly: "+err.Error())}
	}
	return nil
}
