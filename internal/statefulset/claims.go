package statefulset

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
)

// retention says when claims are deleted.
type retention struct{ whenDeleted, whenScaled bool }

// deletesClaims reads the policy of the set. A value that is not known retains.
func deletesClaims(set *v1beta1.StatefulSet) retention {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	if p == nil {
		return retention{}
	}
	return retention{
		whenDeleted: p.WhenDeleted == v1beta1.DeletePersistentVolumeClaimRetentionPolicyType,
		whenScaled:  p.WhenScaled == v1beta1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
}

// claimOwner makes a claim go with the set.
func claimOwner(set *v1beta1.StatefulSet) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "StatefulSet", Name: set.Name, UID: set.UID}
}

// withPod makes a claim go with a Pod.
func withPod(p *corev1.Pod) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}
}

// ownersOf are the owner references that a claim of the Pod is to have. Those to others than the set and the Pod stay.
func ownersOf(set *v1beta1.StatefulSet, claim *corev1.PersistentVolumeClaim, p *corev1.Pod, condemned bool) []metav1.OwnerReference {
	policy := deletesClaims(set)
	toPod := condemned && policy.whenScaled
	toSet := policy.whenDeleted && !toPod
	var out []metav1.OwnerReference
	for _, r := range claim.OwnerReferences {
		switch r.UID {
		case set.UID:
			if toSet {
				out, toSet = append(out, r), false
			}
		case p.UID:
			if toPod {
				out, toPod = append(out, r), false
			}
		default:
			out = append(out, r)
		}
	}
	if toSet {
		out = append(out, claimOwner(set))
	}
	if toPod {
		out = append(out, withPod(p))
	}
	return out
}

// isInTheWay says whether something keeps the Pod of an ordinal from being created that goes by itself.
func (s *Snapshot) isInTheWay(ordinal int32) bool {
	_, taken := s.Taken[podName(s.Set, ordinal)]
	return taken || s.staleClaim(ordinal) != nil
}

// claimsOf are the claims of an ordinal that exist, in the order of the templates.
func (s *Snapshot) claimsOf(ordinal int32) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range s.Set.Spec.VolumeClaimTemplates {
		if c := s.Claims[claimName(s.Set, s.Set.Spec.VolumeClaimTemplates[i].Name, ordinal)]; c != nil {
			out = append(out, c)
		}
	}
	return out
}

// missingClaims are the claims of an ordinal that do not exist.
func (s *Snapshot) missingClaims(ordinal int32) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range s.Set.Spec.VolumeClaimTemplates {
		t := &s.Set.Spec.VolumeClaimTemplates[i]
		if s.Claims[claimName(s.Set, t.Name, ordinal)] == nil {
			out = append(out, newClaim(s.Set, t, ordinal))
		}
	}
	return out
}

// staleClaim is a claim of the ordinal that belongs to a Pod of that name that is gone: the garbage collector is about to
// remove it. nil without any.
func (s *Snapshot) staleClaim(ordinal int32) *corev1.PersistentVolumeClaim {
	if !deletesClaims(s.Set).whenScaled {
		return nil
	}
	name := podName(s.Set, ordinal)
	for _, c := range s.claimsOf(ordinal) {
		if slices.ContainsFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool {
			return r.Kind == "Pod" && r.Name == name && r.UID != s.Taken[name]
		}) {
			return c
		}
	}
	return nil
}

// keptFrom are the owner references of a claim without the one to a Pod that was taken out of the set while it was about to go: its
// ordinal is wanted again, and the claim is not to go with that Pod.
func (s *Snapshot) keptFrom(c *corev1.PersistentVolumeClaim, ordinal int32) []metav1.OwnerReference {
	former, taken := s.Taken[podName(s.Set, ordinal)]
	return slices.DeleteFunc(slices.Clone(c.OwnerReferences), func(r metav1.OwnerReference) bool { return taken && r.UID == former })
}

// goingClaim is a claim of the ordinal that somebody has deleted and that is still there; nil without any.
func (s *Snapshot) goingClaim(ordinal int32) *corev1.PersistentVolumeClaim {
	for _, c := range s.claimsOf(ordinal) {
		if c.DeletionTimestamp != nil {
			return c
		}
	}
	return nil
}

// lacksVolume says whether the Pod was made before one of the claim templates was added.
func (s *Snapshot) lacksVolume(m *member) bool {
	mounted := claimsIn(s.Set, m.Pod, m.ordinal)
	return slices.ContainsFunc(s.Set.Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool {
		return !slices.Contains(mounted, claimName(s.Set, t.Name, m.ordinal))
	})
}

