package statefulset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// Plan is what one sync does, in this order:
//
//  1. Release and Adopt. If any Pod is adopted the plan ends: it is counted only when it was seen.
//  2. Refresh and Patches: Pods move on that nothing is started with, deletions that are not wanted any more are taken back,
//     labels of identity are repaired. Owners: the owner references of claims. Nothing of this consumes a budget.
//  3. Delete: Pods that have ended, and those whose ordinal is not wanted. A claim's owner comes before its Pod's deletion.
//  4. MakeClaims and Create, within scaleStrategy.maxUnavailable.
//  5. Update and Resize, within updateStrategy.rollingUpdate.maxUnavailable, unless a creation has failed.
//
// With OrderedReady at most one Pod is created, deleted or updated.
type Plan struct {
	Release []*corev1.Pod
	Adopt   []*corev1.Pod

	Refresh []Refresh
	Patches []PodPatch
	Owners  []ClaimPatch

	Delete     []Deletion
	MakeClaims []*corev1.PersistentVolumeClaim
	Create     []Creation
	// CreatePostponed, UpdatePostponed: something of the kind is left out because it failed not long ago.
	CreatePostponed, UpdatePostponed bool

	Resize []ClaimPatch
	Update []Update
	// Problem is why something cannot be updated before somebody changes the spec or the cluster; nil without any.
	Problem *workload.Problem
	// UpdateReached: nothing came before the updates, so that there is no problem if none is told.
	UpdateReached bool
	// Stuck are the reasons for which an update could not go on now, if nothing came before the updates.
	Stuck sets.Set[string]
	// Unfinished: some Pod, or a claim of one, is not as the strategy wants it.
	Unfinished bool

	// Waits is what somebody else has to do first, for people; "" if nothing.
	Waits string

	// RequeueAfter is when to look again; 0 if only an event can change anything.
	RequeueAfter time.Duration
}

// Refresh is a step of one Pod.
type Refresh struct {
	Pod  *corev1.Pod
	Step inplace.Step
	// Instead deletes the Pod if the API server refuses the resize of the step; nil: then the Pod stays.
	Instead *Deletion
}

// PodPatch is one patch of a Pod.
type PodPatch struct {
	Pod   *corev1.Pod
	Patch patch.Patch
	// Identity says that it repairs the labels by which the Pod says who it is.
	Identity bool
}

// ClaimPatch is one patch of a claim.
type ClaimPatch struct {
	Claim *corev1.PersistentVolumeClaim
	Patch patch.Patch
	// Pod is whose deletion has to wait for it; may be nil.
	Pod *corev1.Pod
}

// Deletion deletes a Pod, or makes it wait for its hook.
type Deletion struct {
	Pod *corev1.Pod
	// Prepare are the patches that make it wait; none: it is deleted.
	Prepare []patch.Patch
}

// Creation makes the Pod of an ordinal, after its claims.
type Creation struct {
	Ordinal  int32
	Revision *appsv1.ControllerRevision
	Claims   []*corev1.PersistentVolumeClaim
	// Blocked is why it cannot be made now; nil if it can.
	Blocked error
	// Part is what its failure is remembered by.
	Part string
}

// Update takes one Pod to the update revision. Exactly one of InPlace, Patches and Delete is set.
type Update struct {
	Pod *corev1.Pod
	// InPlace changes the Pod. Instead deletes it if the API server refuses the resize; nil: then the Pod stays.
	InPlace *inplace.Update
	Instead *Deletion
	// Patches make it wait for its hook, or take it out of its grace period.
	Patches []patch.Patch
	// Delete makes room for its successor.
	Delete *Deletion
}

// look is the soonest of the times to look again.
func (p *Plan) look(after time.Duration) {
	if after > 0 && (p.RequeueAfter == 0 || after < p.RequeueAfter) {
		p.RequeueAfter = after
	}
}

// planner fills in a plan.
type planner struct {
	*Snapshot
	n    numbers
	now  time.Time
	plan *Plan
	// slots are ascending. Some that are missing are left out: see missing.
	slots     []*slot
	condemned []*member
	changes   *inplace.Changes
	// filled is how many slots have a Pod.
	filled int
	// heldBack is how many of the missing Pods are made from the current revision in an unordered update: the lowest.
	heldBack int
	// updating: the slots with a Pod that the strategy wants at the update revision, in the order of updates.
	updating []*slot
	// throttled: a Pod is missing because scaleStrategy.maxUnavailable allows no more.
	throttled bool
	// moved: a Pod changes its state, so that updates are decided when that is seen.
	moved bool
	// down is how many slots count against the budget of updates.
	down int
	// out is how many of them have no Pod that serves.
	out int
	// stopped: no further Pod is updated.
	stopped bool
}

