package cloneset

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/lifecycle"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/rollout"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// Outcome is what applying a plan came to.
type Outcome struct {
	// ScaleRan and UpdateRan: the part was carried out as far as it was needed.
	ScaleRan, UpdateRan bool
	// Unfinished: the plan made, deleted or updated Pods, or left some of that for later.
	Unfinished bool
	// Impossible: the plan came upon a Pod that cannot be updated, whether updates ran or not.
	Impossible bool
	// Again: more is to be done at once.
	Again bool
	// ScaleFailure and UpdateFailure are the first failures that are worth showing; nil without any.
	ScaleFailure, UpdateFailure *workload.Problem
}

// Reasons of conditions.
const (
	ReasonFailedCreate      = "FailedCreate"
	ReasonFailedDelete      = "FailedDelete"
	ReasonFailedUpdate      = "FailedUpdate"
	ReasonInPlaceImpossible = "InPlaceImpossible"
	ReasonSucceeded         = workload.ReasonSucceeded
	ReasonNoRevision        = "NoRevision"

	ReasonAvailable          = "CloneSetAvailable"
	ReasonPaused             = "CloneSetPaused"
	ReasonUpdated            = "CloneSetUpdated"
	ReasonPartitionAvailable = "ProgressPartitionAvailable"
	ReasonDeadlineExceeded   = "ProgressDeadlineExceeded"
)

// Status is the set's status after a sync, from what the sync saw, and when the next look at the progress deadline is
// due (0: never). Members and conditions that are not ours are kept.
func (s *Snapshot) Status(o Outcome, selector string, now time.Time) (*v1beta1.CloneSetStatus, time.Duration) {
	spec, old := &s.Set.Spec, &s.Set.Status
	status := old.DeepCopy()
	replicas := ptr.Deref(spec.Replicas, 1)
	status.ObservedGeneration = s.Set.Generation
	status.UpdateRevision = s.Update.Name
	status.CurrentRevision = s.Current.Name
	status.CollisionCount = ptr.To(s.CollisionCount)
	status.LabelSelector = selector
	s.countInto(status, now)
	status.ExpectedUpdatedReplicas = replicas
	if r := spec.UpdateStrategy.RollingUpdate; r != nil {
		// The numbers were resolved before: there is no plan without them.
		if p, err := rollout.Partition(r.Partition, int(replicas)); err == nil {
			status.ExpectedUpdatedReplicas = replicas - int32(p)
		}
	}
	if s.isPromoted(status, replicas) {
		status.CurrentRevision = s.Update.Name
	}
	c := conditionsOf(status, now)
	c.Failed(string(v1beta1.CloneSetConditionFailedScale), o.ScaleFailure, o.ScaleRan)
	// What was impossible by another spec says nothing of this one.
	over := old.ObservedGeneration != s.Set.Generation && !o.Impossible && c.hasReason(v1beta1.CloneSetConditionFailedUpdate, ReasonInPlaceImpossible)
	c.Failed(string(v1beta1.CloneSetConditionFailedUpdate), o.UpdateFailure, o.UpdateRan || over)
	look := c.progressing(spec, status, old)
	s.summarise(c, status, o.Unfinished)
	status.Conditions = c.List
	return status, look
}

func (s *Snapshot) countInto(status *v1beta1.CloneSetStatus, now time.Time) {
	status.Replicas = int32(len(s.Pods))
	status.ReadyReplicas, status.AvailableReplicas = 0, 0
	status.UpdatedReplicas, status.UpdatedReadyReplicas, status.UpdatedAvailableReplicas = 0, 0, 0
	for _, p := range s.Pods {
		ready := pods.IsReady(p)
		available := pods.IsAvailable(p, s.Set.Spec.MinReadySeconds, now)
		addIf(&status.ReadyReplicas, ready)
		addIf(&status.AvailableReplicas, available)
		if pods.AtRevision(p, s.Update.Name) {
			status.UpdatedReplicas++
			addIf(&status.UpdatedReadyReplicas, ready)
			addIf(&status.UpdatedAvailableReplicas, available)
		}
	}
}

