package cloneset

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"
	"github.com/flotilla-k8s/flotilla/internal/rollout"
)

// Plan decides. The snapshot is not changed.
//
// The only errors are those of a spec that cannot be understood; they name the field.
func (s *Snapshot) Plan(now time.Time) (*Plan, error) {
	n, err := resolve(&s.Set.Spec)
	if err != nil {
		return nil, err
	}
	if s.Set.DeletionTimestamp != nil {
		return &Plan{}, nil
	}
	plan := &Plan{Release: s.Strangers, Adopt: s.Returning}
	plan.look(s.AdoptAfter)
	if len(plan.Adopt) > 0 {
		return plan, nil
	}
	members := s.members(now)
	way := s.direction(n, members)
	s.direct(n, members, way)
	candidates, err := s.candidates(members, way)
	if err != nil {
		return nil, err
	}
	behind := s.planBehind(plan, members, now)
	s.planRefresh(plan, members, way, s.unwanted(candidates, way.wanted), behind, now)
	changes := s.changesTo(way.to)
	s.planScale(plan, n, members, candidates, changes, now)
	plan.Refresh = slices.DeleteFunc(plan.Refresh, func(r Refresh) bool {
		return slices.ContainsFunc(plan.Delete, func(d Deletion) bool { return d.Pod == r.Pod }) ||
			slices.ContainsFunc(plan.Cancel, func(c PodPatch) bool { return c.Pod == r.Pod })
	})
	s.planUpdate(plan, n, members, s.due(plan, candidates, way.wanted), way, changes, now)
	plan.Refresh = slices.DeleteFunc(plan.Refresh, func(r Refresh) bool {
		// A Pod that is taken further is not given first what it was to have before.
		return r.Step.Moves && slices.ContainsFunc(plan.Update, func(u Update) bool { return u.Pod == r.Pod && u.Impossible == nil })
	})
	for _, m := range members {
		if after, ok := pods.AvailableAfter(m.Pod, s.Set.Spec.MinReadySeconds, now); ok {
			plan.look(after)
		}
	}
	return plan, nil
}

// direction is where Pods are taken.
type direction struct {
	to *appsv1.ControllerRevision
	// wanted is how many Pods are to be taken there.
	wanted int
	// back: to the current revision, because the partition was raised.
	back bool
}

// needNoSurge says whether Pods above replicas would be created for nothing: all candidates can be updated in place, and the
// surge is no wider than what may be unavailable anyway, or they take nothing down.
func (s *Snapshot) needNoSurge(n numbers, candidates []*member, changes *inplace.Changes) bool {
	if len(candidates) == 0 || s.policy() != v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType {
		return false
	}
	for _, m := range candidates {
		if _, err := changes.Of(m.Pod); err != nil || n.maxUnavailable < n.maxSurge && !s.takesNothingDown(m, changes) {
			return false
		}
	}
	return true
}

// mayRollBack says whether raising the partition takes Pods back.
func (s *Snapshot) mayRollBack() bool {
	return s.Options.PartitionRollback && s.Current != s.Update
}

func (s *Snapshot) direction(n numbers, members []*member) direction {
	c := count(members, func(m *member) bool { return m.updated })
	wanted := differences(n, c, s.mayRollBack()).updates()
	if wanted < 0 {
		return direction{to: s.Current, wanted: -wanted, back: true}
	}
	return direction{to: s.Update, wanted: wanted}
}

// candidates are the Pods that are not where they are taken, in the order of updates. Back to the current revision only
// Pods of the update revision are taken.
func (s *Snapshot) candidates(members []*member, way direction) ([]*member, error) {
	index := make(map[*corev1.Pod]*member, len(members))
	var list []*corev1.Pod
	for _, m := range members {
		if !m.isAt(way.to) && !m.leaving && (m.updated || !way.back) {
			index[m.Pod] = m
			list = append(list, m.Pod)
		}
	}
	list = pods.SortForUpdate(list)
	if r := s.Set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		var err error
		if list, err = rollout.SortByPriority(r.PriorityStrategy, list); err != nil {
			return nil, fmt.Errorf("spec.updateStrategy.rollingUpdate.priorityStrategy.%w", err)
		}
		terms := make([]rollout.Term, len(r.ScatterStrategy))
		for i, t := range r.ScatterStrategy {
			terms[i] = rollout.Term{Key: t.Key, Value: t.Value}
		}
		list = rollout.Scatter(terms, list, s.Pods)
	}
	list = rollout.PreparingFirst(list)
	out := make([]*member, len(list))
	for i, p := range list {
		out[i] = index[p]
	}
	return out, nil
}

// due are the candidates that may be updated now. Those whose update failed not long ago give way to others: one Pod that
// cannot be updated holds up none. Nor is one updated whose deletion is planned beside: it did not come to pass then.
func (s *Snapshot) due(plan *Plan, candidates []*member, wanted int) []*member {
	wanted = max(0, min(wanted, len(candidates)))
	for _, m := range candidates[:wanted] {
		if after := s.Postponed[m.UID]; after > 0 {
			plan.UpdatePostponed = true
			plan.look(after)
		}
	}
	return filter(candidates, func(m *member) bool {
		return s.Postponed[m.UID] == 0 && !slices.ContainsFunc(plan.Delete, func(d Deletion) bool { return d.Pod == m.Pod })
	})
}

