package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Problem is what a condition tells.
type Problem struct{ Reason, Message string }

// ReasonSucceeded is the reason of a failure that is over.
const ReasonSucceeded = "Succeeded"

// Condition are the members that the conditions of all kinds have.
type Condition struct {
	Type            string
	Status          *corev1.ConditionStatus
	Reason, Message *string
	Transition      *metav1.Time
	// Updated is when status or reason changed last; nil where a kind does not have it.
	Updated *metav1.Time
}

// Conditions edits the conditions of a kind.
type Conditions[T any] struct {
	List []T
	Now  metav1.Time
	// View are the members of an entry, New is an entry of that type.
	View func(*T) Condition
	New  func(conditionType string) T
}

// Get is the entry of that type; nil without one.
func (c *Conditions[T]) Get(conditionType string) *T {
	for i := range c.List {
		if c.View(&c.List[i]).Type == conditionType {
			return &c.List[i]
		}
	}
	return nil
}

// HasReason says whether the condition is True for that reason.
func (c *Conditions[T]) HasReason(conditionType, reason string) bool {
	entry := c.Get(conditionType)
	if entry == nil {
		return false
	}
	view := c.View(entry)
	return *view.Status == corev1.ConditionTrue && *view.Reason == reason
}

// Set leaves a condition untouched that says the same already. The transition time changes with the status, the update
// time with status or reason.
func (c *Conditions[T]) Set(conditionType string, status corev1.ConditionStatus, reason, message string) {
	entry := c.Get(conditionType)
	if entry == nil {
		c.List = append(c.List, c.New(conditionType))
		entry = &c.List[len(c.List)-1]
	}
	view := c.View(entry)
	changed := *view.Status != status
	if changed {
		*view.Transition = c.Now
	}
	if view.Updated != nil && (changed || *view.Reason != reason) {
		*view.Updated = c.Now
	}
	*view.Status, *view.Reason, *view.Message = status, reason, message
}

// Remove removes the condition.
func (c *Conditions[T]) Remove(conditionType string) {
	c.List = slices.DeleteFunc(c.List, func(entry T) bool { return c.View(&entry).Type == conditionType })
}

// Failed is True while syncs of a kind fail, and turns False with the first that does not. It does not appear before the
// first failure.
func (c *Conditions[T]) Failed(conditionType string, failure *Problem, ran bool) {
	if failure != nil {
		c.Set(conditionType, corev1.ConditionTrue, failure.Reason, failure.Message)
		return
	}
	if entry := c.Get(conditionType); ran && entry != nil && *c.View(entry).Status != corev1.ConditionFalse {
		c.Set(conditionType, corev1.ConditionFalse, ReasonSucceeded, "")
	}
}

// Truth is a condition's status.
func Truth(is bool) corev1.ConditionStatus {
	if is {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}