func addIf(n *int32, counts bool) {
	if counts {
		*n++
	}
}

// isPromoted says whether the update revision becomes the current one: all Pods are at it. Without Pods only a spec that
// holds none back says so: a canary survives scaling to zero.
func (s *Snapshot) isPromoted(status *v1beta1.CloneSetStatus, replicas int32) bool {
	if status.UpdatedReplicas != replicas || status.Replicas != replicas {
		return false
	}
	if replicas > 0 {
		return true
	}
	r := s.Set.Spec.UpdateStrategy.RollingUpdate
	return r == nil || r.Partition == nil || r.Partition.String() == "0" || r.Partition.String() == "0%"
}

// StalledStatus is the status of a set whose spec cannot be worked on. Its Pods are counted if they are known; what is
// updated is not.
func (s *Snapshot) StalledStatus(p *workload.Problem, known bool, now time.Time) *v1beta1.CloneSetStatus {
	status := s.Set.Status.DeepCopy()
	status.ObservedGeneration = s.Set.Generation
	if known {
		status.Replicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0
		for _, pod := range s.Pods {
			status.Replicas++
			addIf(&status.ReadyReplicas, pods.IsReady(pod))
			addIf(&status.AvailableReplicas, pods.IsAvailable(pod, s.Set.Spec.MinReadySeconds, now))
		}
	}
	c := conditionsOf(status, now)
	c.Stalled(p.Reason, p.Message)
	status.Conditions = c.List
	return status
}

// NoRevisionStatus is the status of a set whose template could not be recorded: nothing can be done for it until that
// works. The generation is not observed.
func NoRevisionStatus(set *v1beta1.CloneSet, message string, now time.Time) *v1beta1.CloneSetStatus {
	status := set.Status.DeepCopy()
	c := conditionsOf(status, now)
	c.set(v1beta1.CloneSetConditionFailedUpdate, corev1.ConditionTrue, ReasonNoRevision, message)
	c.Reconciling(ReasonNoRevision, message)
	status.Conditions = c.List
	return status
}

// conditions edits the conditions of a set.
type conditions struct {
	workload.Conditions[v1beta1.CloneSetCondition]
}

func conditionsOf(status *v1beta1.CloneSetStatus, now time.Time) *conditions {
	return &conditions{workload.Conditions[v1beta1.CloneSetCondition]{
		List: status.Conditions, Now: metav1.NewTime(now.Truncate(time.Second)),
		View: func(c *v1beta1.CloneSetCondition) workload.Condition {
			return workload.Condition{
				Type: string(c.Type), Status: &c.Status, Reason: &c.Reason, Message: &c.Message,
				Transition: &c.LastTransitionTime, Updated: &c.LastUpdateTime,
			}
		},
		New: func(t string) v1beta1.CloneSetCondition {
			return v1beta1.CloneSetCondition{Type: v1beta1.CloneSetConditionType(t)}
		},
	}}
}

func (c *conditions) get(t v1beta1.CloneSetConditionType) *v1beta1.CloneSetCondition {
	return c.Get(string(t))
}

func (c *conditions) hasReason(t v1beta1.CloneSetConditionType, reason string) bool {
	return c.HasReason(string(t), reason)
}

func (c *conditions) set(t v1beta1.CloneSetConditionType, status corev1.ConditionStatus, reason, message string) {
	c.Set(string(t), status, reason, message)
}