// unwanted are the Pods that prepare for an update in place although the partition wants fewer updated (from the end of
// the order), or Pods are not updated in place any more.
func (s *Snapshot) unwanted(candidates []*member, wanted int) map[*member]bool {
	out := map[*member]bool{}
	if s.policy() == v1beta1.ReCreateCloneSetPodUpdatePolicyType && !isPaused(&s.Set.Spec) && !isOnDelete(&s.Set.Spec) {
		wanted = 0
	}
	for i, m := range candidates {
		if m.state == pub.LifecycleStatePreparingUpdate && i >= max(0, wanted) {
			out[m] = true
		}
	}
	return out
}

func (s *Snapshot) planRefresh(plan *Plan, members []*member, way direction, unwanted, behind map[*member]bool, now time.Time) {
	for _, m := range members {
		step := inplace.Refresh{
			Lifecycle: s.Set.Spec.Lifecycle, AtTarget: m.isAt(way.to), Unwanted: unwanted[m], Now: now,
			KeepInfeasible: s.isInPlaceOnly(), ResourcesAfter: s.Postponed[m.UID], Behind: behind[m],
		}.Step(m.Pod)
		plan.look(step.RequeueAfter)
		plan.UpdatePostponed = plan.UpdatePostponed || step.Waits
		if !step.Due {
			step = labelHash(m.Pod, step)
		}
		if step.Due || len(step.Resize) > 0 {
			r := Refresh{Pod: m.Pod, Step: step}
			if !s.isInPlaceOnly() {
				r.Instead = s.recreate(m, way, now).Recreate
			}
			plan.Refresh = append(plan.Refresh, r)
		}
	}
}

// labelHash gives a Pod that others have created the label with the short hash.
func labelHash(p *corev1.Pod, step inplace.Step) inplace.Step {
	if name := pods.RevisionOf(p); name != "" && p.Labels[pub.PodTemplateHashKey] == "" {
		step.Patch = patch.New(p).Label(pub.PodTemplateHashKey, revision.ShortHash(name)).Build()
		step.Due = true
	}
	return step
}

// planUpdate chooses as many as are wanted, within the budget. An available Pod costs one of it; so does a Pod of the update
// revision that is not available, so that a revision that does not work stops after that many. A Pod that cannot be updated
// costs nothing and leaves its place to the next, and a change that takes nothing down costs nothing either.
func (s *Snapshot) planUpdate(plan *Plan, n numbers, members, candidates []*member, way direction, changes *inplace.Changes, now time.Time) {
	frozen := isPaused(&s.Set.Spec) || isOnDelete(&s.Set.Spec)
	b := budgetOf(n, members, way)
	s.planInfeasible(plan, members, way, func(m *member) bool { return !m.available || !frozen && b.spend(m) }, now)
	if frozen {
		return
	}
	places := way.wanted
	for _, m := range candidates {
		if places <= 0 {
			return
		}
		if err := s.impossible(m, changes); err != nil {
			plan.Update = append(plan.Update, Update{Pod: m.Pod, Impossible: fmt.Errorf("pod %s: %w", m.Name, err)})
			continue
		}
		places--
		if !s.takesNothingDown(m, changes) && !b.spend(m) {
			continue
		}
		if u, ok := s.update(m, changes, way, now); ok {
			plan.Update = append(plan.Update, u)
		}
	}
}

// budget is how many Pods may be unavailable, how many are, and how many of these are where Pods are taken.
type budget struct{ limit, down, downUpdated int }

func budgetOf(n numbers, members []*member, way direction) budget {
	b := budget{limit: n.maxUnavailable + len(members) - n.replicas}
	for _, m := range members {
		if !m.available {
			b.down++
			if m.isAt(way.to) {
				b.downUpdated++
			}
		}
	}
	return b
}

// spend says whether the Pod can be afforded, and counts it.
func (b *budget) spend(m *member) bool {
	// A Pod that was prepared has had its share of the budget, and may be what the others wait for.
	if b.downUpdated >= b.limit && m.state != pub.LifecycleStatePreparingUpdate {
		return false
	}
	if m.available {
		if b.down >= b.limit {
			return false
		}
		b.down++
	}
	b.downUpdated++
	return true
}

// takesNothingDown says whether an update leaves the Pod as it works now.
func (s *Snapshot) takesNothingDown(m *member, changes *inplace.Changes) bool {
	return s.policy() != v1beta1.ReCreateCloneSetPodUpdatePolicyType && changes.TakesNothingDown(m.Pod, m.state, s.Set.Spec.Lifecycle)
}

func (s *Snapshot) policy() v1beta1.CloneSetPodUpdatePolicyType {
	if r := s.Set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		return r.PodUpdatePolicy
	}
	return v1beta1.ReCreateCloneSetPodUpdatePolicyType
}

