package workload

import corev1 "k8s.io/api/core/v1"

// The conditions that generic tools read. Exactly one of them is True.
const (
	ConditionReady       = "Ready"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
)

// Reasons of theirs.
const (
	ReasonReady       = "AsSpecified"
	ReasonReconciling = "Progressing"
	ReasonNotStalled  = "NotStalled"
)

// Ready says that the workload is as specified.
func (c *Conditions[T]) Ready() {
	c.Set(ConditionStalled, corev1.ConditionFalse, ReasonNotStalled, "")
	c.Set(ConditionReady, corev1.ConditionTrue, ReasonReady, "")
	c.Set(ConditionReconciling, corev1.ConditionFalse, ReasonReady, "")
}

// Reconciling says that the workload is on its way. The message tells what it waits for, if anything.
func (c *Conditions[T]) Reconciling(reason, message string) {
	c.Set(ConditionStalled, corev1.ConditionFalse, ReasonNotStalled, "")
	c.Set(ConditionReady, corev1.ConditionFalse, reason, message)
	c.Set(ConditionReconciling, corev1.ConditionTrue, reason, message)
}

// Stalled says that the workload does not get there before somebody acts.
func (c *Conditions[T]) Stalled(reason, message string) {
	c.Set(ConditionStalled, corev1.ConditionTrue, reason, message)
	c.Set(ConditionReady, corev1.ConditionFalse, reason, message)
	c.Set(ConditionReconciling, corev1.ConditionFalse, reason, "")
}
