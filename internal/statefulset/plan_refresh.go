package statefulset

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/lifecycle"
)

// refresh moves Pods on that nothing is started with, whatever the strategy, also while paused.
func (p *planner) refresh() {
	candidates := map[*member]bool{}
	for _, s := range p.slots {
		if s.m == nil {
			continue
		}
		candidates[s.m] = s.candidate
		p.identify(s)
		p.restore(s)
	}
	for _, m := range p.members() {
		if !m.terminating && !m.terminal {
			p.refreshOne(m, candidates[m])
		}
	}
}

func (p *planner) refreshOne(m *member, candidate bool) {
	change, behind := p.behind(m)
	step := inplace.Refresh{
		Lifecycle: p.Set.Spec.Lifecycle, AtTarget: m.updated, Unwanted: m.state == pub.LifecycleStatePreparingUpdate && !candidate,
		KeepInfeasible: p.isInPlaceOnly(), ResourcesAfter: p.Failed[partOfUpdate(m.Pod)], Behind: behind, Now: p.now,
	}.Step(m.Pod)
	p.plan.look(step.RequeueAfter)
	p.plan.UpdatePostponed = p.plan.UpdatePostponed || step.Waits
	if behind {
		p.plan.Update = append(p.plan.Update, Update{Pod: m.Pod, InPlace: &inplace.Update{Target: target(p.Update.Name), Change: change, Now: p.now}})
	}
	if !step.Due && len(step.Resize) == 0 || p.isLater(partOfRefresh(m.Pod)) {
		return
	}
	r := Refresh{Pod: m.Pod, Step: step}
	if d, ok := p.replacement(m); ok {
		r.Instead = &d
	}
	p.plan.Refresh = append(p.plan.Refresh, r)
	p.moves(m, step.State)
}

// moves notes that the state of a Pod is about to change. What could not be done the last time holds up no others: it may fail again.
func (p *planner) moves(m *member, to pub.LifecycleStateType) {
	_, failed := p.Failed[partOfRefresh(m.Pod)]
	p.moved = p.moved || to != m.state && !failed
}

// isLater says whether a part of the work failed not long ago, and sees to it that it is tried again.
func (p *planner) isLater(part string) bool {
	after := p.Failed[part]
	if after > 0 {
		p.plan.UpdatePostponed = true
		p.plan.look(after)
	}
	return after > 0
}

// behind is what a Pod lacks that says that it is at the update revision and does not run its images, because the record of
// what it waits for was spoiled.
func (p *planner) behind(m *member) (inplace.Change, bool) {
	if !m.updated || m.state == pub.LifecycleStatePreparingDelete || !inplace.HasRecord(m.Pod) {
		return inplace.Change{}, false
	}
	return inplace.Behind(m.Pod, &p.Set.Spec.Template)
}

// identify repairs the labels by which a Pod says who it is. That the index alone is missing is left as it is: Pods of
// older controllers do not have it.
func (p *planner) identify(s *slot) {
	wanted := identity(podName(p.Set, s.ordinal), s.ordinal)
	name := appsv1.StatefulSetPodNameLabel
	if s.m.terminating || s.m.Labels[name] == wanted[name] {
		return
	}
	o := patch.New(s.m)
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		o.Label(key, wanted[key])
	}
	p.plan.Patches = append(p.plan.Patches, PodPatch{Pod: s.m.Pod, Patch: o.Build(), Identity: true})
}

// restore takes back a deletion that waits for its hook and is not wanted any more. An update in place that it came into goes
// on: the Pod says that it is at a revision, and is not before that has ended.
func (p *planner) restore(s *slot) {
	if s.m.state != pub.LifecycleStatePreparingDelete || s.m.terminating || p.mustGo(s) || p.isLater(partOfRefresh(s.m.Pod)) {
		return
	}
	state := lifecycle.Restored(s.m.Pod, p.Set.Spec.Lifecycle)
	if !inplace.IsCompleted(s.m.Pod) {
		state = pub.LifecycleStateUpdating
	}
	o := lifecycle.SetState(patch.New(s.m), state, p.now)
	if p.isForgone(s.m.Pod) {
		o.RemoveLabel(pub.SpecifiedDeleteKey)
	}
	if c, ok := lifecycle.Release(s.m.Pod, p.now, lifecycle.PreDeleteKey()); ok {
		o.IfUnchanged(s.m).Condition(c)
	}
	p.plan.Patches = append(p.plan.Patches, PodPatch{Pod: s.m.Pod, Patch: o.BuildStatus()})
	p.moves(s.m, state)
}

