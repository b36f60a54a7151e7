package modelcluster

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Expansion is how bound claims grow whose request was raised.
type Expansion int

const (
	// ExpandAtOnce is without delay: the next tick gives a claim its new capacity.
	ExpandAtOnce Expansion = iota
	// ExpandNever is not at all.
	ExpandNever
	// ExpandAtStart is in two steps: the next tick sets the condition FileSystemResizePending. The capacity follows when a Pod that uses
	// the claim starts on its node.
	ExpandAtStart
)

// protection is the finalizer of claims that are in use.
const protection = "kubernetes.io/pvc-protection"

// bind gives a new claim its volume.
func (m *Cluster) bind(c *corev1.PersistentVolumeClaim) {
	c.Status.Phase = corev1.ClaimBound
	if request, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: request}
	}
	if m.ProtectClaims {
		c.Finalizers = append(c.Finalizers, protection)
	}
}

// notice notes whether there is something to do with a claim.
func (m *Cluster) notice(key string, o Object) {
	if c, ok := o.(*corev1.PersistentVolumeClaim); ok {
		if c.DeletionTimestamp != nil || grows(c) {
			m.unsettled[key] = true
		} else {
			delete(m.unsettled, key)
		}
	}
}

// unsettledClaims are the claims with which there may be something to do, by name.
func (m *Cluster) unsettledClaims() []*corev1.PersistentVolumeClaim {
	var list []*corev1.PersistentVolumeClaim
	for _, key := range slices.Sorted(maps.Keys(m.unsettled)) {
		list = append(list, m.Objects[Claims][key].(*corev1.PersistentVolumeClaim))
	}
	return list
}

// grows says whether a claim has less than it asks for.
func grows(c *corev1.PersistentVolumeClaim) bool {
	return c.Status.Phase == corev1.ClaimBound && c.Status.Capacity.Storage().Cmp(*c.Spec.Resources.Requests.Storage()) < 0
}

// TickClaim lets the provisioner and the claim protection do what they have to do with a claim, and says whether there was
// anything.
func (m *Cluster) TickClaim(c *corev1.PersistentVolumeClaim) bool {
	switch {
	case c.DeletionTimestamp != nil:
		if !slices.Contains(c.Finalizers, protection) || m.isUsed(c) {
			return false
		}
		m.EditClaim(c.Name, func(c *corev1.PersistentVolumeClaim) {
			c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == protection })
		})
		return true
	case !grows(c) || m.Expansion == ExpandNever || m.Expansion == ExpandAtStart && isResizePending(c):
		return false
	case m.Expansion == ExpandAtStart:
		m.EditClaim(c.Name, func(c *corev1.PersistentVolumeClaim) {
			c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{
				Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(m.Clock.Now()),
			})
		})
		return true
	}
	m.EditClaim(c.Name, expand)
	return true
}

func isResizePending(c *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(c.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue
	})
}

func expand(c *corev1.PersistentVolumeClaim) {
	c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: *c.Spec.Resources.Requests.Storage()}
	c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending
	})
}

// expandFor has the file systems grow that waited for the start of a Pod.
func (m *Cluster) expandFor(p *corev1.Pod) {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		if c := m.Claim(v.PersistentVolumeClaim.ClaimName); c != nil && isResizePending(c) {
			m.EditClaim(c.Name, expand)
		}
	}
}

func (m *Cluster) isUsed(c *corev1.PersistentVolumeClaim) bool {
	for _, o := range m.Objects[Pods] {
		for _, v := range o.(*corev1.Pod).Spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Name {
				return true
			}
		}
	}
	return false
}

// checkClaim refuses what the API server refuses to change of a claim.
func (m *Cluster) checkClaim(old, fresh *corev1.PersistentVolumeClaim) error {
	was, is := old.Spec.Resources.Requests.Storage(), fresh.Spec.Resources.Requests.Storage()
	if was.Cmp(*is) == 0 && equality.Semantic.DeepEqual(old.Spec, fresh.Spec) {
		return nil
	}
	same := fresh.Spec.DeepCopy()
	same.Resources.Requests = old.Spec.Resources.Requests
	kind := schema.GroupKind{Kind: "PersistentVolumeClaim"}
	switch {
	case !equality.Semantic.DeepEqual(&old.Spec, same), is.Cmp(capacity(old)) < 0:
		return apierrors.NewInvalid(kind, old.Name, nil)
	case !m.mayExpand(old):
		return apierrors.NewForbidden(corev1.Resource(Claims), old.Name, errors.New("the StorageClass does not support resize"))
	}
	return nil
}

func capacity(c *corev1.PersistentVolumeClaim) resource.Quantity { return *c.Status.Capacity.Storage() }

// mayExpand says whether the StorageClass of a claim lets it grow. A claim that names none may.
func (m *Cluster) mayExpand(c *corev1.PersistentVolumeClaim) bool {
	if c.Spec.StorageClassName == nil {
		return true
	}
	class, ok := m.Objects[StorageClasses][*c.Spec.StorageClassName].(*storagev1.StorageClass)
	return ok && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}
