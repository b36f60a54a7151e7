package statefulset

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// Outcome is what applying a plan came to.
type Outcome struct {
	// CreateRan and UpdateRan: the part was carried out as far as it was needed.
	CreateRan, UpdateRan bool
	// UpdateReached: the plan came to the updates. If it did not, Stuck are the reasons for which they could not go on; nil: that is
	// not known.
	UpdateReached bool
	Stuck         sets.Set[string]
	// Unfinished: the plan found Pods or claims that are not as the strategy wants them.
	Unfinished bool
	// Waits is what somebody else has to do first.
	Waits string
	// Again: more is to be done at once.
	Again bool
	// CreateFailure and UpdateFailure are the first failures that are worth showing; nil without any.
	CreateFailure, UpdateFailure *workload.Problem
	// Deleted Pods were deleted, Moved ones were begun to be updated in place.
	Deleted, Moved sets.Set[types.UID]
}

// Reasons of conditions.
const (
	ReasonFailedCreate      = "FailedCreate"
	ReasonFailedDelete      = "FailedDelete"
	ReasonFailedUpdate      = "FailedUpdate"
	ReasonInPlaceImpossible = "InPlaceImpossible"
	ReasonClaimNotUpdated   = "ClaimNotUpdated"
	ReasonNoRevision        = "NoRevision"
)

const (
	conditionFailedCreate = string(v1beta1.FailedCreatePod)
	conditionFailedUpdate = string(v1beta1.FailedUpdatePod)
)

type conditions = workload.Conditions[v1beta1.StatefulSetCondition]

func conditionsOf(status *v1beta1.StatefulSetStatus, now time.Time) *conditions {
	return &conditions{
		List: status.Conditions, Now: metav1.NewTime(now.Truncate(time.Second)),
		View: func(c *v1beta1.StatefulSetCondition) workload.Condition {
			return workload.Condition{
				Type: string(c.Type), Status: &c.Status, Reason: &c.Reason, Message: &c.Message, Transition: &c.LastTransitionTime,
			}
		},
		New: func(t string) v1beta1.StatefulSetCondition {
			return v1beta1.StatefulSetCondition{Type: v1beta1.StatefulSetConditionType(t)}
		},
	}
}

// Status is the set's status after a sync, from what the sync saw and did. Members and conditions that are not ours are
// kept.
func (s *Snapshot) Status(o Outcome, selector string, now time.Time) *v1beta1.StatefulSetStatus {
	spec := &s.Set.Spec
	status := s.Set.Status.DeepCopy()
	sameSpec := status.ObservedGeneration == s.Set.Generation
	status.ObservedGeneration = s.Set.Generation
	status.CurrentRevision, status.UpdateRevision = s.Current.Name, s.Update.Name
	status.CollisionCount = ptr.To(s.CollisionCount)
	status.LabelSelector = selector
	s.countInto(status, o, now)
	s.countClaims(status, now)
	replicas, partition := ptr.Deref(spec.Replicas, 1), partitionOf(spec)
	if isPromoted(status, replicas, partition) {
		status.CurrentRevision, status.CurrentReplicas = status.UpdateRevision, status.UpdatedReplicas
	}
	c := conditionsOf(status, now)
	c.Failed(conditionFailedCreate, o.CreateFailure, o.CreateRan)
	ran := o.UpdateRan
	if why := stuckFor(c); why != "" {
		// What an update cannot do it still cannot when it is not its turn, as long as the spec and the obstacle are the same.
		remains := o.UpdateReached && !o.UpdateRan || !o.UpdateReached && (o.Stuck == nil || o.Stuck.Has(why))
		ran = !sameSpec || !remains
	}
	c.Failed(conditionFailedUpdate, o.UpdateFailure, ran)
	s.summarise(c, status, o)
	status.Conditions = c.List
	return status
}

func partitionOf(spec *v1beta1.StatefulSetSpec) int32 {
	if r := spec.UpdateStrategy.RollingUpdate; r != nil {
		return ptr.Deref(r.Partition, 0)
	}
	return 0
}

func (s *Snapshot) countInto(status *v1beta1.StatefulSetStatus, o Outcome, now time.Time) {
	status.Replicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0
	status.CurrentReplicas, status.UpdatedReplicas, status.UpdatedReadyReplicas, status.UpdatedAvailableReplicas = 0, 0, 0, 0
	updateName, currentName := status.UpdateRevision, status.CurrentRevision
	for _, p := range s.Pods {
		ready, available := pods.IsReady(p), pods.IsAvailable(p, minReadySeconds(&s.Set.Spec), now)
		updated := pods.AtRevision(p, updateName)
		stays := !pods.IsTerminating(p) && !o.Deleted.Has(p.UID)
		addIf(&status.Replicas, p.Status.Phase != "")
		addIf(&status.ReadyReplicas, ready)
		addIf(&status.AvailableReplicas, available)
		addIf(&status.CurrentReplicas, stays && pods.AtRevision(p, currentName) && !o.Moved.Has(p.UID))
		addIf(&status.UpdatedReplicas, stays && updated)
		addIf(&status.UpdatedReadyReplicas, ready && updated)
		addIf(&status.UpdatedAvailableReplicas, available && updated)
	}
}

