package statefulset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// chooseRevisions says from which revision the missing Pods are made.
func (p *planner) chooseRevisions() {
	old := 0
	for _, s := range p.slots {
		if s.m != nil {
			p.filled++
		}
		if s.m != nil && !countsAsUpdated(s.m) {
			old++
		}
	}
	if isOnDelete(&p.Set.Spec) {
		return
	}
	p.heldBack = min(max(p.n.partition-old, 0), p.missing())
	left := p.heldBack
	for _, s := range p.slots {
		switch {
		case s.m != nil:
		case isUnordered(&p.Set.Spec):
			s.old = left > 0
			left--
		default:
			s.old = s.rank < p.n.partition
		}
	}
}

// countsAsUpdated is for numbers: a Pod that prepares for its update is as good as updated.
func countsAsUpdated(m *member) bool {
	return m.updated || m.state == pub.LifecycleStatePreparingUpdate
}

// scaleParallel creates and deletes all at once, and returns whether updates may follow.
func (p *planner) scaleParallel() bool {
	budget, next := p.n.scaleUnavailable, 0
	for _, s := range p.slots {
		budget, next = p.skip(budget, s.rank-next), s.rank+1
		m := s.m
		switch {
		case m == nil && budget <= 0:
			p.throttled = true
		case m == nil:
			budget--
			p.create(s)
		case m.terminal:
			budget--
			p.delete(m)
		case m.terminating || !m.available:
			budget--
			p.makeClaims(m)
		}
	}
	p.skip(budget, p.n.replicas-next)
	for _, m := range p.condemned {
		p.delete(m)
	}
	return true
}

// skip takes slots that this sync does not get to from the budget of creation.
func (p *planner) skip(budget, unseen int) int {
	p.throttled = p.throttled || unseen > max(budget, 0)
	return budget - unseen
}

// scaleOrdered takes one step, and returns whether nothing is left to be done, so that updates may follow.
func (p *planner) scaleOrdered() bool {
	for _, s := range p.slots {
		m := s.m
		switch {
		case m == nil:
			p.create(s)
			return false
		case m.terminal:
			p.delete(m)
			return false
		}
		p.makeClaims(m)
		if m.terminating {
			return false
		}
		if !m.available {
			p.repair(s)
			return false
		}
	}
	return p.scaleInOrdered()
}

// scaleInOrdered deletes the condemned Pod of the highest ordinal, but first those whose deletion has begun. One that works may
// go; one that does not is waited for, unless it has ended or is the only one, or the first of them.
func (p *planner) scaleInOrdered() bool {
	if len(p.condemned) == 0 {
		return true
	}
	begun := false
	for _, m := range p.condemned {
		if m.state == pub.LifecycleStatePreparingDelete {
			p.delete(m)
			begun = true
		}
	}
	if m := p.condemned[0]; !begun && (m.terminal || m.available || m == p.firstUnhealthy()) {
		p.delete(m)
	}
	return false
}

// firstUnhealthy is the unhealthy Pod of the lowest ordinal. Those that have ended will not recover: nobody waits for them.
func (p *planner) firstUnhealthy() *member {
	var first *member
	for _, m := range p.members() {
		if !m.healthy() && !m.terminal && (first == nil || m.ordinal < first.ordinal) {
			first = m
		}
	}
	return first
}

// repair takes a Pod further that holds up all others, where it can be helped: its deletion or update was begun, or it is of
// a revision that does not work. A Pod that runs and is merely not ready is waited for.
func (p *planner) repair(s *slot) {
	if p.moved {
		return
	}
	switch {
	case s.m.specified:
		p.delete(s.m)
	case neverCompletes(s.m):
		p.replace(s.m)
	case !s.candidate || isPaused(&p.Set.Spec) || !p.isOutdated(s.m):
	case isBegun(s.m) || p.isAbandoned(s.m):
		if !p.isLater(partOfUpdate(s.m.Pod)) && (!p.resizesClaims() || p.workOnClaims(s)) {
			p.take(s)
		}
	}
}

// isBegun says whether the set itself has taken the Pod down.
func isBegun(m *member) bool {
	switch m.state {
	case pub.LifecycleStatePreparingUpdate, pub.LifecycleStatePreparingDelete, pub.LifecycleStateUpdating, pub.LifecycleStateUpdated:
		return true
	}
	return false
}

// isAbandoned says whether the Pod serves nothing and will not before it is updated.
func (p *planner) isAbandoned(m *member) bool {
	if m.updated {
		return false
	}
	return !isAt(m, p.Current) || m.Status.Phase == corev1.PodPending || isStuck(m.Pod)
}

// isStuck says whether a container does not get started.
func isStuck(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w != nil && failsToStart(w.Reason) {
				return true
			}
		}
	}
	return false
}

func failsToStart(reason string) bool {
	switch reason {
	case "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return true
	}
	return false
}

// create makes the Pod of a slot, unless something is in the way that goes by itself.
func (p *planner) create(s *slot) {
	if p.isInTheWay(s.ordinal) {
		return
	}
	c := Creation{Ordinal: s.ordinal, Revision: p.Update, Claims: p.missingClaims(s.ordinal), Part: p.partOf(s.ordinal)}
	if s.old {
		c.Revision = p.Current
	}
	if claim := p.goingClaim(s.ordinal); claim != nil {
		c.Blocked = fmt.Errorf("creating Pod %s: claim %s is being deleted", podName(p.Set, s.ordinal), claim.Name)
	}
	if after := max(p.Failed[partCreate], p.Failed[c.Part]); after > 0 {
		p.plan.CreatePostponed = true
		p.plan.look(after)
		return
	}
	p.plan.Create = append(p.plan.Create, c)
}

// makeClaims makes the claims that a Pod waits for.
func (p *planner) makeClaims(m *member) {
	if m.Status.Phase == corev1.PodPending && !m.terminating {
		p.plan.MakeClaims = append(p.plan.MakeClaims, p.missingClaims(m.ordinal)...)
	}
}

func (p *planner) delete(m *member) {
	if d, ok := p.deletion(m); ok && !p.isDeleted(m) && !p.isLater(partOfDeletion(m.Pod)) {
		p.plan.Delete = append(p.plan.Delete, d)
	}
}
