package statefulset

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// informers are what the controller reads.
type informers struct {
	sets, pods, claims, revisions, classes cache.SharedIndexInformer
}

// watch builds the informers and says which event wakes which set. Nothing is read before Start.
func (c *Controller) watch() error {
	c.caches = workload.NewCaches(c.env)
	c.informers = informers{
		sets:      c.caches.Ours.Apps().V1beta1().StatefulSets().Informer(),
		pods:      c.caches.Core.Core().V1().Pods().Informer(),
		claims:    c.caches.Core.Core().V1().PersistentVolumeClaims().Informer(),
		revisions: c.caches.Core.Apps().V1().ControllerRevisions().Informer(),
		classes:   c.caches.Core.Storage().V1().StorageClasses().Informer(),
	}
	return c.caches.Watch(
		kube.Watched{Resource: v1beta1.SchemeGroupVersion.WithResource("statefulsets"), Informer: c.sets, Transform: trimSet,
			Handler: kube.OwnerHandler[*v1beta1.StatefulSet](func() kube.Waker { return c.loop }, c.forget)},
		kube.Watched{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Informer: c.pods, Transform: kube.TrimPods(isOurPod, true),
			Handler: kube.OwnedHandler(c.wake), Owned: true},
		kube.Watched{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Informer: c.claims, Transform: trimClaim,
			Handler: kube.OwnedHandler(c.wakeForClaim), Owned: true},
		kube.Watched{Resource: appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), Informer: c.revisions, Transform: trimRevision,
			Handler: kube.OwnedHandler(c.wake), Owned: true},
		kube.Watched{Resource: storagev1.SchemeGroupVersion.WithResource("storageclasses"), Informer: c.classes, Transform: trimClass,
			Handler: kube.OwnedHandler(c.wakeForClass), ClusterScoped: true},
	)
}

// Start fills the caches, and finds out what the cluster offers.
func (c *Controller) Start(ctx context.Context) (err error) {
	c.can, err = c.caches.Fill(ctx)
	return err
}

// isStatefulSet tells an Advanced StatefulSet from a native one by the API group; the version does not matter.
func isStatefulSet(r *metav1.OwnerReference) bool {
	return r.Kind == "StatefulSet" && strings.HasPrefix(r.APIVersion, pub.GroupName+"/")
}

// isOurs says whether an object belongs to a set, or to nobody.
func isOurs(o metav1.Object) bool {
	r := metav1.GetControllerOfNoCopy(o)
	return r == nil || isStatefulSet(r)
}

// isOurPod says whether a Pod belongs to a set, or to nobody and has a name that sets give.
func isOurPod(p *corev1.Pod) bool {
	if r := metav1.GetControllerOfNoCopy(p); r != nil {
		return isStatefulSet(r)
	}
	_, _, ok := parentAndOrdinal(p.Name)
	return ok
}

// wake finds the set by the owner's name. A Pod of somebody else, or of nobody, holds the name of a set's Pod, or may be one
// that comes back to the set.
func (c *Controller) wake(object metav1.Object) {
	if r := metav1.GetControllerOfNoCopy(object); r != nil && isStatefulSet(r) {
		c.loop.AddSoon(cache.NewObjectName(object.GetNamespace(), r.Name))
		return
	}
	if parent, _, ok := parentAndOrdinal(object.GetName()); ok {
		c.wakeIfThere(cache.NewObjectName(object.GetNamespace(), parent))
	}
}

func (c *Controller) wakeIfThere(key cache.ObjectName) {
	if _, exists, err := c.sets.GetStore().GetByKey(key.String()); err == nil && exists {
		c.loop.AddSoon(key)
	}
}

// wakeForClaim finds the set by the claim's name: <template>-<set>-<ordinal>. Claims that are retained have no owner.
func (c *Controller) wakeForClaim(claim metav1.Object) {
	rest, _, ok := parentAndOrdinal(claim.GetName())
	for ok {
		if _, rest, ok = strings.Cut(rest, "-"); ok {
			c.wakeIfThere(cache.NewObjectName(claim.GetNamespace(), rest))
		}
	}
}

// wakeForClass wakes the sets that may have waited for a class to allow expansion.
func (c *Controller) wakeForClass(metav1.Object) {
	for _, o := range c.sets.GetStore().List() {
		if set, ok := o.(*v1beta1.StatefulSet); ok && set.Spec.VolumeClaimUpdateStrategy.Type == v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType {
			c.loop.AddSoon(cache.MetaObjectToName(set))
		}
	}
}

func trimSet(o any) (any, error) {
	if set, ok := o.(*v1beta1.StatefulSet); ok {
		set.ManagedFields = nil
	}
	return o, nil
}

// trimClaim keeps who a claim belongs to and how large it is.
func trimClaim(o any) (any, error) {
	claim, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok {
		return o, nil
	}
	out := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: claim.Name, Namespace: claim.Namespace, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		OwnerReferences: claim.OwnerReferences, DeletionTimestamp: claim.DeletionTimestamp,
	}}
	out.Spec.StorageClassName, out.Spec.AccessModes = claim.Spec.StorageClassName, claim.Spec.AccessModes
	out.Spec.Resources, out.Status.Capacity, out.Status.Phase = claim.Spec.Resources, claim.Status.Capacity, claim.Status.Phase
	for _, condition := range claim.Status.Conditions {
		if condition.Type == corev1.PersistentVolumeClaimFileSystemResizePending {
			out.Status.Conditions = append(out.Status.Conditions, corev1.PersistentVolumeClaimCondition{Type: condition.Type, Status: condition.Status})
		}
	}
	return out, nil
}

func trimClass(o any) (any, error) {
	class, ok := o.(*storagev1.StorageClass)
	if !ok {
		return o, nil
	}
	return &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: class.Name, UID: class.UID, ResourceVersion: class.ResourceVersion},
		AllowVolumeExpansion: class.AllowVolumeExpansion,
	}, nil
}

// trimRevision drops the data of revisions of other kinds.
func trimRevision(o any) (any, error) {
	r, ok := o.(*appsv1.ControllerRevision)
	if !ok {
		return o, nil
	}
	kube.TrimMeta(r)
	if !isOurs(r) {
		r.Data.Raw, r.Annotations = nil, nil
	}
	return r, nil
}