// mustGo says whether the Pod of a wanted ordinal is to be deleted.
func (p *planner) mustGo(s *slot) bool {
	if s.m.specified || s.m.terminal {
		return true
	}
	return s.candidate && p.isOutdated(s.m) && p.recreates(s.m)
}

// isOutdated says whether the Pod is not as the set would make it now.
func (p *planner) isOutdated(m *member) bool { return !m.updated || p.lacksVolume(m) }

// recreates says whether the Pod can only be updated by another one taking its place.
func (p *planner) recreates(m *member) bool {
	if p.policy() == v1beta1.RecreatePodUpdateStrategyType {
		return true
	}
	return !p.isInPlaceOnly() && p.impossible(m) != nil
}

// impossible is why the Pod cannot be updated in place; nil if it can.
func (p *planner) impossible(m *member) error {
	if p.lacksVolume(m) {
		return errLacksVolume
	}
	if p.changes.IsWithdrawn(m.Pod) {
		return nil
	}
	_, err := p.changes.Of(m.Pod)
	return err
}

// own gives the claims of Pods the owners that the retention policy wants.
func (p *planner) own() {
	for _, s := range p.slots {
		if s.m != nil {
			p.ownClaims(s.m, false)
			continue
		}
		for _, c := range p.claimsOf(s.ordinal) {
			if deletesClaims(p.Set).whenScaled {
				p.ownClaim(c, p.keptFrom(c, s.ordinal), nil)
			}
		}
	}
	for _, m := range p.condemned {
		p.ownClaims(m, true)
	}
}

func (p *planner) ownClaims(m *member, condemned bool) {
	list := p.claimsOf(m.ordinal)
	for _, name := range claimsIn(p.Set, m.Pod, m.ordinal) {
		// A claim stays with the Pod that has it, whatever becomes of its template.
		if c := p.Claims[name]; c != nil && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	for _, c := range list {
		p.ownClaim(c, ownersOf(p.Set, c, m.Pod, condemned), m)
	}
}

// ownClaim gives a claim its owners. m is whose Pod goes only after that; may be nil.
func (p *planner) ownClaim(c *corev1.PersistentVolumeClaim, wanted []metav1.OwnerReference, m *member) {
	if c.DeletionTimestamp != nil || equality.Semantic.DeepEqual(wanted, c.OwnerReferences) {
		return
	}
	if p.isLater(partOfOwners(c)) {
		if m != nil {
			m.held = true
		}
		return
	}
	o := ClaimPatch{Claim: c, Patch: patch.New(c).IfUnchanged(c).OwnerReferences(wanted).Build()}
	if m != nil {
		o.Pod = m.Pod
	}
	p.plan.Owners = append(p.plan.Owners, o)
}

// deletion deletes the Pod or makes it wait for its hook; false if it waits already. extra may add to the write that makes
// it wait.
func (s *Snapshot) deletion(m *member, now time.Time, extra func(*patch.Object)) (Deletion, bool) {
	hook := lifecycle.PreDelete(s.Set.Spec.Lifecycle)
	if !lifecycle.Hooked(hook, m.Pod) {
		return Deletion{Pod: m.Pod}, true
	}
	if m.state == pub.LifecycleStatePreparingDelete {
		return Deletion{}, false
	}
	return Deletion{Pod: m.Pod, Prepare: inplace.PrepareDelete(m.Pod, hook, now, extra)}, true
}

// withoutOwner is the patch that releases a Pod.
func withoutOwner(p *corev1.Pod, s *Snapshot) patch.Patch {
	kept := kube.WithoutOwner(p.OwnerReferences, s.Set.UID)
	return patch.New(p).IfUnchanged(p).OwnerReferences(kept).Build()
}
