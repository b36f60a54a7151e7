package statefulset

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/lifecycle"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// waitsFor tells what somebody else has to do before the set can go on: free a name, let a Pod go. None of it is a failure,
// so that no condition of its own and no event would show it. "" if there is nothing.
func (s *Snapshot) waitsFor(now time.Time) string {
	// The numbers were resolved before: there is no plan without them.
	n, err := resolve(&s.Set.Spec)
	if err != nil || s.Set.DeletionTimestamp != nil {
		return ""
	}
	first, more := "", 0
	add := func(what string) {
		switch {
		case what == "":
		case first == "":
			first = what
		default:
			more++
		}
	}
	slots, condemned := s.arrange(&n, now)
	for _, slot := range slots {
		if slot.m == nil {
			add(s.inTheWay(slot.ordinal))
		} else {
			add(s.holds(slot.m))
		}
	}
	for _, m := range condemned {
		add(s.holds(m))
	}
	if more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}

// inTheWay is why the Pod of an ordinal is not created, where isInTheWay says so. Pods that are about to be adopted are
// nobody else's.
func (s *Snapshot) inTheWay(ordinal int32) string {
	name := podName(s.Set, ordinal)
	for _, p := range s.Returning {
		if p.Name == name {
			return ""
		}
	}
	if s.Taken.Has(name) {
		return fmt.Sprintf("Pod %s cannot be created: a Pod that does not belong to the set has its name", name)
	}
	if claim := s.staleClaim(ordinal); claim != nil {
		return fmt.Sprintf("Pod %s cannot be created before claim %s is gone, which goes with the former Pod of that name", name, claim.Name)
	}
	return ""
}

// holds is which hook holds a Pod.
func (s *Snapshot) holds(m *member) string {
	hook := heldBy(s.Set.Spec.Lifecycle, m.Pod)
	if m.terminating || hook == "" {
		return ""
	}
	return fmt.Sprintf("Pod %s is %s: it waits for the %s hook", m.Name, m.state, hook)
}

// heldBy is the hook that keeps the Pod in its state; "" if none does.
func heldBy(l *pub.Lifecycle, p *corev1.Pod) string {
	update := lifecycle.InPlaceUpdate(l)
	switch pods.LifecycleState(p) {
	case pub.LifecycleStatePreparingNormal:
		if hook := lifecycle.PreNormal(l); hook != nil && !lifecycle.AllHooked(hook, p) {
			return "preNormal"
		}
	case pub.LifecycleStatePreparingUpdate:
		if lifecycle.Hooked(update, p) {
			return "inPlaceUpdate"
		}
	case pub.LifecycleStateUpdated:
		if update != nil && !lifecycle.AllHooked(update, p) {
			return "inPlaceUpdate"
		}
	case pub.LifecycleStatePreparingDelete:
		if lifecycle.Hooked(lifecycle.PreDelete(l), p) {
			return "preDelete"
		}
	}
	return ""
}