// planBehind updates Pods again that say that they are at the update revision and do not run its images, because the record
// of what they wait for was spoiled.
func (s *Snapshot) planBehind(plan *Plan, members []*member, now time.Time) map[*member]bool {
	behind := map[*member]bool{}
	for _, m := range members {
		if !m.updated || m.leaving || !inplace.HasRecord(m.Pod) {
			continue
		}
		if change, is := inplace.Behind(m.Pod, &s.Set.Spec.Template); is {
			behind[m] = true
			plan.Update = append(plan.Update, Update{Pod: m.Pod, InPlace: &inplace.Update{
				Target: target(s.Update.Name), Change: change, Now: now,
			}})
		}
	}
	return behind
}

// planInfeasible replaces the Pods whose nodes cannot give them what their update was to give them, or reports them where
// Pods are not to be replaced. Those that are not available were taken down within the budget. The others, which were left with what
// they have while Pods were not to be replaced, are replaced as far as may says.
func (s *Snapshot) planInfeasible(plan *Plan, members []*member, way direction, may func(*member) bool, now time.Time) {
	for _, m := range members {
		if !m.isAt(way.to) || m.leaving {
			continue
		}
		why, refused := inplace.Refusal(m.Pod)
		switch {
		case refused && s.isInPlaceOnly():
			plan.Update = append(plan.Update, Update{Pod: m.Pod, Impossible: fmt.Errorf("pod %s: %s", m.Name, why)})
		case refused && may(m):
			plan.Update = append(plan.Update, s.recreate(m, way, now))
		}
	}
}

func (s *Snapshot) isInPlaceOnly() bool {
	return s.policy() == v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType
}

// impossible is why a Pod that is only to be updated in place cannot be.
func (s *Snapshot) impossible(m *member, changes *inplace.Changes) error {
	if !s.isInPlaceOnly() || changes.IsWithdrawn(m.Pod) {
		return nil
	}
	_, err := changes.Of(m.Pod)
	return err
}

// update decides how one chosen Pod is updated; false if it waits for somebody else.
func (s *Snapshot) update(m *member, changes *inplace.Changes, way direction, now time.Time) (Update, bool) {
	policy, r := s.policy(), s.Set.Spec.UpdateStrategy.RollingUpdate
	// A Pod that runs what is wanted is not replaced because it was to run something else.
	if policy == v1beta1.ReCreateCloneSetPodUpdatePolicyType && !changes.IsWithdrawn(m.Pod) {
		return s.recreate(m, way, now), true
	}
	chooser := inplace.Chooser{Changes: changes, Target: target(way.to.Name), Lifecycle: s.Set.Spec.Lifecycle, Now: now}
	if r != nil && r.InPlaceUpdateStrategy != nil {
		chooser.GraceSeconds = r.InPlaceUpdateStrategy.GracePeriodSeconds
	}
	choice := chooser.Choose(m.Pod)
	switch {
	case choice.Recreate != nil:
		return s.recreate(m, way, now), true
	case choice.InPlace != nil && policy != v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType:
		return Update{Pod: m.Pod, InPlace: choice.InPlace, Instead: s.recreate(m, way, now).Recreate}, true
	}
	return Update{Pod: m.Pod, InPlace: choice.InPlace, Patches: choice.Patches}, choice.InPlace != nil || choice.Patches != nil
}

// recreate deletes the Pod; the next sync creates its successor. A hooked Pod is marked with the revision it makes room
// for, so that the deletion can be taken back if that revision is withdrawn.
func (s *Snapshot) recreate(m *member, way direction, now time.Time) Update {
	d := s.deletion(m, now, func(o *patch.Object) {
		o.Label(pub.SpecifiedDeleteKey, "true").Annotation(pub.CloneSetRecreateRevisionKey, way.to.Name)
	})
	return Update{Pod: m.Pod, Recreate: &d}
}

// target is a revision with the labels of Pods that are at it.
func target(name string) inplace.Target {
	return inplace.Target{Revision: name, Labels: map[string]string{
		pub.ControllerRevisionHashKey: revision.LabelValue(name),
		pub.PodTemplateHashKey:        revision.ShortHash(name),
	}}
}

func (s *Snapshot) changesTo(to *appsv1.ControllerRevision) *inplace.Changes {
	return &inplace.Changes{
		Revisions: s.Revisions, Target: to, Can: s.Can,
		Allow: func(from *appsv1.ControllerRevision) error { return s.checkClaims(from, to) },
	}
}

// checkClaims says why Pods of the revision cannot be updated in place although their templates allow it: the claims that
// they were made with are other ones now.
func (s *Snapshot) checkClaims(from, to *appsv1.ControllerRevision) error {
	if !s.Options.RecreateForClaims || s.isInPlaceOnly() {
		return nil
	}
	was, hadHash := from.Annotations[pub.CloneSetVolumeClaimTemplateHashKey]
	is, hasHash := to.Annotations[pub.CloneSetVolumeClaimTemplateHashKey]
	if hadHash && hasHash && was != is {
		return fmt.Errorf("volumeClaimTemplates changed since revision %s", from.Name)
	}
	return nil
}
