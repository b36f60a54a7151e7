package cloneset

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/lifecycle"
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
	plan := &Plan{Release: s.Strangers, Adopt: s.Returning}
	if s.Set.DeletionTimestamp != nil {
		return &Plan{}, nil
	}
	members := s.members(now)
	candidates, wanted, err := s.candidates(n, members)
	if err != nil {
		return nil, err
	}
	s.planRefresh(plan, members, unwanted(candidates, wanted), now)
	s.planScale(plan, n, members, now)
	plan.Refresh = slices.DeleteFunc(plan.Refresh, func(r Refresh) bool {
		return slices.ContainsFunc(plan.Delete, func(d Deletion) bool { return d.Pod == r.Pod }) ||
			slices.ContainsFunc(plan.Cancel, func(c PodPatch) bool { return c.Pod == r.Pod })
	})
	s.planUpdate(plan, n, members, candidates[:max(0, min(wanted, len(candidates)))], now)
	for _, m := range members {
		if after, ok := pods.AvailableAfter(m.Pod, s.Set.Spec.MinReadySeconds, now); ok {
			plan.look(after)
		}
	}
	return plan, nil
}

// candidates are the outdated Pods in the order of updates, and how many of them the partition wants updated.
func (s *Snapshot) candidates(n numbers, members []*member) ([]*member, int, error) {
	index := make(map[*corev1.Pod]*member, len(members))
	var list []*corev1.Pod
	for _, m := range members {
		if !m.updated && !m.leaving {
			index[m.Pod] = m
			list = append(list, m.Pod)
		}
	}
	list = pods.SortForUpdate(list)
	if r := s.Set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		var err error
		if list, err = rollout.SortByPriority(r.PriorityStrategy, list); err != nil {
			return nil, 0, fmt.Errorf("spec.updateStrategy.rollingUpdate.priorityStrategy.%w", err)
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
	oldDiff, newDiff := revisionDiffs(n, count(members, func(m *member) bool { return m.updated }))
	return out, min(oldDiff, -newDiff), nil
}

// unwanted are the Pods that prepare for an update although the partition wants fewer updated: from the end of the order.
func unwanted(candidates []*member, wanted int) map[*member]bool {
	out := map[*member]bool{}
	for i, m := range candidates {
		if m.state == pub.LifecycleStatePreparingUpdate && i >= max(0, wanted) {
			out[m] = true
		}
	}
	return out
}

func (s *Snapshot) planRefresh(plan *Plan, members []*member, unwanted map[*member]bool, now time.Time) {
	for _, m := range members {
		step := inplace.Refresh{
			Lifecycle: s.Set.Spec.Lifecycle, AtTarget: m.updated, Unwanted: unwanted[m], Now: now,
		}.Step(m.Pod)
		plan.look(step.RequeueAfter)
		if !step.Due {
			step = labelHash(m.Pod, step)
		}
		if step.Due {
			plan.Refresh = append(plan.Refresh, Refresh{Pod: m.Pod, Step: step})
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

// planUpdate chooses within the budget. An available Pod costs one of it; so does a Pod of the update revision that is
// not available, so that a revision that does not work stops after that many.
func (s *Snapshot) planUpdate(plan *Plan, n numbers, members, wanted []*member, now time.Time) {
	if isPaused(&s.Set.Spec) || isOnDelete(&s.Set.Spec) {
		return
	}
	budget := n.maxUnavailable + len(members) - n.replicas
	down, downUpdated := 0, 0
	for _, m := range members {
		if !m.available {
			down++
			if m.updated {
				downUpdated++
			}
		}
	}
	changes := newChanges(s)
	for _, m := range wanted {
		if downUpdated >= budget {
			return
		}
		if m.available {
			if down >= budget {
				continue
			}
			down++
		}
		downUpdated++
		if u, ok := s.update(m, changes, now); ok {
			plan.Update = append(plan.Update, u)
		}
	}
}

// update decides how one chosen Pod is updated; false if it waits for somebody else.
func (s *Snapshot) update(m *member, changes *changes, now time.Time) (Update, bool) {
	policy := v1beta1.ReCreateCloneSetPodUpdatePolicyType
	r := s.Set.Spec.UpdateStrategy.RollingUpdate
	if r != nil {
		policy = r.PodUpdatePolicy
	}
	if policy == v1beta1.ReCreateCloneSetPodUpdatePolicyType {
		return s.recreate(m, now), true
	}
	from := inplace.From(m.Pod)
	if inplace.InGrace(m.Pod) && pods.SameRevision(from, s.Update.Name) {
		withdrawn := inplace.Withdraw(m.Pod, target(s.Update.Name), s.Set.Spec.Lifecycle, now)
		return Update{Pod: m.Pod, Patches: []patch.Patch{withdrawn}}, true
	}
	change, err := changes.from(from)
	if err != nil {
		if policy == v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType {
			return Update{Pod: m.Pod, Impossible: fmt.Errorf("pod %s: %w", m.Name, err)}, true
		}
		return s.recreate(m, now), true
	}
	hook := lifecycle.InPlaceUpdate(s.Set.Spec.Lifecycle)
	switch action := lifecycle.Start(m.Pod, m.state, s.Set.Spec.Lifecycle); action {
	case lifecycle.Update:
		grace := int32(0)
		if r != nil && r.InPlaceUpdateStrategy != nil {
			grace = r.InPlaceUpdateStrategy.GracePeriodSeconds
		}
		return Update{Pod: m.Pod, InPlace: &inplace.Update{
			Target: target(s.Update.Name), Change: change, GraceSeconds: grace, Now: now,
		}}, true
	case lifecycle.Prepare, lifecycle.PrepareAgain:
		again := action == lifecycle.PrepareAgain
		return Update{Pod: m.Pod, Patches: inplace.Prepare(m.Pod, hook, again, now)}, true
	default:
		return Update{}, false
	}
}

// recreate deletes the Pod; the next sync creates its successor. A hooked Pod is marked with the revision it makes room
// for, so that the deletion can be taken back if that revision is withdrawn.
func (s *Snapshot) recreate(m *member, now time.Time) Update {
	d := s.deletion(m, now, func(o *patch.Object) {
		o.Label(pub.SpecifiedDeleteKey, "true").Annotation(pub.CloneSetRecreateRevisionKey, s.Update.Name)
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

// errNoRevision is why a Pod of a revision that was deleted cannot be updated in place.
var errNoRevision = errors.New("its revision does not exist any more")

// changes compares revisions with the update revision, each once.
type changes struct {
	snapshot *Snapshot
	to       *corev1.PodTemplateSpec
	toErr    error
	known    map[string]comparison
}

type comparison struct {
	change inplace.Change
	err    error
}

func newChanges(s *Snapshot) *changes { return &changes{snapshot: s, known: map[string]comparison{}} }

func (c *changes) from(name string) (inplace.Change, error) {
	if known, ok := c.known[name]; ok {
		return known.change, known.err
	}
	change, err := c.compare(name)
	c.known[name] = comparison{change, err}
	return change, err
}

func (c *changes) compare(name string) (inplace.Change, error) {
	if c.to == nil && c.toErr == nil {
		c.to, c.toErr = revision.Decode(c.snapshot.Update.Data.Raw)
	}
	if c.toErr != nil {
		return inplace.Change{}, c.toErr
	}
	r := revision.ByName(c.snapshot.Revisions, name)
	if r == nil {
		return inplace.Change{}, errNoRevision
	}
	from, err := revision.Decode(r.Data.Raw)
	if err != nil {
		return inplace.Change{}, err
	}
	change, err := inplace.Compare(from, c.to)
	if err != nil {
		return inplace.Change{}, fmt.Errorf("from revision %s: %w", r.Name, err)
	}
	return change, nil
}
