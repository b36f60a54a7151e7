package cloneset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/history"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// Snapshot is all that one sync decides from.
type Snapshot struct {
	// Set has its defaults. It is not changed.
	Set *v1beta1.CloneSet
	// Options are the controller's, Can what the cluster offers.
	Options Options
	Can     inplace.Abilities
	// Pods are the Pods of the set: active, owned and matching its selector.
	Pods []*corev1.Pod
	// Strangers are active Pods that the set owns and its selector does not match any more.
	Strangers []*corev1.Pod
	// Returning are active Pods without a controller that once were the set's and match its selector again.
	Returning []*corev1.Pod
	// Inactive are owned Pods that have ended or been deleted.
	Inactive []*corev1.Pod
	// Claims are those that the set owns and that are not terminating.
	Claims []*corev1.PersistentVolumeClaim
	// Parted are claims that were handed over to Pods which have not gone after all.
	Parted []HandOver
	// StuckIDs are the instance ids of which a claim is terminating.
	StuckIDs sets.Set[string]
	// ForeignIDs are the instance ids of claims whose Pod exists and is not the set's (any more).
	ForeignIDs sets.Set[string]
	// UnusedIDs are the instance ids of claims that were made for Pods that could not be created. The next Pods use them.
	UnusedIDs sets.Set[string]
	// CreateAfter is how long no Pod is to be created, because that failed; 0: now.
	CreateAfter time.Duration
	// ScaledIn is how many Pods of a paused set are left of a larger number of replicas, as far as the process has seen it.
	ScaledIn int
	// AdoptAfter is how long some Pod that could not be adopted is left alone; 0: there is none.
	AdoptAfter time.Duration
	// Postponed are Pods whose update failed, and how long it is not to be tried again. 0: now, but with a rehearsal.
	Postponed map[types.UID]time.Duration
	// DeleteLater are Pods that could not be deleted to scale in, or not be kept after all, and how long that is not to be
	// tried again.
	DeleteLater map[types.UID]time.Duration
	history.History
	// NodeLabels are needed where the template spreads its Pods; nil if they are not or cannot be read.
	NodeLabels map[string]map[string]string
	// NodesComing: they are being read and will be there in a moment.
	NodesComing bool
}

// member is a Pod of the set with what the plan asks of it.
type member struct {
	*corev1.Pod
	state     pub.LifecycleStateType
	updated   bool // at the update revision
	available bool
	leaving   bool // PreparingDelete
	// specified: its deletion was asked for, and it is not leaving yet or was asked for by a user.
	specified bool
	// withdrawn: it leaves to make room for a revision that is not wanted any more.
	withdrawn bool
	// back: Pods are being taken back to the current revision.
	back bool
}

func (s *Snapshot) members(now time.Time) []*member {
	named := sets.New(s.Set.Spec.ScaleStrategy.PodsToDelete...)
	list := make([]*member, 0, len(s.Pods))
	for _, p := range s.Pods {
		m := &member{
			Pod:       p,
			state:     pods.LifecycleState(p),
			updated:   pods.AtRevision(p, s.Update.Name),
			available: pods.IsAvailable(p, s.Set.Spec.MinReadySeconds, now),
			specified: pods.IsSpecifiedDelete(p) || named.Has(p.Name),
		}
		m.leaving = m.state == pub.LifecycleStatePreparingDelete
		list = append(list, m)
	}
	return list
}

// direct notes which way the set is going, and takes back deletions that made room for the other way, or for more Pods of
// the update revision than the partition lets there be now.
func (s *Snapshot) direct(n numbers, members []*member, d direction) {
	named := sets.New(s.Set.Spec.ScaleStrategy.PodsToDelete...)
	lacking := n.partition - count(members, func(m *member) bool { return m.updated }).old.active()
	for _, m := range members {
		m.back = d.back
		made, recreated := m.Annotations[pub.CloneSetRecreateRevisionKey]
		if !recreated || named.Has(m.Name) {
			continue
		}
		held := m.leaving && !m.updated && !d.back && lacking > 0
		if held {
			lacking--
		}
		// A Pod that says that it is there already makes room because it cannot get there in place.
		if held || m.isAt(d.to) && made != d.to.Name {
			m.specified, m.withdrawn = false, true
		}
	}
}

func (m *member) isAt(r *appsv1.ControllerRevision) bool { return pods.AtRevision(m.Pod, r.Name) }

// countsAsUpdated is for scaling: a Pod that prepares for its update is as good as updated, and one that prepares for the
// way back is not updated any more.
func (m *member) countsAsUpdated() bool {
	if m.state == pub.LifecycleStatePreparingUpdate {
		return !m.back
	}
	return m.updated
}

func unwrap(list []*member) []*corev1.Pod {
	out := make([]*corev1.Pod, len(list))
	for i, m := range list {
		out[i] = m.Pod
	}
	return out
}

func filter(list []*member, keep func(*member) bool) []*member {
	return slices.DeleteFunc(slices.Clone(list), func(m *member) bool { return !keep(m) })
}

// ranking orders the set's Pods for deletion.
func (s *Snapshot) ranking(now time.Time) pods.Ranking {
	return pods.Ranking{
		MinReadySeconds: s.Set.Spec.MinReadySeconds, Now: now,
		Constraints: s.Set.Spec.Template.Spec.TopologySpreadConstraints, NodeLabels: s.NodeLabels,
	}
}

// byRank returns the members in the order of deletion among all Pods of the set.
func (s *Snapshot) byRank(list []*member, now time.Time) []*member {
	if len(list) == 0 {
		return nil
	}
	index := make(map[*corev1.Pod]*member, len(list))
	for _, m := range list {
		index[m.Pod] = m
	}
	sorted := s.ranking(now).SortForDeletion(unwrap(list), s.Pods)
	out := make([]*member, len(sorted))
	for i, p := range sorted {
		out[i] = index[p]
	}
	return out
}
