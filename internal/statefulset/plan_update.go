package statefulset

import (
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/rollout"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

var errLacksVolume = errors.New("it was made before a claim template was added")

// claimsAgain is how soon an obstacle outside the set is looked at again.
const claimsAgain = time.Minute

func isAt(m *member, r *appsv1.ControllerRevision) bool { return pods.AtRevision(m.Pod, r.Name) }

func (p *planner) policy() v1beta1.StatefulSetPodUpdatePolicyType {
	if r := p.Set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		return r.PodUpdatePolicy
	}
	return v1beta1.RecreatePodUpdateStrategyType
}

func (p *planner) isInPlaceOnly() bool {
	return p.policy() == v1beta1.InPlaceOnlyPodUpdateStrategyType
}

// chooseCandidates chooses the slots that the strategy wants at the update revision, in the order of updates: as many as
// partition leaves. While paused they are the same, only that none of them is taken further.
func (p *planner) chooseCandidates() error {
	wanted := max(p.n.replicas-p.n.partition, 0)
	if isOnDelete(&p.Set.Spec) || wanted == 0 {
		return nil
	}
	if isUnordered(&p.Set.Spec) {
		if err := p.byPriority(wanted); err != nil {
			return err
		}
	} else {
		for _, s := range slices.Backward(p.slots) {
			if s.m != nil && s.rank >= p.n.partition {
				p.updating = append(p.updating, s)
			}
		}
	}
	for _, s := range p.updating {
		s.candidate = true
	}
	return nil
}

// isUnfinished says whether a Pod is still to be made, to go or to be taken further: a Pod that is to go may stand in for one that
// is missing, so that their number says nothing. While paused none is taken further.
func (p *planner) isUnfinished() bool {
	if p.missing() > 0 || len(p.condemned) > 0 {
		return true
	}
	return !isPaused(&p.Set.Spec) && slices.ContainsFunc(p.updating, func(s *slot) bool {
		return p.isOutdated(s.m) || p.resizesClaims() && !all(p.comparisons(s.ordinal), comparison.isCompleted)
	})
}

// byPriority chooses those first that are at the update revision or on the way there, highest ordinal first, and missing ones
// that are made from it have their places among them. Then come the others by priority, and what is held back last.
func (p *planner) byPriority(wanted int) error {
	done, below := 0, p.filled
	renewed := p.missing() - p.heldBack
	index := map[*corev1.Pod]*slot{}
	var ranked []*corev1.Pod
	for _, s := range slices.Backward(p.slots) {
		if s.m == nil {
			continue
		}
		below--
		if !s.m.terminating && !countsAsUpdated(s.m) {
			index[s.m.Pod], ranked = s, append(ranked, s.m.Pod)
			continue
		}
		// Of the missing ones below it the lowest are held back.
		if above := p.missing() - max(s.rank-below, p.heldBack); done+above < wanted {
			p.updating = append(p.updating, s)
		}
		done++
	}
	ranked, err := rollout.SortByPriority(p.Set.Spec.UpdateStrategy.RollingUpdate.UnorderedUpdate.PriorityStrategy, ranked)
	if err != nil {
		return fmt.Errorf("spec.updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy.%w", err)
	}
	for _, pod := range ranked[:min(max(wanted-done-renewed, 0), len(ranked))] {
		p.updating = append(p.updating, index[pod])
	}
	return nil
}

// update takes Pods down within the budget: first those whose deletion was asked for, then candidates.
func (p *planner) update() {
	p.down, p.out = p.unseen(), p.unseen()
	for _, s := range p.slots {
		if s.down = p.isDown(s); s.down {
			p.down++
		}
		if s.out = p.isOut(s); s.out {
			p.out++
		}
	}
	p.deleteSpecified(false)
	p.replaceInfeasible()
	p.updateCandidates()
	p.deleteSpecified(true)
}

func (p *planner) updateCandidates() {
	if isPaused(&p.Set.Spec) || isOnDelete(&p.Set.Spec) {
		return
	}
	// What does not work costs nothing, and may be what all others wait for. In order all Pods work by now, but the last update of one
	// may never have ended.
	for _, s := range p.updating {
		if s.down && (!isOrdered(&p.Set.Spec) || !inplace.IsCompleted(s.m.Pod)) {
			p.workOnBroken(s)
		}
	}
	for _, s := range p.updating {
		if s.worked || !p.isDue(s) {
			continue
		}
		if !s.down && !p.mayTakeDown(s) && !p.costsNothing(s) {
			p.reportClaims()
			return
		}
		p.work(s)
	}
}

// reportClaims tells of claims that nobody brings to their templates, although they count against the budget: the update
// waits for somebody to delete them.
func (p *planner) reportClaims() {
	if !p.resizesClaims() {
		return
	}
	for _, s := range p.slots {
		for _, c := range p.comparisons(s.ordinal) {
			if !c.hasShape() {
				p.reportClaim(p.obstacle(c))
			}
		}
	}
}

