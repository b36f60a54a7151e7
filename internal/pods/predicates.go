package pods

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// IsTerminal says whether the Pod has ended for good.
func IsTerminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// IsTerminating says whether somebody has deleted the Pod.
func IsTerminating(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }

// IsActive says whether the Pod counts: it has neither ended nor been deleted.
func IsActive(p *corev1.Pod) bool { return !IsTerminal(p) && !IsTerminating(p) }

// Condition returns the condition of that type, or nil.
func Condition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// IsConditionTrue says whether the condition exists and is True.
func IsConditionTrue(p *corev1.Pod, t corev1.PodConditionType) bool {
	c := Condition(p, t)
	return c != nil && c.Status == corev1.ConditionTrue
}

// HasGate says whether the Pod has the readiness gate.
func HasGate(p *corev1.Pod, t corev1.PodConditionType) bool {
	for _, g := range p.Spec.ReadinessGates {
		if g.ConditionType == t {
			return true
		}
	}
	return false
}

// LifecycleState is the state in the Pod's label; "" without one. Text that is no state means as little as none: it must
// hold nobody up.
func LifecycleState(p *corev1.Pod) pub.LifecycleStateType {
	switch s := pub.LifecycleStateType(p.Labels[pub.LifecycleStateKey]); s {
	case pub.LifecycleStatePreparingNormal, pub.LifecycleStateNormal, pub.LifecycleStatePreparingUpdate,
		pub.LifecycleStateUpdating, pub.LifecycleStateUpdated, pub.LifecycleStatePreparingDelete:
		return s
	default:
		return ""
	}
}

// IsReady says whether the Pod runs, is ready and is not in the middle of an in-place update. The lifecycle state is
// not looked at.
func IsReady(p *corev1.Pod) bool {
	if p.Status.Phase != corev1.PodRunning || !IsConditionTrue(p, corev1.PodReady) {
		return false
	}
	c := Condition(p, pub.InPlaceUpdateReady)
	return c == nil || c.Status == corev1.ConditionTrue
}

// IsReadyAndNormal is IsReady of a Pod that no lifecycle hook holds.
func IsReadyAndNormal(p *corev1.Pod) bool {
	s := LifecycleState(p)
	return (s == "" || s == pub.LifecycleStateNormal) && IsReady(p)
}

// IsAvailable says whether the Pod has been ready and normal for minReadySeconds.
func IsAvailable(p *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	wait, ok := AvailableAfter(p, minReadySeconds, now)
	return ok && wait == 0
}

// AvailableAfter returns in how long the Pod becomes available if nothing else changes, 0 if it is, and false if it is
// not ready and normal.
func AvailableAfter(p *corev1.Pod, minReadySeconds int32, now time.Time) (time.Duration, bool) {
	if !IsReadyAndNormal(p) {
		return 0, false
	}
	if minReadySeconds <= 0 {
		return 0, true
	}
	since := Condition(p, corev1.PodReady).LastTransitionTime
	if since.IsZero() {
		return 0, false
	}
	// Strictly after: the timestamp of the condition has been cut to whole seconds.
	left := since.Add(time.Duration(minReadySeconds) * time.Second).Sub(now)
	if left < 0 {
		return 0, true
	}
	return left + time.Millisecond, true
}

// RevisionOf is the revision in the Pod's label.
func RevisionOf(p *corev1.Pod) string { return p.Labels[pub.ControllerRevisionHashKey] }

// AtRevision says whether the Pod is at the revision of that name. Labels hold the full name or just its hash.
func AtRevision(p *corev1.Pod, revision string) bool {
	return SameRevision(RevisionOf(p), revision)
}

// SameRevision says whether two names of revisions, full or short, mean the same.
func SameRevision(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return a == b || shortHash(a) == shortHash(b)
}

func shortHash(revision string) string {
	return revision[strings.LastIndex(revision, "-")+1:]
}

// IsSpecifiedDelete says whether the Pod's label asks for its deletion.
func IsSpecifiedDelete(p *corev1.Pod) bool {
	_, ok := p.Labels[pub.SpecifiedDeleteKey]
	return ok
}

// ContainerStatus returns the status of the container of that name, or nil.
func ContainerStatus(p *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Name == name {
			return &p.Status.ContainerStatuses[i]
		}
	}
	return nil
}
