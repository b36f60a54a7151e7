package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
)

// Facts are what a transition depends on beside the Pod itself.
type Facts struct {
	Lifecycle *pub.Lifecycle
	// State is the Pod's state. It is passed because a kind may take another label for it.
	State pub.LifecycleStateType
	// AtTarget: the Pod is at the revision that it is to be at.
	AtTarget bool
	// Completed: what the last in-place update changed has taken effect.
	Completed bool
	// Unwanted: the Pod was prepared for an update that is not wanted of it any more.
	Unwanted bool
}

// Next is the state that follows without anybody starting anything; the present one if none does.
func Next(p *corev1.Pod, f Facts) pub.LifecycleStateType {
	switch f.State {
	case pub.LifecycleStatePreparingNormal:
		if hook := PreNormal(f.Lifecycle); hook != nil {
			if AllHooked(hook, p) {
				return pub.LifecycleStateNormal
			}
		} else if p.Spec.NodeName != "" {
			return pub.LifecycleStateNormal
		}
	case pub.LifecycleStatePreparingUpdate:
		if f.AtTarget || f.Unwanted {
			return afterUpdate(p, f.Lifecycle)
		}
	case pub.LifecycleStateUpdating:
		if f.Completed {
			return afterUpdate(p, f.Lifecycle)
		}
	case pub.LifecycleStateUpdated:
		return afterUpdate(p, f.Lifecycle)
	}
	return f.State
}

// afterUpdate waits in Updated until the hook is satisfied, where there is one.
func afterUpdate(p *corev1.Pod, l *pub.Lifecycle) pub.LifecycleStateType {
	if awaits(InPlaceUpdate(l), p) {
		return pub.LifecycleStateUpdated
	}
	return pub.LifecycleStateNormal
}

// Restored is the state of a Pod whose deletion is taken back: one that was never let to serve still waits for that.
func Restored(p *corev1.Pod, l *pub.Lifecycle) pub.LifecycleStateType {
	if awaits(PreNormal(l), p) {
		return pub.LifecycleStatePreparingNormal
	}
	return pub.LifecycleStateNormal
}

// StartAction is what to do with a Pod that was chosen for an in-place update.
type StartAction int

// What to do with it.
const (
	// Wait: nothing, somebody else has to act first.
	Wait StartAction = iota
	// Update: change it, its state becomes Updating.
	Update
	// Prepare: its state becomes PreparingUpdate.
	Prepare
	// PrepareAgain: as Prepare, and the hook's labels and finalizers are put back.
	PrepareAgain
)

// Start says what to do with a chosen Pod.
func Start(p *corev1.Pod, state pub.LifecycleStateType, l *pub.Lifecycle) StartAction {
	hook := InPlaceUpdate(l)
	switch state {
	case "", pub.LifecycleStateNormal, pub.LifecycleStatePreparingNormal:
		if Hooked(hook, p) {
			return Prepare
		}
		return Update
	case pub.LifecycleStatePreparingUpdate:
		if Hooked(hook, p) {
			return Wait
		}
		return Update
	case pub.LifecycleStateUpdating:
		return Update
	case pub.LifecycleStateUpdated:
		if hook == nil {
			return Wait
		}
		return PrepareAgain
	default:
		return Wait
	}
}

// SetState adds a change of state to a patch.
func SetState(o *patch.Object, state pub.LifecycleStateType, now time.Time) *patch.Object {
	return o.Label(pub.LifecycleStateKey, string(state)).
		Annotation(pub.LifecycleTimestampKey, now.UTC().Format(time.RFC3339))
}

// RestoreHook adds the hook's labels and finalizers to a patch.
func RestoreHook(o *patch.Object, h *pub.LifecycleHook) *patch.Object {
	for k, v := range h.LabelsHandler {
		o.Label(k, v)
	}
	return o.AddFinalizers(h.FinalizersHandler...)
}