func addIf(n *int32, counts bool) {
	if counts {
		*n++
	}
}

func minReadySeconds(spec *v1beta1.StatefulSetSpec) int32 {
	if r := spec.UpdateStrategy.RollingUpdate; r != nil {
		return ptr.Deref(r.MinReadySeconds, 0)
	}
	return 0
}

// countClaims counts, for each claim template, the Pods of wanted ordinals whose claim is as it says.
func (s *Snapshot) countClaims(status *v1beta1.StatefulSetStatus, now time.Time) {
	status.VolumeClaims = nil
	if len(s.Set.Spec.VolumeClaimTemplates) == 0 {
		return
	}
	// The numbers were resolved before: there is no plan without them.
	n, err := resolve(&s.Set.Spec)
	if err != nil {
		return
	}
	slots, _ := s.arrange(&n, now)
	for i := range s.Set.Spec.VolumeClaimTemplates {
		t := &s.Set.Spec.VolumeClaimTemplates[i]
		entry := v1beta1.VolumeClaimStatus{VolumeClaimName: t.Name}
		for _, slot := range slots {
			claim := s.Claims[claimName(s.Set, t.Name, slot.ordinal)]
			if slot.m == nil || claim == nil || claim.DeletionTimestamp != nil {
				continue
			}
			c := comparison{claim, t}
			addIf(&entry.CompatibleReplicas, c.isCompatible())
			addIf(&entry.CompatibleReadyReplicas, c.isCompatible() && c.isReady())
		}
		status.VolumeClaims = append(status.VolumeClaims, entry)
	}
}

// isPromoted says whether the update revision becomes the current one: all Pods are at it and ready. Without Pods only a
// spec that holds none back says so: a canary survives scaling to zero.
func isPromoted(status *v1beta1.StatefulSetStatus, replicas, partition int32) bool {
	return status.UpdatedReplicas == replicas && status.ReadyReplicas == replicas && status.Replicas == replicas &&
		(replicas > 0 || partition == 0)
}

// stuckFor is the reason why an update cannot go on before somebody changes the spec or the cluster; "" if it can.
func stuckFor(c *conditions) string {
	for _, why := range []string{ReasonInPlaceImpossible, ReasonClaimNotUpdated} {
		if c.HasReason(conditionFailedUpdate, why) {
			return why
		}
	}
	return ""
}

// summarise sets the conditions that generic tools read. While they say that it goes on, they tell for whom it waits.
func (s *Snapshot) summarise(c *conditions, status *v1beta1.StatefulSetStatus, o Outcome) {
	spec := &s.Set.Spec
	replicas := ptr.Deref(spec.Replicas, 1)
	ready := !o.Unfinished && status.Replicas == replicas && status.AvailableReplicas == replicas &&
		(isPaused(spec) || isOnDelete(spec) || status.UpdatedReplicas >= max(replicas-partitionOf(spec), 0))
	switch why := stuckFor(c); {
	case why != "":
		c.Stalled(why, c.Get(conditionFailedUpdate).Message)
	case ready:
		c.Ready()
	default:
		c.Reconciling(workload.ReasonReconciling, o.Waits)
	}
}

// StalledStatus is the status of a set whose spec cannot be worked on. Its Pods are counted if they are known, by the
// revisions of the spec before.
func (s *Snapshot) StalledStatus(p *workload.Problem, known bool, now time.Time) *v1beta1.StatefulSetStatus {
	status := s.Set.Status.DeepCopy()
	status.ObservedGeneration = s.Set.Generation
	if known {
		s.countInto(status, Outcome{}, now)
	}
	c := conditionsOf(status, now)
	c.Set(conditionFailedUpdate, corev1.ConditionTrue, p.Reason, p.Message)
	c.Stalled(p.Reason, p.Message)
	status.Conditions = c.List
	return status
}

// NoRevisionStatus is the status of a set whose template could not be recorded: nothing can be done for it until that
// works. The generation is not observed.
func NoRevisionStatus(set *v1beta1.StatefulSet, message string, now time.Time) *v1beta1.StatefulSetStatus {
	status := set.Status.DeepCopy()
	c := conditionsOf(status, now)
	c.Set(conditionFailedUpdate, corev1.ConditionTrue, ReasonNoRevision, message)
	c.Reconciling(ReasonNoRevision, message)
	status.Conditions = c.List
	return status
}
