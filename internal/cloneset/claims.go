package cloneset

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// ClaimPlan is what happens to the claims of Pods that are gone or going, before anything is created.
type ClaimPlan struct {
	// HandOver makes a Pod the owner of its claim, so that it goes when the Pod goes.
	HandOver []HandOver
	Delete   []*corev1.PersistentVolumeClaim
	// DeletePods are Pods that have ended and whose place and claims the next Pod takes.
	DeletePods []*corev1.Pod
	// Free are instance ids that new Pods take, with the claims that exist of them.
	Free []string
	// Reserved is how many Pods wait for the holder of their id to be gone.
	Reserved int
	// Postponed: a holder that has ended could not be deleted not long ago. Nobody waits for its place.
	Postponed bool
	// RequeueAfter is when to stop waiting for a holder, or when to try again to delete one.
	RequeueAfter time.Duration
}

// HandOver makes a Pod the owner of a claim.
type HandOver struct {
	Claim *corev1.PersistentVolumeClaim
	Pod   *corev1.Pod
}

// reserveFor is how long an id waits for its terminating holder.
const reserveFor = 60 * time.Second

// PlanClaims decides what becomes of claims without an active Pod. Only without reuse are claims ever deleted here, and
// none while a Pod of that id exists, whoever it belongs to.
//
// Claims that were made for Pods that could not be created are kept as long as Pods are missing.
func (s *Snapshot) PlanClaims(missing bool, now time.Time) ClaimPlan {
	if len(s.Claims) == 0 {
		return ClaimPlan{}
	}
	active, inactive := s.holders()
	plan := ClaimPlan{}
	seen := sets.Set[string]{}
	for _, c := range s.Claims {
		id := idOfClaim(c, s.Set)
		if id == "" || active.Has(id) || s.ForeignIDs.Has(id) || !metav1.IsControlledBy(c, s.Set) {
			continue
		}
		holder := inactive[id]
		reused := s.isReused(id, missing, holder)
		switch {
		case holder != nil && (!reused || slices.Contains(s.Strangers, holder)):
			plan.HandOver = append(plan.HandOver, HandOver{c, holder})
		case !reused:
			plan.Delete = append(plan.Delete, c)
		case !seen.Has(id) && !s.StuckIDs.Has(id):
			seen.Insert(id)
			plan.reuse(id, holder, s.deleteLater(holder), now)
		}
	}
	slices.Sort(plan.Free)
	return plan
}

// isReused says whether the next Pod takes over the claims of an id.
func (s *Snapshot) isReused(id string, missing bool, holder *corev1.Pod) bool {
	return s.Set.Spec.ScaleStrategy.EnablePVCReuse || holder == nil && missing && s.UnusedIDs.Has(id)
}

// holders are the instance ids of active Pods, and the other Pods of the set by theirs.
func (s *Snapshot) holders() (active sets.Set[string], inactive map[string]*corev1.Pod) {
	active, inactive = sets.Set[string]{}, map[string]*corev1.Pod{}
	for _, p := range s.Pods {
		active.Insert(idOf(p, s.Set))
	}
	for _, p := range slices.Concat(s.Inactive, s.Strangers) {
		inactive[idOf(p, s.Set)] = p
	}
	return active, inactive
}

// handOversTo are the claims that a Pod takes with it.
func (plan *ClaimPlan) handOversTo(p *corev1.Pod) []HandOver {
	return slices.DeleteFunc(slices.Clone(plan.HandOver), func(h HandOver) bool { return h.Pod != p })
}

// deleteLater is how long not to try again to delete a Pod.
func (s *Snapshot) deleteLater(p *corev1.Pod) time.Duration {
	if p == nil {
		return 0
	}
	return s.DeleteLater[p.UID]
}

func (plan *ClaimPlan) reuse(id string, holder *corev1.Pod, later time.Duration, now time.Time) {
	switch {
	case holder == nil:
		plan.Free = append(plan.Free, id)
	case !pods.IsTerminating(holder) && later > 0:
		plan.Postponed = true
		plan.look(later)
	case !pods.IsTerminating(holder):
		plan.DeletePods = append(plan.DeletePods, holder)
		plan.Reserved++
	default:
		// The deletion timestamp is when the Pod is to be gone.
		if left := holder.DeletionTimestamp.Add(reserveFor).Sub(now); left > 0 {
			plan.Reserved++
			plan.look(left)
		}
	}
}

func (plan *ClaimPlan) look(after time.Duration) {
	if plan.RequeueAfter == 0 || after < plan.RequeueAfter {
		plan.RequeueAfter = after
	}
}

// patchFor is the patch that hands the claim over.
func (h HandOver) patchFor(s *Snapshot) patch.Patch {
	kept := kube.WithoutOwner(h.Claim.OwnerReferences, s.Set.UID)
	return patch.New(h.Claim).IfUnchanged(h.Claim).OwnerReferences(kube.WithOwner(kept, podReference(h.Pod))).Build()
}

// backTo is the patch that makes the set the claim's owner again.
func (h HandOver) backTo(set *v1beta1.CloneSet) patch.Patch {
	kept := kube.WithoutOwner(h.Claim.OwnerReferences, h.Pod.UID)
	return patch.New(h.Claim).IfUnchanged(h.Claim).OwnerReferences(kube.WithOwner(kept, ownerReference(set))).Build()
}

// claimsOf are the claims with the Pod's id.
func (s *Snapshot) claimsOf(p *corev1.Pod) []*corev1.PersistentVolumeClaim {
	id := idOf(p, s.Set)
	if id == "" {
		return nil
	}
	claims := slices.DeleteFunc(slices.Clone(s.Claims), func(c *corev1.PersistentVolumeClaim) bool {
		return idOfClaim(c, s.Set) != id
	})
	for _, h := range s.Parted {
		if h.Pod == p {
			claims = append(claims, h.Claim)
		}
	}
	return claims
}
