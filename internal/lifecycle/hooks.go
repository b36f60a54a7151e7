package lifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// Hooked says whether the hook holds the Pod: any of its finalizers is there, or any label has its value.
func Hooked(h *pub.LifecycleHook, p *corev1.Pod) bool {
	if h == nil {
		return false
	}
	for _, f := range h.FinalizersHandler {
		if slices.Contains(p.Finalizers, f) {
			return true
		}
	}
	for k, v := range h.LabelsHandler {
		if has(p, k, v) {
			return true
		}
	}
	return false
}

// AllHooked says whether the hook is satisfied: all its finalizers and labels are there. A nil hook never is, an empty
// one always.
func AllHooked(h *pub.LifecycleHook, p *corev1.Pod) bool {
	if h == nil {
		return false
	}
	for _, f := range h.FinalizersHandler {
		if !slices.Contains(p.Finalizers, f) {
			return false
		}
	}
	for k, v := range h.LabelsHandler {
		if !has(p, k, v) {
			return false
		}
	}
	return true
}

// awaits says whether the Pod waits for the hook to be satisfied. Without a hook it does not.
func awaits(h *pub.LifecycleHook, p *corev1.Pod) bool { return h != nil && !AllHooked(h, p) }

func has(p *corev1.Pod, key, value string) bool {
	v, ok := p.Labels[key]
	return ok && v == value
}

// PreDelete is the hook before a deletion.
func PreDelete(l *pub.Lifecycle) *pub.LifecycleHook {
	if l == nil {
		return nil
	}
	return l.PreDelete
}

// InPlaceUpdate is the hook before and after an in-place update.
func InPlaceUpdate(l *pub.Lifecycle) *pub.LifecycleHook {
	if l == nil {
		return nil
	}
	return l.InPlaceUpdate
}

// PreNormal is the hook of new Pods.
func PreNormal(l *pub.Lifecycle) *pub.LifecycleHook {
	if l == nil {
		return nil
	}
	return l.PreNormal
}
