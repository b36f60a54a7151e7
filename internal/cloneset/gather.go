package cloneset

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

// Indices of the stores.
const (
	indexOwner  = "owner"
	indexOrphan = "orphan"
)

// indexers find objects by the UID of any owner, and those without a controller by namespace.
func indexers() cache.Indexers {
	return cache.Indexers{indexOwner: byOwner, indexOrphan: byOrphanage}
}

func byOwner(object any) ([]string, error) {
	o, ok := object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("not an object: %T", object)
	}
	var uids []string
	for _, r := range o.GetOwnerReferences() {
		uids = append(uids, string(r.UID))
	}
	return uids, nil
}

func byOrphanage(object any) ([]string, error) {
	o, ok := object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("not an object: %T", object)
	}
	if metav1.GetControllerOfNoCopy(o) != nil || o.GetLabels() == nil {
		return nil, nil
	}
	return []string{o.GetNamespace()}, nil
}

// gather reads the caches.
func (c *Controller) gather(ctx context.Context, set *v1beta1.CloneSet, selector labels.Selector) (*Snapshot, error) {
	s := &Snapshot{Set: set, StuckIDs: sets.Set[string]{}}
	if err := c.gatherRevisions(s, selector); err != nil {
		return nil, err
	}
	if err := c.gatherPods(s, selector); err != nil {
		return nil, err
	}
	if err := c.gatherClaims(s); err != nil {
		return nil, err
	}
	if len(set.Spec.Template.Spec.TopologySpreadConstraints) > 0 {
		s.NodeLabels = c.nodes.labels(ctx)
	}
	return s, nil
}

func (c *Controller) gatherPods(s *Snapshot, selector labels.Selector) error {
	owned, err := owned[*corev1.Pod](c.pods.GetIndexer(), s.Set.UID)
	if err != nil {
		return err
	}
	for _, p := range owned {
		switch {
		case !pods.IsActive(p):
			s.Inactive = append(s.Inactive, p)
		case selector.Matches(labels.Set(p.Labels)):
			s.Pods = append(s.Pods, p)
		default:
			s.Strangers = append(s.Strangers, p)
		}
	}
	orphans, err := c.pods.GetIndexer().ByIndex(indexOrphan, s.Set.Namespace)
	if err != nil {
		return fmt.Errorf("looking for orphans: %w", err)
	}
	for _, o := range orphans {
		if p, ok := o.(*corev1.Pod); ok && s.isReturning(p, selector) {
			s.Returning = append(s.Returning, p)
		}
	}
	return nil
}

// isReturning says whether a Pod without a controller was one of this set's. Other Pods that match are never taken.
func (s *Snapshot) isReturning(p *corev1.Pod, selector labels.Selector) bool {
	id := p.Labels[pub.CloneSetInstanceIDKey]
	return id != "" && p.Name == s.Set.Name+"-"+id && pods.IsActive(p) && selector.Matches(labels.Set(p.Labels)) &&
		revision.ByName(s.Revisions, pods.RevisionOf(p)) != nil
}

func (c *Controller) gatherClaims(s *Snapshot) error {
	claims, err := owned[*corev1.PersistentVolumeClaim](c.claims.GetIndexer(), s.Set.UID)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if claim.DeletionTimestamp != nil {
			s.StuckIDs.Insert(claim.Labels[pub.CloneSetInstanceIDKey])
			continue
		}
		s.Claims = append(s.Claims, claim)
	}
	return nil
}

// gatherRevisions lists those that match the selector and belong to the set or to nobody.
func (c *Controller) gatherRevisions(s *Snapshot, selector labels.Selector) error {
	list, err := owned[*appsv1.ControllerRevision](c.revisions.GetIndexer(), s.Set.UID)
	if err != nil {
		return err
	}
	orphans, err := c.revisions.GetIndexer().ByIndex(indexOrphan, s.Set.Namespace)
	if err != nil {
		return fmt.Errorf("looking for orphans: %w", err)
	}
	for _, o := range orphans {
		r, ok := o.(*appsv1.ControllerRevision)
		// Revisions of another set of the same selector are told by their names.
		if ok && len(r.OwnerReferences) == 0 && r.Name == revision.Name(s.Set.Name, revision.ShortHash(r.Name)) {
			list = append(list, r)
		}
	}
	for _, r := range list {
		if selector.Matches(labels.Set(r.Labels)) && r.DeletionTimestamp == nil {
			s.Revisions = append(s.Revisions, r)
		}
	}
	s.Revisions = revision.Sort(s.Revisions)
	return nil
}

func owned[T any](indexer cache.Indexer, uid types.UID) ([]T, error) {
	items, err := indexer.ByIndex(indexOwner, string(uid))
	if err != nil {
		return nil, fmt.Errorf("looking for what the set owns: %w", err)
	}
	out := make([]T, 0, len(items))
	for _, i := range items {
		if t, ok := i.(T); ok {
			out = append(out, t)
		}
	}
	return out, nil
}