func (p *planner) reportClaim(obstacle error) {
	p.report(&workload.Problem{Reason: ReasonClaimNotUpdated, Message: obstacle.Error()})
	p.plan.look(claimsAgain)
}

// isOut says whether a slot has no Pod that serves.
func (p *planner) isOut(s *slot) bool { return s.m == nil || !s.m.healthy() || !s.m.available }

// isDown says whether a slot counts against the budget of updates: that may be a Pod that serves while its update is not
// completed, or while its claims grow.
func (p *planner) isDown(s *slot) bool {
	return p.isOut(s) || !inplace.IsCompleted(s.m.Pod) || p.resizesClaims() && !all(p.comparisons(s.ordinal), comparison.isReady)
}

// mayTakeDown says whether the Pod of a slot may be given up. One that serves nothing costs nothing. One that serves and
// counts against the budget already has its place in it, as long as not as many others are out. None that serves may go
// while Pods are missing that are not allowed to be created yet.
func (p *planner) mayTakeDown(s *slot) bool {
	if s.out {
		return true
	}
	spent := p.down
	if s.down {
		spent = p.out
	}
	return spent < p.n.maxUnavailable && !p.throttled
}

// spend has a slot count against the budget.
func (p *planner) spend(s *slot) {
	if !s.down {
		s.down = true
		p.down++
	}
}

// takeDown gives the Pod of a slot up.
func (p *planner) takeDown(s *slot) {
	p.spend(s)
	if !s.out {
		s.out = true
		p.out++
	}
}

// deleteSpecified deletes Pods by their label, highest ordinal first. One that the budget does not allow holds up no others, and
// one that could not be deleted the last time gives way to them.
func (p *planner) deleteSpecified(again bool) {
	for _, s := range slices.Backward(p.slots) {
		if s.m == nil || !s.m.specified || s.m.terminating {
			continue
		}
		_, failed := p.Failed[partOfDeletion(s.m.Pod)]
		if failed != again || p.isLater(partOfDeletion(s.m.Pod)) || !p.mayTakeDown(s) {
			continue
		}
		p.takeDown(s)
		p.delete(s.m)
	}
}

// replaceInfeasible replaces Pods whose nodes cannot give them what their update was to give them, highest ordinal first, or
// reports them where Pods are not to be replaced. Those that are out were taken down within the budget. The others, which were
// left with what they have while Pods were not to be replaced, are part of the rollout.
func (p *planner) replaceInfeasible() {
	for _, s := range slices.Backward(p.slots) {
		if s.m == nil || s.m.terminating || !s.m.updated || s.m.state == pub.LifecycleStatePreparingDelete {
			continue
		}
		why, refused := inplace.Refusal(s.m.Pod)
		switch {
		case !refused:
		case p.isInPlaceOnly():
			p.report(&workload.Problem{Reason: ReasonInPlaceImpossible, Message: fmt.Sprintf("Pod %s: %s", s.m.Name, why)})
		case s.out:
			p.replace(s.m)
		default:
			p.replaceServing(s)
		}
	}
}

// replaceServing replaces a Pod that serves with what it has. In order it is the only one.
func (p *planner) replaceServing(s *slot) {
	if p.stopped || isPaused(&p.Set.Spec) || isOnDelete(&p.Set.Spec) || p.isLater(partOfDeletion(s.m.Pod)) || !p.mayTakeDown(s) {
		return
	}
	p.takeDown(s)
	p.replace(s.m)
	p.stopped = isOrdered(&p.Set.Spec)
}

// neverCompletes says whether the update of the Pod never ends, because its node does not have what it asks for.
func neverCompletes(m *member) bool {
	_, refused := inplace.Refusal(m.Pod)
	return m.updated && refused
}

func (p *planner) replace(m *member) {
	if d, ok := p.replacement(m); ok && !p.isDeleted(m) && !p.isLater(partOfDeletion(m.Pod)) {
		p.plan.Delete = append(p.plan.Delete, d)
	}
}

func (p *planner) report(problem *workload.Problem) {
	if p.plan.Problem == nil {
		p.plan.Problem = problem
	}
}

// stuck are the reasons for which updates that this sync does not come to could not go on.
func (p *planner) stuck() sets.Set[string] {
	out := sets.Set[string]{}
	for _, s := range p.slots {
		if s.m == nil || s.m.terminating {
			continue
		}
		if p.isInPlaceOnly() && (neverCompletes(s.m) || s.candidate && p.isOutdated(s.m) && p.impossible(s.m) != nil) {
			out.Insert(ReasonInPlaceImpossible)
		}
		if p.resizesClaims() && slices.ContainsFunc(p.comparisons(s.ordinal), func(c comparison) bool {
			return !c.hasShape() || s.candidate && c.isDue() && p.obstacle(c) != nil
		}) {
			out.Insert(ReasonClaimNotUpdated)
		}
	}
	return out
}

