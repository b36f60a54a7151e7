package cloneset

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/history"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

// gather reads the caches.
func (c *Controller) gather(ctx context.Context, set *v1beta1.CloneSet, selector labels.Selector, now time.Time) (*Snapshot, error) {
	s := &Snapshot{Set: set, Options: c.options, Can: c.can, StuckIDs: sets.Set[string]{}, ForeignIDs: sets.Set[string]{}}
	var err error
	if s.History, err = history.Gather(c.revisions.GetIndexer(), set.Namespace, set.Name, set.UID, selector); err != nil {
		return nil, err
	}
	if err := c.gatherPods(s, selector); err != nil {
		return nil, err
	}
	if err := c.gatherClaims(s); err != nil {
		return nil, err
	}
	if len(set.Spec.Template.Spec.TopologySpreadConstraints) > 0 {
		s.NodeLabels, s.NodesComing = c.nodes.labels(ctx)
	}
	c.gatherFailures(s, now)
	c.gatherScaledIn(s)
	return s, nil
}

// gatherScaledIn adds what tells the surge of a rollout that was paused from what a smaller number of replicas has left.
func (c *Controller) gatherScaledIn(s *Snapshot) {
	if !isPaused(&s.Set.Spec) {
		c.memory.forgetReplicas(s.Set.UID)
		return
	}
	s.ScaledIn = c.memory.scaledIn(s.Set.UID, int(ptr.Deref(s.Set.Spec.Replicas, 1)), len(s.Pods))
}

// gatherFailures adds what is to be tried only later.
func (c *Controller) gatherFailures(s *Snapshot, now time.Time) {
	uid, goal := s.Set.UID, goalOf(s.Set)
	s.CreateAfter, _ = c.backoff.Wait(uid, partCreate, s.goalOfCreation(0), now)
	s.UnusedIDs = c.memory.unusedIDs(uid, s.Set.Generation)
	s.Postponed, s.DeleteLater = map[types.UID]time.Duration{}, map[types.UID]time.Duration{}
	there := sets.New(partCreate)
	for _, p := range slices.Concat(s.Pods, s.Returning, s.Inactive) {
		there.Insert(string(p.UID))
		if wait, failed := c.backoff.Wait(uid, string(p.UID), goal, now); failed {
			s.Postponed[p.UID] = wait
		}
		there.Insert(partDelete(p))
		if wait, _ := c.backoff.Wait(uid, partDelete(p), goal, now); wait > 0 {
			s.DeleteLater[p.UID] = wait
		}
	}
	c.backoff.Keep(uid, there.Has)
	s.Returning = slices.DeleteFunc(s.Returning, func(p *corev1.Pod) bool {
		wait := s.Postponed[p.UID]
		if wait > 0 && (s.AdoptAfter == 0 || wait < s.AdoptAfter) {
			s.AdoptAfter = wait
		}
		return wait > 0
	})
}

// partCreate is the creation of Pods as a part of the work that may fail; an update of a Pod is called by the Pod's UID.
const partCreate = "create"

// partDelete is the deletion of a Pod by scaling, or that it is taken back.
func partDelete(p *corev1.Pod) string { return "delete " + string(p.UID) }

// goalOfCreation is what failures to create Pods are remembered for. It often is room that they failed for, such as that of a
// quota: it is another matter when other Pods are there.
func (s *Snapshot) goalOfCreation(created int) string {
	return fmt.Sprintf("%s %d %d", goalOf(s.Set), len(s.Pods)+created, len(s.Inactive))
}

// goalOf is what failures are remembered for: whatever is changed in the spec may mend them.
func goalOf(set *v1beta1.CloneSet) string { return strconv.FormatInt(set.Generation, 10) }

func (c *Controller) gatherPods(s *Snapshot, selector labels.Selector) error {
	owned, err := kube.Owned[*corev1.Pod](c.pods.GetIndexer(), s.Set.UID)
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
	orphans, err := kube.Orphans[*corev1.Pod](c.pods.GetIndexer(), s.Set.Namespace)
	if err != nil {
		return err
	}
	for _, p := range orphans {
		if s.isReturning(p, selector) {
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
	claims, err := kube.Owned[*corev1.PersistentVolumeClaim](c.claims.GetIndexer(), s.Set.UID)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if claim.DeletionTimestamp != nil {
			s.StuckIDs.Insert(idOfClaim(claim, s.Set))
			continue
		}
		s.Claims = append(s.Claims, claim)
	}
	if err := c.gatherParted(s); err != nil {
		return err
	}
	return c.gatherForeignIDs(s)
}

// gatherParted finds the claims that the set's Pods hold themselves.
func (c *Controller) gatherParted(s *Snapshot) error {
	held, err := c.claims.GetIndexer().IndexKeys(kube.IndexOfPod, s.Set.Namespace)
	if err != nil {
		return fmt.Errorf("looking for claims of Pods: %w", err)
	}
	if len(held) == 0 {
		return nil
	}
	for _, p := range s.Pods {
		parted, err := kube.Owned[*corev1.PersistentVolumeClaim](c.claims.GetIndexer(), p.UID)
		if err != nil {
			return err
		}
		for _, claim := range parted {
			if claim.DeletionTimestamp == nil && metav1.IsControlledBy(claim, p) && idOfClaim(claim, s.Set) == idOf(p, s.Set) {
				s.Parted = append(s.Parted, HandOver{claim, p})
			}
		}
	}
	return nil
}

// gatherForeignIDs looks for Pods by the names that claims without a Pod of the set belong to.
func (c *Controller) gatherForeignIDs(s *Snapshot) error {
	if len(s.Claims) == 0 {
		return nil
	}
	ours := sets.Set[string]{}
	for _, p := range slices.Concat(s.Pods, s.Strangers, s.Inactive) {
		ours.Insert(idOf(p, s.Set))
	}
	for _, claim := range s.Claims {
		id := idOfClaim(claim, s.Set)
		if ours.Has(id) {
			continue
		}
		_, exists, err := c.pods.GetStore().GetByKey(s.Set.Namespace + "/" + s.Set.Name + "-" + id)
		if err != nil {
			return fmt.Errorf("looking for the Pod of claim %s: %w", claim.Name, err)
		}
		if exists {
			s.ForeignIDs.Insert(id)
		}
	}
	return nil
}
