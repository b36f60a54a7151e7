// Package history keeps the ControllerRevisions of a workload: it records the present template, recognises one that was
// recorded before, and deletes what nothing uses any more.
package history

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

// History is what a sync knows of the revisions of a workload.
type History struct {
	// Revisions is the history, oldest first, with Update and Current among them.
	Revisions []*appsv1.ControllerRevision
	// Update is the revision of the present template, Current the one that partition holds Pods at.
	Update, Current *appsv1.ControllerRevision
	// CollisionCount is what the name of Update was formed with.
	CollisionCount int32
}

// Gather lists the revisions of the owner, and those of nobody that match the selector.
func Gather(indexer cache.Indexer, namespace, name string, uid types.UID, selector labels.Selector) (History, error) {
	list, err := kube.Owned[*appsv1.ControllerRevision](indexer, uid)
	if err != nil {
		return History{}, err
	}
	orphans, err := kube.Orphans[*appsv1.ControllerRevision](indexer, namespace)
	if err != nil {
		return History{}, err
	}
	for _, r := range orphans {
		// Revisions of another owner of the same selector are told by their names.
		if len(r.OwnerReferences) == 0 && r.Name == revision.Name(name, revision.ShortHash(r.Name)) && selector.Matches(labels.Set(r.Labels)) {
			list = append(list, r)
		}
	}
	going := func(r *appsv1.ControllerRevision) bool { return r.DeletionTimestamp != nil }
	return History{Revisions: revision.Sort(slices.DeleteFunc(list, going))}, nil
}

// Recall takes the revisions of these names, whether there are any, for a workload that is to change nothing any more.
func (h *History) Recall(update, current string) {
	named := func(name string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	h.Update, h.Current = named(update), named(current)
}

// find prefers, of several revisions that mean the same, the ones of these names: Pods are known by them.
func (h *History) find(data []byte, preferred ...string) *appsv1.ControllerRevision {
	found := revision.Find(h.Revisions, data)
	if found == nil {
		return nil
	}
	for _, name := range preferred {
		if found.Name == name {
			return found
		}
		for _, r := range h.Revisions {
			if r.Name == name && revision.Equal(r.Data.Raw, data) {
				return r
			}
		}
	}
	return found
}

// use makes a revision the update revision and the newest of the history.
func (h *History) use(r *appsv1.ControllerRevision) {
	h.Update = r
	h.Revisions = append(slices.DeleteFunc(slices.Clone(h.Revisions), func(o *appsv1.ControllerRevision) bool {
		return o.UID == r.UID
	}), r)
}

// surplus are the revisions that nothing uses beyond the limit, oldest first.
func (h *History) surplus(list []*corev1.Pod, limit int) []*appsv1.ControllerRevision {
	if len(h.Revisions) <= limit {
		return nil
	}
	used := map[string]bool{}
	for _, p := range list {
		used[revision.ShortHash(pods.RevisionOf(p))] = true
		// A Pod that waits for an update still runs what it ran before.
		used[revision.ShortHash(inplace.From(p))] = true
	}
	live := func(r *appsv1.ControllerRevision) bool {
		return r.UID == h.Update.UID || r.UID == h.Current.UID || used[revision.ShortHash(r.Name)]
	}
	return revision.Surplus(h.Revisions, live, limit)
}