// progressing keeps the clock of the rollout: while it goes on, the update time is when progress was last seen.
func (c *conditions) progressing(spec *v1beta1.CloneSetSpec, status, old *v1beta1.CloneSetStatus) time.Duration {
	const t = v1beta1.CloneSetConditionTypeProgressing
	if spec.ProgressDeadlineSeconds == nil || *spec.ProgressDeadlineSeconds == math.MaxInt32 {
		c.Remove(string(t))
		return 0
	}
	replicas := ptr.Deref(spec.Replicas, 1)
	newRevision := status.UpdateRevision != old.UpdateRevision
	switch {
	case status.CurrentRevision == status.UpdateRevision && status.Replicas == replicas &&
		status.UpdatedReplicas == replicas && status.UpdatedAvailableReplicas == replicas:
		c.set(t, corev1.ConditionTrue, ReasonAvailable, "CloneSet is available")
	case isPaused(spec):
		c.set(t, corev1.ConditionTrue, ReasonPaused, "CloneSet is paused")
	case status.ExpectedUpdatedReplicas < replicas && status.ExpectedUpdatedReplicas <= status.UpdatedAvailableReplicas:
		c.set(t, corev1.ConditionTrue, ReasonPartitionAvailable, "CloneSet has been paused due to partition ready")
	default:
		return c.clock(*spec.ProgressDeadlineSeconds, newRevision, newRevision || hasProgress(status, old, replicas), status.UpdateRevision)
	}
	return 0
}

func (c *conditions) clock(deadlineSeconds int32, newRevision, progress bool, revision string) time.Duration {
	const t = v1beta1.CloneSetConditionTypeProgressing
	deadline := time.Duration(deadlineSeconds) * time.Second
	old := c.get(t)
	if old != nil && !newRevision {
		over := old.Reason == ReasonUpdated && !progress && !old.LastUpdateTime.IsZero() && old.LastUpdateTime.Add(deadline).Before(c.Now.Time)
		if over || old.Reason == ReasonDeadlineExceeded {
			c.set(t, corev1.ConditionFalse, ReasonDeadlineExceeded, "CloneSet revision "+revision+" has timed out progressing")
			return 0
		}
	}
	c.set(t, corev1.ConditionTrue, ReasonUpdated, "CloneSet is progressing")
	current := c.get(t)
	if progress || current.LastUpdateTime.IsZero() {
		current.LastUpdateTime = c.Now
	}
	// A second more, because it is over only strictly after the deadline.
	return max(current.LastUpdateTime.Add(deadline).Sub(c.Now.Time), 0) + time.Second
}

func hasProgress(status, old *v1beta1.CloneSetStatus, replicas int32) bool {
	distance := func(n int32) int32 { return max(n-replicas, replicas-n) }
	return status.UpdatedReplicas > old.UpdatedReplicas ||
		status.UpdatedReadyReplicas > old.UpdatedReadyReplicas ||
		status.UpdatedAvailableReplicas > old.UpdatedAvailableReplicas ||
		status.AvailableReplicas > old.AvailableReplicas ||
		distance(status.Replicas) < distance(old.Replicas)
}

// summarise sets the conditions that generic tools read. While they say that it goes on, they tell for whom it waits.
func (s *Snapshot) summarise(c *conditions, status *v1beta1.CloneSetStatus, unfinished bool) {
	spec := &s.Set.Spec
	replicas := ptr.Deref(spec.Replicas, 1)
	ready := !unfinished && status.Replicas == replicas && status.AvailableReplicas == replicas &&
		(isPaused(spec) || isOnDelete(spec) || status.UpdatedReplicas >= status.ExpectedUpdatedReplicas)
	p := c.get(v1beta1.CloneSetConditionTypeProgressing)
	switch {
	case c.hasReason(v1beta1.CloneSetConditionFailedUpdate, ReasonInPlaceImpossible):
		c.Stalled(ReasonInPlaceImpossible, c.get(v1beta1.CloneSetConditionFailedUpdate).Message)
	case ready:
		// One that waits for its Pods to be deleted, or that has none, has come as far as it is to, whatever its deadline.
		c.Ready()
	case p != nil && p.Reason == ReasonDeadlineExceeded:
		c.Stalled(ReasonDeadlineExceeded, p.Message)
	default:
		c.Reconciling(workload.ReasonReconciling, s.waitsFor())
	}
}

// waitsFor tells which Pods' hooks the set waits for; the first of them by name.
func (s *Snapshot) waitsFor() string {
	var held []string
	for _, p := range s.Pods {
		if what := lifecycle.WaitsFor(p, pods.LifecycleState(p), s.Set.Spec.Lifecycle); what != "" && p.DeletionTimestamp == nil {
			held = append(held, what)
		}
	}
	slices.Sort(held)
	return workload.Waits(held)
}