// stillFails says whether the update of a Pod failed not long ago that is to be updated still, although this sync does not come to it.
func (p *planner) stillFails() bool {
	return !isPaused(&p.Set.Spec) && slices.ContainsFunc(p.updating, func(s *slot) bool { return p.isDue(s) && p.isLater(partOfUpdate(s.m.Pod)) })
}

// isDue says whether there is anything to be done to a candidate.
func (p *planner) isDue(s *slot) bool {
	if p.stopped || s.m == nil || s.m.terminating || s.m.terminal || p.isDeleted(s.m) {
		return false
	}
	return p.isOutdated(s.m) || p.resizesClaims() && slices.ContainsFunc(p.comparisons(s.ordinal), comparison.isDue)
}

// workOnBroken takes a candidate further that counts against the budget already; in order it is the only one.
func (p *planner) workOnBroken(s *slot) {
	due := p.isDue(s)
	p.work(s)
	p.stopped = p.stopped || due && isOrdered(&p.Set.Spec)
}

// work takes a candidate further: first its claims, and when these are done the Pod.
func (p *planner) work(s *slot) {
	s.worked = true
	if !p.isDue(s) {
		return
	}
	if p.isLater(partOfUpdate(s.m.Pod)) {
		// Where Pods are updated in order, none overtakes another.
		p.stopped = p.stopped || isOrdered(&p.Set.Spec)
		return
	}
	if p.resizesClaims() && !p.workOnClaims(s) {
		return
	}
	if p.isOutdated(s.m) && (p.costsNothing(s) || p.mayTakeDown(s)) {
		p.take(s)
	}
}

// costsNothing says whether the update of a slot leaves its Pod as it works now. Pods that are updated in order take turns all the
// same.
func (p *planner) costsNothing(s *slot) bool {
	if isOrdered(&p.Set.Spec) || p.policy() == v1beta1.RecreatePodUpdateStrategyType || p.lacksVolume(s.m) {
		return false
	}
	return p.changes.TakesNothingDown(s.m.Pod, s.m.state, p.Set.Spec.Lifecycle)
}

// workOnClaims returns whether the claims of a slot are done with.
func (p *planner) workOnClaims(s *slot) bool {
	list := slices.DeleteFunc(p.comparisons(s.ordinal), comparison.waitsForVolume)
	for _, c := range list {
		if c.isCompatible() {
			continue
		}
		if err := p.obstacle(c); err != nil {
			p.reportClaim(err)
			return false
		}
		// It counts at once: an obstacle to another claim of the slot does not take that back.
		p.spend(s)
		p.plan.Resize = append(p.plan.Resize, ClaimPatch{Claim: c.claim, Patch: c.resize(p.Set), Pod: s.m.Pod})
	}
	if all(list, comparison.isCompleted) {
		return true
	}
	p.spend(s)
	return false
}

// take takes the Pod of a slot to the update revision.
func (p *planner) take(s *slot) {
	u, ok := p.updateOf(s.m)
	if p.stopped {
		return
	}
	if !p.costsNothing(s) {
		p.takeDown(s)
	}
	if ok {
		p.plan.Update = append(p.plan.Update, u)
	}
}

// updateOf decides how a Pod is updated; false if it waits for somebody else.
func (p *planner) updateOf(m *member) (Update, bool) {
	if err := p.impossible(m); err != nil && p.isInPlaceOnly() {
		p.report(&workload.Problem{Reason: ReasonInPlaceImpossible, Message: fmt.Sprintf("Pod %s: %v", m.Name, err)})
		p.stopped = true
		return Update{}, false
	}
	d, deletes := p.deletion(m)
	if p.recreates(m) {
		return Update{Pod: m.Pod, Delete: &d}, deletes
	}
	if m.state == pub.LifecycleStatePreparingDelete {
		return Update{}, false
	}
	chooser := inplace.Chooser{Changes: p.changes, Target: target(p.Update.Name), Lifecycle: p.Set.Spec.Lifecycle, Now: p.now}
	if r := p.Set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.InPlaceUpdateStrategy != nil {
		chooser.GraceSeconds = r.InPlaceUpdateStrategy.GracePeriodSeconds
	}
	choice := chooser.Choose(m.Pod)
	u := Update{Pod: m.Pod, InPlace: choice.InPlace, Patches: choice.Patches}
	if instead, ok := p.replacement(m); ok {
		u.Instead = &instead
	}
	return u, choice.InPlace != nil || choice.Patches != nil
}
