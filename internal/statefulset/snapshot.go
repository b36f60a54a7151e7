package statefulset

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/history"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

// Snapshot is all that one sync decides from.
type Snapshot struct {
	// Set has its defaults. It is not changed.
	Set *v1beta1.StatefulSet
	// Can is what the cluster offers.
	Can inplace.Abilities
	// Pods are the Pods of the set, whatever their phase, terminating ones included.
	Pods []*corev1.Pod
	// Strangers are Pods that the set owns and that do not match it (any more).
	Strangers []*corev1.Pod
	// Returning are Pods without a controller that match the set in selector and name.
	Returning []*corev1.Pod
	// Missing are wanted ordinals without a Pod, ascending: the lowest ones, as far as one sync gets. Their number is bounded
	// by what there is, and not by what was asked for.
	Missing []int32
	// Taken are the names that Pods of others hold, and which Pods these are.
	Taken map[string]types.UID
	// Claims are those of the set's ordinals, by name.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Classes are the storage classes by name; nil while they are not known.
	Classes map[string]*storagev1.StorageClass
	// AdoptAfter is how long some Pod that could not be adopted is left alone; 0: there is none.
	AdoptAfter time.Duration
	// Failed are the parts of the work that failed, and how long they are not to be tried again; 0: now, an update with a rehearsal.
	Failed map[string]time.Duration

	history.History
}

// member is a Pod of the set with what the plan asks of it.
type member struct {
	*corev1.Pod
	ordinal int32
	state   pub.LifecycleStateType
	// updated: at the update revision; available also for minReadySeconds.
	updated, ready, available bool
	terminating, terminal     bool
	// specified: its deletion was asked for.
	specified bool
	// held: an owner of its claims could not be written, so that it is not deleted.
	held bool
}

// healthy is ready and neither held by a hook nor terminating.
func (m *member) healthy() bool { return !m.terminating && pods.IsReadyAndNormal(m.Pod) }

func (s *Snapshot) member(p *corev1.Pod, ordinal int32, n *numbers, now time.Time) *member {
	return &member{
		Pod: p, ordinal: ordinal, state: pods.LifecycleState(p),
		updated: pods.AtRevision(p, s.Update.Name), ready: pods.IsReady(p), available: pods.IsAvailable(p, n.minReadySeconds, now),
		terminating: pods.IsTerminating(p), terminal: pods.IsTerminal(p),
		specified: pods.IsSpecifiedDelete(p) && !s.isForgone(p),
	}
}

// isForgone says whether the Pod was to be replaced on the way to a revision that is not the goal any more.
func (s *Snapshot) isForgone(p *corev1.Pod) bool {
	wanted := p.Labels[pub.SpecifiedDeleteKey]
	return wanted != revision.ShortHash(s.Update.Name) && slices.ContainsFunc(s.Revisions, func(r *appsv1.ControllerRevision) bool {
		return revision.ShortHash(r.Name) == wanted
	})
}

// slot is an ordinal that is to have a Pod.
type slot struct {
	ordinal int32
	rank    int
	// m is nil as long as there is no Pod.
	m *member
	// old: the Pod that is missing is made from the current revision.
	old bool
	// down: it counts against the budget of updates.
	down bool
	// out: it has no Pod that serves.
	out bool
	// worked: the update has looked at it.
	worked bool
	// candidate: the strategy wants it at the update revision.
	candidate bool
}

// arrange makes the slots, ascending: those that have a Pod, and those that are missing as far as this sync gets. Pods of
// other ordinals are condemned, highest ordinal first.
func (s *Snapshot) arrange(n *numbers, now time.Time) (slots []*slot, condemned []*member) {
	slots = make([]*slot, 0, len(s.Pods)+len(s.Missing))
	for _, p := range s.Pods {
		_, ordinal, ok := parentAndOrdinal(p.Name)
		if !ok {
			continue
		}
		m := s.member(p, ordinal, n, now)
		if rank, wanted := n.wanted.Rank(ordinal); wanted {
			slots = append(slots, &slot{ordinal: ordinal, rank: rank, m: m})
		} else {
			condemned = append(condemned, m)
		}
	}
	for _, ordinal := range s.Missing {
		rank, _ := n.wanted.Rank(ordinal)
		slots = append(slots, &slot{ordinal: ordinal, rank: rank})
	}
	slices.SortFunc(slots, func(a, b *slot) int { return cmp.Compare(a.rank, b.rank) })
	slices.SortFunc(condemned, func(a, b *member) int { return cmp.Compare(b.ordinal, a.ordinal) })
	return slots, condemned
}
