package cloneset

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/lifecycle"
)

// tally counts the Pods of one group.
type tally struct {
	total, leaving, specified, unavailable int
	// specifiedDown are those of specified that are not available.
	specifiedDown int
}

func (t *tally) add(m *member) {
	t.total++
	switch {
	case m.leaving:
		t.leaving++
	case m.specified:
		t.specified++
		if !m.available {
			t.specifiedDown++
		}
	case !m.available:
		t.unavailable++
	}
}

func (t tally) active() int { return t.total - t.leaving }

// counts are the Pods of the set by whether they are at the update revision.
type counts struct{ old, new, all tally }

func count(members []*member, updated func(*member) bool) counts {
	var c counts
	for _, m := range members {
		c.all.add(m)
		if updated(m) {
			c.new.add(m)
		} else {
			c.old.add(m)
		}
	}
	return c
}

// scaling is how many Pods to create and delete. The names are those of the formulas in the documentation of the kind.
type scaling struct {
	up, upOld, upLimit int
	// upOldSurge is how many of upOld only stand in for Pods that are to go.
	upOldSurge       int
	down, downOld    int
	deleteReadyLimit int
	surge            int
}

// scaleRules choose between forms of the formulas.
type scaleRules struct {
	// excludeLeaving: leaving Pods do not count as existing. rollback: Pods may be taken back. noUpdateSurge: updates take
	// no Pods above replicas.
	excludeLeaving, rollback, noUpdateSurge bool
}

func scale(n numbers, c counts, rules scaleRules) scaling {
	var s scaling
	totalUnavailable := c.all.leaving + c.all.unavailable

	surgeOld := 0
	if n.maxSurge > 0 {
		s.surge, surgeOld = surges(n, c, totalUnavailable, rules)
	}
	total, totalOld := c.all.total, c.old.total
	if rules.excludeLeaving {
		total, totalOld = c.all.active(), c.old.active()
	}
	if s.up = max(n.replicas+s.surge-total, 0); s.up > 0 {
		s.upOld = max(n.partition+surgeOld-totalOld, 0)
		s.upOldSurge = s.upOld - max(n.partition-totalOld, 0)
	}
	s.upLimit = min(s.up, max(n.scaleUnavailable-totalUnavailable, 0))
	if s.down = max(total-c.all.specified-(n.replicas+s.surge), 0); s.down > 0 {
		s.downOld = max(totalOld-c.old.specified-(n.partition+surgeOld), 0)
	}
	if c.all.specified > 0 || s.down > 0 {
		// A Pod that is to go and does not work is no Pod that another one could be given up for.
		s.deleteReadyLimit = max(n.maxUnavailable+(c.all.total-n.replicas)-totalUnavailable-c.all.specifiedDown, 0)
	}
	if !rules.excludeLeaving {
		// Leaving Pods are part of the total, but they are on their way already.
		s.down = max(s.down-c.all.leaving, 0)
		s.downOld = max(s.downOld-c.old.leaving, 0)
	}
	return s
}

// creations are made in the order of the fields. Old Pods that only stand in for others come last: as long as new ones are
// missing an update would take them at once, and scaling would make them again.
type creations struct{ old, new, oldSurge int }

func (c creations) total() int { return c.old + c.new + c.oldSurge }

// isOld says whether the i-th is made from the current revision.
func (c creations) isOld(i int) bool { return i < c.old || i >= c.old+c.new }

// creations share the limit out.
func (s scaling) creations() creations {
	var c creations
	c.old = min(s.upOld-s.upOldSurge, s.upLimit)
	c.new = min(max(s.up-s.upOld, 0), s.upLimit-c.old)
	c.oldSurge = s.upLimit - c.old - c.new
	return c
}

// diffs are how many Pods are too many (positive) or too few at old revisions and at the update revision.
type diffs struct{ old, new int }

// differences leaves out too few old and too many new Pods, unless Pods are to be taken back.
func differences(n numbers, c counts, rollback bool) diffs {
	d := diffs{c.old.active() - n.partition, c.new.active() - (n.replicas - n.partition)}
	if !rollback {
		d.old, d.new = max(d.old, 0), min(d.new, 0)
	}
	return d
}

// areSettledByScaling says whether there are too few Pods of both kinds, or too many, or one number is right. An update
// would only replace Pods that scaling then makes once more.
func (d diffs) areSettledByScaling() bool {
	return d.old == 0 || d.new == 0 || (d.old > 0) == (d.new > 0)
}

