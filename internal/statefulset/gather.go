package statefulset

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/history"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// partCreate is the creation of any Pods as a part of the work that may fail. That of a single one is called by the Pod's name,
// or by that of the claim that is in its way, an update by the Pod's UID.
const partCreate = "create"

func partOfPod(set *v1beta1.StatefulSet, ordinal int32) string {
	return partCreate + " " + podName(set, ordinal)
}

func partOfClaim(name string) string { return "wait for claim " + name }

// goalOf is what failures are remembered for: whatever is changed in the spec may mend them.
func goalOf(set *v1beta1.StatefulSet) string { return strconv.FormatInt(set.Generation, 10) }

// gather reads the caches.
func (c *Controller) gather(set *v1beta1.StatefulSet, selector labels.Selector, now time.Time) (*Snapshot, error) {
	s := &Snapshot{Set: set, Can: c.can}
	var err error
	if s.History, err = history.Gather(c.revisions.GetIndexer(), set.Namespace, set.Name, set.UID, selector); err != nil {
		return nil, err
	}
	if err := c.gatherPods(s, selector); err != nil {
		return nil, err
	}
	n, err := resolve(&set.Spec)
	if err != nil {
		return nil, err
	}
	if err := c.gatherPlaces(s, &n); err != nil {
		return nil, err
	}
	if s.resizesClaims() {
		s.Classes = map[string]*storagev1.StorageClass{}
		for _, o := range c.classes.GetStore().List() {
			if class, ok := o.(*storagev1.StorageClass); ok {
				s.Classes[class.Name] = class
			}
		}
	}
	c.gatherFailures(s, &n, now)
	return s, nil
}

func (c *Controller) gatherPods(s *Snapshot, selector labels.Selector) error {
	isMember := func(p *corev1.Pod) bool {
		parent, _, ok := parentAndOrdinal(p.Name)
		return ok && parent == s.Set.Name && selector.Matches(labels.Set(p.Labels))
	}
	owned, err := kube.Owned[*corev1.Pod](c.pods.GetIndexer(), s.Set.UID)
	if err != nil {
		return err
	}
	for _, p := range owned {
		switch {
		case !metav1.IsControlledBy(p, s.Set):
		case isMember(p):
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
		if isMember(p) && !pods.IsTerminating(p) {
			s.Returning = append(s.Returning, p)
		}
	}
	return nil
}

// gatherPlaces looks up the claims of all ordinals that matter, and who holds the names of missing Pods.
func (c *Controller) gatherPlaces(s *Snapshot, n *numbers) error {
	s.Taken, s.Claims = sets.Set[string]{}, map[string]*corev1.PersistentVolumeClaim{}
	ours := sets.Set[string]{}
	places := slices.Clone(n.wanted)
	for _, p := range s.Pods {
		ours.Insert(p.Name)
		if _, ordinal, ok := parentAndOrdinal(p.Name); ok {
			places = append(places, ordinal)
		}
	}
	for _, ordinal := range places {
		name := podName(s.Set, ordinal)
		if !ours.Has(name) {
			_, exists, err := c.pods.GetStore().GetByKey(s.Set.Namespace + "/" + name)
			if err != nil {
				return fmt.Errorf("looking for Pod %s: %w", name, err)
			}
			if exists {
				s.Taken.Insert(name)
			}
		}
		var names []string
		for i := range s.Set.Spec.VolumeClaimTemplates {
			names = append(names, claimName(s.Set, s.Set.Spec.VolumeClaimTemplates[i].Name, ordinal))
		}
		if err := c.gatherClaims(s, names); err != nil {
			return err
		}
	}
	for _, p := range s.Pods {
		if _, ordinal, ok := parentAndOrdinal(p.Name); ok {
			if err := c.gatherClaims(s, claimsIn(s.Set, p, ordinal)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Controller) gatherClaims(s *Snapshot, names []string) error {
	for _, name := range names {
		item, exists, err := c.claims.GetStore().GetByKey(s.Set.Namespace + "/" + name)
		if err != nil {
			return fmt.Errorf("looking for claim %s: %w", name, err)
		}
		if claim, ok := item.(*corev1.PersistentVolumeClaim); exists && ok {
			s.Claims[name] = claim
		}
	}
	return nil
}

// gatherFailures adds what is to be tried only later.
func (c *Controller) gatherFailures(s *Snapshot, n *numbers, now time.Time) {
	uid, goal := s.Set.UID, goalOf(s.Set)
	s.CreateAfter, _ = c.backoff.Wait(uid, partCreate, goal, now)
	s.Postponed, s.CreateLater = map[types.UID]time.Duration{}, map[string]time.Duration{}
	there := sets.New(partCreate)
	for _, part := range missingParts(s, n) {
		there.Insert(part)
		if wait, failed := c.backoff.Wait(uid, part, goal, now); failed {
			s.CreateLater[part] = wait
		}
	}
	for _, p := range slices.Concat(s.Pods, s.Returning) {
		there.Insert(string(p.UID))
		if wait, failed := c.backoff.Wait(uid, string(p.UID), goal, now); failed {
			s.Postponed[p.UID] = wait
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

// missingParts are the parts of the work by which the Pods that are missing are made.
func missingParts(s *Snapshot, n *numbers) []string {
	there := sets.Set[int32]{}
	for _, p := range s.Pods {
		if _, ordinal, ok := parentAndOrdinal(p.Name); ok {
			there.Insert(ordinal)
		}
	}
	var out []string
	for _, ordinal := range n.wanted {
		if there.Has(ordinal) {
			continue
		}
		out = append(out, partOfPod(s.Set, ordinal))
		if claim := s.goingClaim(ordinal); claim != nil {
			out = append(out, partOfClaim(claim.Name))
		}
	}
	return out
}