// claimsIn are the names of the claims that the Pod has by templates, those of templates that are gone included.
func claimsIn(set *v1beta1.StatefulSet, p *corev1.Pod, ordinal int32) []string {
	var out []string
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claimName(set, v.Name, ordinal) {
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return out
}

// resizesClaims says whether claims follow their templates.
func (s *Snapshot) resizesClaims() bool {
	return s.Set.Spec.VolumeClaimUpdateStrategy.Type == v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
}

// comparison is a claim beside its template.
type comparison struct{ claim, template *corev1.PersistentVolumeClaim }

// comparisons leave out claims that are missing or about to go: there is nothing to be done to them.
func (s *Snapshot) comparisons(ordinal int32) []comparison {
	var out []comparison
	for i := range s.Set.Spec.VolumeClaimTemplates {
		t := &s.Set.Spec.VolumeClaimTemplates[i]
		if c := s.Claims[claimName(s.Set, t.Name, ordinal)]; c != nil && c.DeletionTimestamp == nil {
			out = append(out, comparison{c, t})
		}
	}
	return out
}

func (c comparison) hasShape() bool {
	class, wanted := ptr.Deref(c.claim.Spec.StorageClassName, ""), ptr.Deref(c.template.Spec.StorageClassName, "")
	return (class == "" || wanted == "" || class == wanted) && slices.Equal(c.claim.Spec.AccessModes, c.template.Spec.AccessModes)
}

func (c comparison) isCompatible() bool {
	return c.hasShape() && c.claim.Spec.Resources.Requests.Storage().Cmp(*c.template.Spec.Resources.Requests.Storage()) >= 0
}

// waitsForVolume says whether the claim has no volume yet, which is often made only when its Pod has a node. The API server lets none
// grow before: there is nothing to be done to it, and nothing to wait for, as the Pod may be what it waits for.
func (c comparison) waitsForVolume() bool {
	return c.hasShape() && c.claim.Status.Phase == corev1.ClaimPending
}

// isDue says whether there is something to be done to the claim.
func (c comparison) isDue() bool { return !c.isCompatible() && !c.waitsForVolume() }

func (c comparison) isReady() bool {
	return c.hasShape() && c.claim.Status.Capacity.Storage().Cmp(*c.claim.Spec.Resources.Requests.Storage()) >= 0
}

// isCompleted says whether all is done that can be done while the Pod does not restart.
func (c comparison) isCompleted() bool {
	return c.isCompatible() && (c.isReady() || slices.ContainsFunc(c.claim.Status.Conditions, func(o corev1.PersistentVolumeClaimCondition) bool {
		return o.Type == corev1.PersistentVolumeClaimFileSystemResizePending && o.Status == corev1.ConditionTrue
	}))
}

func all(list []comparison, is func(comparison) bool) bool {
	return !slices.ContainsFunc(list, func(c comparison) bool { return !is(c) })
}

// obstacle is why a claim cannot be taken to its template; nil without any.
func (s *Snapshot) obstacle(c comparison) error {
	if !c.hasShape() {
		return fmt.Errorf("claim %s has another storage class or other access modes than template %s: delete it to have it made anew", c.claim.Name, c.template.Name)
	}
	name := ptr.Deref(c.claim.Spec.StorageClassName, "")
	class := s.Classes[name]
	switch {
	case class == nil:
		return fmt.Errorf("claim %s cannot be resized: storage class %q does not exist", c.claim.Name, name)
	case !ptr.Deref(class.AllowVolumeExpansion, false):
		return fmt.Errorf("claim %s cannot be resized: storage class %q does not have allowVolumeExpansion", c.claim.Name, name)
	}
	return nil
}

// resize is the patch that gives the claim the resources of its template.
func (c comparison) resize(set *v1beta1.StatefulSet) patch.Patch {
	o := patch.New(c.claim).Annotation(pub.OwnedByStatefulSetKey, set.Name)
	resources := map[string]any{}
	for member, list := range map[string]corev1.ResourceList{"requests": c.template.Spec.Resources.Requests, "limits": c.template.Spec.Resources.Limits} {
		values := map[string]any{}
		for name, quantity := range list {
			values[string(name)] = quantity.String()
		}
		if len(values) > 0 {
			resources[member] = values
		}
	}
	return o.Merge(map[string]any{"spec": map[string]any{"resources": resources}}).Build()
}