// updates is how many Pods to take to the update revision; negative: back to the current one.
func (d diffs) updates() int {
	if d.areSettledByScaling() {
		return 0
	}
	if abs(d.old) <= abs(d.new) {
		return d.old
	}
	return -d.new
}

// surge is how many Pods more the change of revisions wants meanwhile, and whether of the old revision.
func (d diffs) surge() (n int, old bool) {
	if d.areSettledByScaling() {
		return 0, false
	}
	if abs(d.old) <= abs(d.new) {
		return abs(d.old), d.old < 0
	}
	return abs(d.new), d.new > 0
}

func abs(n int) int { return max(n, -n) }

func surges(n numbers, c counts, totalUnavailable int, rules scaleRules) (surge, surgeOld int) {
	scaleSurge := 0
	if c.all.specified > 0 {
		scaleSurge = min(max(totalUnavailable+c.all.specified-n.maxUnavailable, 0), c.all.specified)
	}
	updateSurge, old := differences(n, c, rules.rollback).surge()
	if rules.noUpdateSurge {
		updateSurge = 0
	}
	surge = min(n.maxSurge, max(scaleSurge, updateSurge))
	switch {
	case scaleSurge >= updateSurge:
		surgeOld = min(surge, max(scaleSurge-c.new.specified, 0))
	case old:
		surgeOld = surge
	}
	return surge, surgeOld
}

// nodesDelay is how soon to look again whether the Nodes were read.
const nodesDelay = 100 * time.Millisecond

// planScale fills in what changes the number of Pods.
func (s *Snapshot) planScale(plan *Plan, n numbers, members, candidates []*member, changes *inplace.Changes, now time.Time) {
	s.planCancel(plan, n, members, now)
	c := count(members, (*member).countsAsUpdated)
	x := scale(n, c, scaleRules{
		excludeLeaving: s.Set.Spec.ScaleStrategy.ExcludePreparingDelete, rollback: s.mayRollBack(),
		noUpdateSurge: s.needNoSurge(n, candidates, changes),
	})

	plan.Create = x.creations()
	plan.Limited, plan.Limit = x.up-x.upLimit, n.scaleUnavailable
	if s.CreateAfter > 0 && x.upLimit > 0 {
		plan.Create, plan.CreatePostponed = creations{}, true
		plan.look(s.CreateAfter)
	}

	released := s.mayLeave(plan, members, func(m *member) bool {
		return m.leaving && !lifecycle.Hooked(lifecycle.PreDelete(s.Set.Spec.Lifecycle), m.Pod)
	})
	if len(released) > 0 {
		plan.Delete = s.deletions(released, now)
		return
	}
	limit := x.deleteReadyLimit
	specified := s.mayLeave(plan, members, func(m *member) bool { return m.specified && !m.leaving })
	if chosen := affordable(s.byRank(specified, now), &limit); len(chosen) > 0 {
		plan.Delete = s.deletions(chosen, now)
		return
	}
	if x.down == 0 {
		return
	}
	if s.NodesComing {
		plan.look(nodesDelay)
		return
	}
	// A Pod that is to go and cannot yet holds up no others: they may be what it waits for.
	staying := s.mayLeave(plan, members, func(m *member) bool { return !m.leaving && !m.specified })
	plan.Delete = s.deletions(affordable(s.surplus(staying, x, n, now), &limit), now)
}

// mayLeave are those of the members that are to leave or to be kept after all, without those that refused not long ago.
func (s *Snapshot) mayLeave(plan *Plan, members []*member, chosen func(*member) bool) []*member {
	return filter(members, func(m *member) bool {
		if !chosen(m) {
			return false
		}
		after := s.DeleteLater[m.UID]
		if after > 0 {
			plan.DeletePostponed = true
			plan.look(after)
		}
		return after == 0
	})
}

// affordable leaves out available Pods beyond the limit. Pods that are not available cost nothing.
func affordable(list []*member, limit *int) []*member {
	return filter(list, func(m *member) bool {
		if !m.available {
			return true
		}
		*limit--
		return *limit >= 0
	})
}

