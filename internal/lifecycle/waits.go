package lifecycle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// WaitsFor says which hook keeps a Pod in its state, in a sentence for people; "" if none does.
func WaitsFor(p *corev1.Pod, state pub.LifecycleStateType, l *pub.Lifecycle) string {
	hook := heldBy(p, state, l)
	if hook == "" {
		return ""
	}
	return fmt.Sprintf("Pod %s is %s: it waits for the %s hook", p.Name, state, hook)
}

func heldBy(p *corev1.Pod, state pub.LifecycleStateType, l *pub.Lifecycle) string {
	switch state {
	case pub.LifecycleStatePreparingNormal:
		if awaits(PreNormal(l), p) {
			return "preNormal"
		}
	case pub.LifecycleStatePreparingUpdate:
		if Hooked(InPlaceUpdate(l), p) {
			return "inPlaceUpdate"
		}
	case pub.LifecycleStateUpdated:
		if awaits(InPlaceUpdate(l), p) {
			return "inPlaceUpdate"
		}
	case pub.LifecycleStatePreparingDelete:
		if Hooked(PreDelete(l), p) {
			return "preDelete"
		}
	}
	return ""
}
