package cloneset

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// informers are what the controller reads.
type informers struct {
	sets, pods, claims, revisions cache.SharedIndexInformer
	nodes                         *nodeCache
}

// watch builds the informers and says which event wakes which set. Nothing is read before Start.
func (c *Controller) watch() error {
	c.caches = workload.NewCaches(c.env)
	c.informers = informers{
		sets:      c.caches.Ours.Apps().V1beta1().CloneSets().Informer(),
		pods:      c.caches.Core.Core().V1().Pods().Informer(),
		claims:    c.caches.Core.Core().V1().PersistentVolumeClaims().Informer(),
		revisions: c.caches.Core.Apps().V1().ControllerRevisions().Informer(),
		nodes:     newNodeCache(c.env),
	}
	return c.caches.Watch(
		kube.Watched{Resource: v1beta1.SchemeGroupVersion.WithResource("clonesets"), Informer: c.sets, Transform: trimSet,
			Handler: kube.OwnerHandler[*v1beta1.CloneSet](func() kube.Waker { return c.loop }, c.forget)},
		kube.Watched{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Informer: c.pods, Transform: kube.TrimPods(isOurPod, false),
			Handler: kube.OwnedHandler(c.wake), Selector: hasID(), Owned: true},
		kube.Watched{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Informer: c.claims, Transform: trimClaim,
			Handler: kube.OwnedHandler(c.wake), Selector: hasID(), Owned: true},
		kube.Watched{Resource: appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), Informer: c.revisions, Transform: trimRevision,
			Handler: kube.OwnedHandler(c.wake), Owned: true},
	)
}

// hasID selects what was made for sets. It spares reading all the Pods of a cluster twice.
func hasID() labels.Selector {
	r, err := labels.NewRequirement(pub.CloneSetInstanceIDKey, selection.Exists, nil)
	if err != nil {
		// The key is a constant.
		panic(err)
	}
	return labels.NewSelector().Add(*r)
}

// Start fills the caches, and finds out what the cluster offers.
func (c *Controller) Start(ctx context.Context) (err error) {
	c.can, err = c.caches.Fill(ctx)
	return err
}

func isCloneSet(r *metav1.OwnerReference) bool {
	return r.Kind == "CloneSet" && strings.HasPrefix(r.APIVersion, pub.GroupName+"/")
}

// isOurs says whether an object belongs to a set, or to nobody.
func isOurs(o metav1.Object) bool {
	r := metav1.GetControllerOfNoCopy(o)
	return r == nil || isCloneSet(r)
}

func isOurPod(p *corev1.Pod) bool {
	_, marked := p.Labels[pub.CloneSetInstanceIDKey]
	return marked && isOurs(p) || isControlledByCloneSet(p)
}

func isControlledByCloneSet(o metav1.Object) bool {
	r := metav1.GetControllerOfNoCopy(o)
	return r != nil && isCloneSet(r)
}

// wake finds the set by the owner's name. A Pod without a controller may be one that comes back to the set that its
// name begins with.
func (c *Controller) wake(object metav1.Object) {
	r := metav1.GetControllerOfNoCopy(object)
	if r != nil {
		if isCloneSet(r) {
			c.loop.AddSoon(cache.NewObjectName(object.GetNamespace(), r.Name))
		}
		return
	}
	if id := object.GetLabels()[pub.CloneSetInstanceIDKey]; id != "" {
		if name, found := strings.CutSuffix(object.GetName(), "-"+id); found {
			c.loop.AddSoon(cache.NewObjectName(object.GetNamespace(), name))
		}
	}
}

func trimSet(o any) (any, error) {
	if set, ok := o.(*v1beta1.CloneSet); ok {
		set.ManagedFields = nil
	}
	return o, nil
}

// trimClaim keeps who a claim belongs to.
func trimClaim(o any) (any, error) {
	claim, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok {
		return o, nil
	}
	kube.TrimMeta(claim)
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: claim.Name, Namespace: claim.Namespace, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		Labels: idLabel(claim), OwnerReferences: claim.OwnerReferences, DeletionTimestamp: claim.DeletionTimestamp,
	}}, nil
}

func idLabel(o metav1.Object) map[string]string {
	if id := o.GetLabels()[pub.CloneSetInstanceIDKey]; id != "" {
		return map[string]string{pub.CloneSetInstanceIDKey: id}
	}
	return nil
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