// surplus chooses the Pods to scale in: old ones down to the partition, then new ones, each by rank.
func (s *Snapshot) surplus(staying []*member, x scaling, n numbers, now time.Time) []*member {
	ranked := s.byRank(staying, now)
	if rollingBack := min(x.down-s.ScaledIn, n.configuredSurge); isPaused(&s.Set.Spec) && rollingBack > 0 {
		return s.surplusWhilePaused(ranked, x, rollingBack)
	}
	return take(ranked, min(x.down, x.downOld), x.down)
}

// take chooses fromOld of the old Pods and as many new ones as total needs, in the given order.
func take(ranked []*member, fromOld, total int) []*member {
	old := filter(ranked, func(m *member) bool { return !m.countsAsUpdated() })
	fresh := filter(ranked, (*member).countsAsUpdated)
	fromOld = min(fromOld, len(old))
	return append(old[:fromOld:fromOld], fresh[:min(max(total-fromOld, 0), len(fresh))]...)
}

// surplusWhilePaused undoes the surge of a paused rollout: unavailable Pods go first, then new ones. What a smaller
// number of replicas makes surplus beyond that goes as always.
func (s *Snapshot) surplusWhilePaused(ranked []*member, x scaling, surge int) []*member {
	order := slices.Concat(
		filter(ranked, func(m *member) bool { return !m.available }),
		filter(ranked, func(m *member) bool { return m.available && m.countsAsUpdated() }),
	)
	chosen := order[:min(surge, len(order))]
	rest := filter(ranked, func(m *member) bool { return !slices.Contains(chosen, m) })
	chosenOld := len(filter(chosen, func(m *member) bool { return !m.countsAsUpdated() }))
	left := x.down - len(chosen)
	return slices.Concat(chosen, take(rest, min(left, max(x.downOld-chosenOld, 0)), left))
}

// deletions delete the Pods, or make them wait where a hook holds them.
func (s *Snapshot) deletions(list []*member, now time.Time) []Deletion {
	out := make([]Deletion, len(list))
	for i, m := range list {
		out[i] = s.deletion(m, now, nil)
	}
	return out
}

func (s *Snapshot) deletion(m *member, now time.Time, extra func(*patch.Object)) Deletion {
	hook := lifecycle.PreDelete(s.Set.Spec.Lifecycle)
	if !lifecycle.Hooked(hook, m.Pod) {
		return Deletion{Pod: m.Pod}
	}
	return Deletion{Pod: m.Pod, Prepare: inplace.PrepareDelete(m.Pod, hook, now, extra)}
}

// planCancel takes back deletions that still wait for their hook and are not needed any more. Those Pods count as staying
// from now on.
func (s *Snapshot) planCancel(plan *Plan, n numbers, members []*member, now time.Time) {
	hook := lifecycle.PreDelete(s.Set.Spec.Lifecycle)
	if hook != nil && hook.MarkPodNotReady {
		return
	}
	going := filter(members, func(m *member) bool { return m.specified || m.leaving })
	wanted := n.replicas - len(members) + len(going)
	if wanted <= 0 {
		return
	}
	returnable := s.byRank(s.mayLeave(plan, members, func(m *member) bool { return m.leaving && !m.specified }), now)
	slices.Reverse(returnable)
	for _, m := range returnable[:min(wanted, len(returnable))] {
		m.leaving = false
		plan.Cancel = append(plan.Cancel, PodPatch{Pod: m.Pod, Patches: []patch.Patch{cancelPatch(m, now)}})
	}
}

func cancelPatch(m *member, now time.Time) patch.Patch {
	o := lifecycle.SetState(patch.New(m), pub.LifecycleStatePreparingNormal, now)
	if m.withdrawn {
		o.RemoveAnnotation(pub.CloneSetRecreateRevisionKey)
		// Another value is not ours, but that of a user who wants the Pod gone in any case.
		if m.Labels[pub.SpecifiedDeleteKey] == "true" {
			o.RemoveLabel(pub.SpecifiedDeleteKey)
		}
	}
	if c, ok := lifecycle.Release(m.Pod, now, lifecycle.PreDeleteKey()); ok {
		o.IfUnchanged(m).Condition(c)
	}
	return o.BuildStatus()
}

// withoutOwner is the patch that releases a Pod.
func withoutOwner(p *corev1.Pod, s *Snapshot) *patch.Object {
	return patch.New(p).IfUnchanged(p).OwnerReferences(kube.WithoutOwner(p.OwnerReferences, s.Set.UID))
}