// Plan decides, for a set that is not being deleted. The snapshot is not changed.
//
// The only errors are those of a spec that cannot be understood; they name the field.
func (s *Snapshot) Plan(now time.Time) (*Plan, error) {
	n, err := resolve(&s.Set.Spec)
	if err != nil {
		return nil, err
	}
	plan := &Plan{}
	plan.Release, plan.Adopt = s.Strangers, s.Returning
	plan.look(s.AdoptAfter)
	if len(plan.Adopt) > 0 {
		plan.Unfinished = true
		return plan, nil
	}
	p := &planner{
		Snapshot: s, n: n, now: now, plan: plan,
		changes: &inplace.Changes{Revisions: s.Revisions, Target: s.Update, Can: s.Can},
	}
	p.slots, p.condemned = s.arrange(&n, now)
	p.chooseRevisions()
	if err := p.chooseCandidates(); err != nil {
		return nil, err
	}
	plan.Unfinished, plan.Waits = p.isUnfinished(), p.waitsFor()
	p.refresh()
	p.own()
	scale := p.scaleParallel
	if isOrdered(&s.Set.Spec) {
		scale = p.scaleOrdered
	}
	if plan.UpdateReached = scale() && !p.moved; plan.UpdateReached {
		p.update()
	} else {
		plan.Stuck = p.stuck()
		plan.UpdatePostponed = p.stillFails() || plan.UpdatePostponed
	}
	p.dropSuperseded()
	plan.Unfinished = plan.Unfinished || p.deletes()
	for _, m := range p.members() {
		if after, ok := pods.AvailableAfter(m.Pod, n.minReadySeconds, now); ok {
			plan.look(after)
		}
	}
	return plan, nil
}

// deletes says whether the plan deletes Pods, or would if that had not failed.
func (p *planner) deletes() bool {
	return len(p.plan.Delete) > 0 || slices.ContainsFunc(p.slots, func(s *slot) bool {
		if s.m == nil {
			return false
		}
		_, failed := p.Failed[partOfDeletion(s.m.Pod)]
		return s.m.specified && failed
	})
}

// dropSuperseded leaves out steps of Pods that go, and those that would give a Pod what it was to have before it is taken
// further: what it lacks was worked out from what it has now.
func (p *planner) dropSuperseded() {
	p.plan.Refresh = slices.DeleteFunc(p.plan.Refresh, func(r Refresh) bool {
		return slices.ContainsFunc(p.plan.Delete, func(d Deletion) bool { return d.Pod == r.Pod }) ||
			r.Step.Moves && slices.ContainsFunc(p.plan.Update, func(u Update) bool { return u.Pod == r.Pod })
	})
}

// missing is how many wanted Pods there are not, those included that this sync does not get to.
func (p *planner) missing() int { return p.n.replicas - p.filled }

// unseen is how many slots this sync does not get to.
func (p *planner) unseen() int { return p.n.replicas - len(p.slots) }

// members are all Pods, those in slots first.
func (p *planner) members() []*member {
	list := make([]*member, 0, len(p.Pods))
	for _, s := range p.slots {
		if s.m != nil {
			list = append(list, s.m)
		}
	}
	return append(list, p.condemned...)
}

// deletion deletes the Pod or makes it wait for its hook; false if there is nothing to do but wait.
func (p *planner) deletion(m *member) (Deletion, bool) {
	if m.terminating || m.held {
		return Deletion{}, false
	}
	return p.Snapshot.deletion(m, p.now, nil)
}

// replacement deletes a Pod whose update turned out not to be possible in place; false if the Pod is to stay. While it
// waits for its hook nothing else says that it must go, so it is labelled: or it would be taken back and tried again. The
// label names the revision that it cannot be taken to.
func (p *planner) replacement(m *member) (Deletion, bool) {
	if m.terminating || m.held || p.isInPlaceOnly() {
		return Deletion{}, false
	}
	return p.Snapshot.deletion(m, p.now, func(o *patch.Object) { o.Label(pub.SpecifiedDeleteKey, revision.ShortHash(p.Update.Name)) })
}

// isDeleted says whether the plan deletes the Pod already.
func (p *planner) isDeleted(m *member) bool {
	return slices.ContainsFunc(p.plan.Delete, func(d Deletion) bool { return d.Pod == m.Pod }) ||
		slices.ContainsFunc(p.plan.Update, func(u Update) bool { return u.Pod == m.Pod })
}
