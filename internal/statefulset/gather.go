package statefulset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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
// or by that of the claim that is in its way.
const (
	partCreate   = "create"
	waitForClaim = "wait for claim "
)

func partOfPod(set *v1beta1.StatefulSet, ordinal int32) string {
	return partCreate + " " + podName(set, ordinal)
}

func partOfClaim(name string) string { return waitForClaim + name }

// ordinalOfPart is which Pod a part of the work is to create.
func ordinalOfPart(part string) (int32, bool) {
	if !strings.HasPrefix(part, partCreate+" ") && !strings.HasPrefix(part, waitForClaim) {
		return 0, false
	}
	_, ordinal, ok := parentAndOrdinal(part)
	return ordinal, ok
}

// goalOf is what failures are remembered for: whatever is changed in the spec may mend them.
func goalOf(set *v1beta1.StatefulSet) string { return strconv.FormatInt(set.Generation, 10) }

// gather reads the caches.
func (c *Controller) gather(set *v1beta1.StatefulSet, selector labels.Selector, now time.Time) (*Snapshot, error) {
	s := &Snapshot{Set: set, Can: c.can, Failed: c.backoff.Waits(set.UID, goalOf(set), now)}
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
	c.keepFailures(s, &n)
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

// gatherPlaces looks up the claims of the Pods that there are, and what there is to know of those that are missing.
func (c *Controller) gatherPlaces(s *Snapshot, n *numbers) error {
	s.Taken, s.Claims = map[string]types.UID{}, map[string]*corev1.PersistentVolumeClaim{}
	there := ordinalsOf(s.Pods)
	for _, p := range s.Pods {
		if _, ordinal, ok := parentAndOrdinal(p.Name); ok {
			if err := c.gatherClaims(s, slices.Concat(claimNames(s.Set, ordinal), claimsIn(s.Set, p, ordinal))); err != nil {
				return err
			}
		}
	}
	// One more than can be made, so that it is seen that there are more.
	left := c.createAtOnce + 1
	for ordinal := range n.wanted.All() {
		if there.Has(ordinal) {
			continue
		}
		if err := c.gatherMissing(s, ordinal); err != nil {
			return err
		}
		if !s.isInTheWay(ordinal) && s.Failed[s.partOf(ordinal)] == 0 {
			left--
		}
		if left == 0 {
			break
		}
	}
	return nil
}

func ordinalsOf(list []*corev1.Pod) sets.Set[int32] {
	out := make(sets.Set[int32], len(list))
	for _, p := range list {
		if _, ordinal, ok := parentAndOrdinal(p.Name); ok {
			out.Insert(ordinal)
		}
	}
	return out
}

// gatherMissing looks up who holds the name of a Pod that is missing, and its claims.
func (c *Controller) gatherMissing(s *Snapshot, ordinal int32) error {
	name := podName(s.Set, ordinal)
	item, exists, err := c.pods.GetStore().GetByKey(s.Set.Namespace + "/" + name)
	if err != nil {
		return fmt.Errorf("looking for Pod %s: %w", name, err)
	}
	if p, ok := item.(*corev1.Pod); exists && ok {
		s.Taken[name] = p.UID
	}
	if err := c.gatherClaims(s, claimNames(s.Set, ordinal)); err != nil {
		return err
	}
	s.Missing = append(s.Missing, ordinal)
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

// keepFailures forgets those of work that is not there any more, and leaves Pods alone that could not be adopted.
func (c *Controller) keepFailures(s *Snapshot, n *numbers) {
	there := sets.New(partCreate)
	for _, ordinal := range s.Missing {
		there.Insert(partOfPod(s.Set, ordinal), s.partOf(ordinal))
	}
	for _, p := range slices.Concat(s.Pods, s.Returning) {
		there.Insert(partOfUpdate(p), partOfRefresh(p), partOfDeletion(p))
	}
	for _, claim := range s.Claims {
		there.Insert(partOfOwners(claim))
	}
	isLater := s.beyond(n)
	c.backoff.Keep(s.Set.UID, func(part string) bool { return there.Has(part) || isLater(part) })
	s.Returning = slices.DeleteFunc(s.Returning, func(p *corev1.Pod) bool {
		wait := s.Failed[partOfUpdate(p)]
		if wait > 0 && (s.AdoptAfter == 0 || wait < s.AdoptAfter) {
			s.AdoptAfter = wait
		}
		return wait > 0
	})
}

// beyond tells parts of the work that create a missing Pod that this sync does not get to.
func (s *Snapshot) beyond(n *numbers) func(part string) bool {
	if len(s.Missing) == 0 {
		return func(string) bool { return false }
	}
	there, last := ordinalsOf(s.Pods), s.Missing[len(s.Missing)-1]
	return func(part string) bool {
		ordinal, ok := ordinalOfPart(part)
		if !ok || ordinal <= last || there.Has(ordinal) {
			return false
		}
		_, wanted := n.wanted.Rank(ordinal)
		return wanted
	}
}

// partOfUpdate is what the failure to update a Pod, or to adopt it, is remembered by.
func partOfUpdate(p *corev1.Pod) string { return string(p.UID) }

// partOfRefresh is what the failure to move a Pod on is remembered by.
func partOfRefresh(p *corev1.Pod) string { return "refresh " + string(p.UID) }

// partOfDeletion is what the failure to delete a Pod is remembered by, where that is no part of its update.
func partOfDeletion(p *corev1.Pod) string { return "delete " + string(p.UID) }

// partOfOwners is what the failure to write the owners of a claim is remembered by.
func partOfOwners(claim *corev1.PersistentVolumeClaim) string { return "owners of " + claim.Name }

// partOf is what the failure to create the Pod of an ordinal is remembered by.
func (s *Snapshot) partOf(ordinal int32) string {
	if claim := s.goingClaim(ordinal); claim != nil {
		return partOfClaim(claim.Name)
	}
	return partOfPod(s.Set, ordinal)
}
