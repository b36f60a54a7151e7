package cloneset

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	flotillainformers "github.com/flotilla-k8s/flotilla/apis/client/informers/externalversions"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// informers are what the controller reads.
type informers struct {
	sets, pods, claims, revisions cache.SharedIndexInformer
	nodes                         *nodeCache
	watched                       []kube.Watched
}

// watch builds the informers and says which event wakes which set. Nothing is read before Start.
func (c *Controller) watch() error {
	core := kubeinformers.NewSharedInformerFactoryWithOptions(c.env.Kube, 0,
		kubeinformers.WithNamespace(c.env.Namespace), kubeinformers.WithInformerName(c.env.Informers))
	ours := flotillainformers.NewSharedInformerFactoryWithOptions(c.env.Flotilla, 0,
		flotillainformers.WithNamespace(c.env.Namespace), flotillainformers.WithInformerName(c.env.Informers))
	c.informers = informers{
		sets:      ours.Apps().V1beta1().CloneSets().Informer(),
		pods:      core.Core().V1().Pods().Informer(),
		claims:    core.Core().V1().PersistentVolumeClaims().Informer(),
		revisions: core.Apps().V1().ControllerRevisions().Informer(),
		nodes:     newNodeCache(c.env),
	}
	c.watched = []kube.Watched{
		{Resource: v1beta1.SchemeGroupVersion.WithResource("clonesets"), Informer: c.sets, Transform: trimSet,
			Handler: kube.OwnerHandler[*v1beta1.CloneSet](func() kube.Waker { return c.loop }, c.forget)},
		{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Informer: c.pods, Transform: kube.TrimPods(isOurPod, false),
			Handler: kube.OwnedHandler(c.wake), Selector: hasID(), Owned: true},
		{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Informer: c.claims, Transform: trimClaim,
			Handler: kube.OwnedHandler(c.wake), Selector: hasID(), Owned: true},
		{Resource: appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), Informer: c.revisions, Transform: trimRevision,
			Handler: kube.OwnedHandler(c.wake), Owned: true},
	}
	c.start = []func(context.Context){
		func(ctx context.Context) { core.StartWithContext(ctx) },
		func(ctx context.Context) { ours.StartWithContext(ctx) },
	}
	return kube.SetUp(c.watched, c.env.WatchFailed)
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

// Start finds out what the cluster offers and fills the caches.
func (c *Controller) Start(ctx context.Context) error {
	resize, err := kube.HasSubresource(ctx, c.env.Kube.Discovery(), "v1", "pods/resize")
	if err != nil {
		return fmt.Errorf("asking whether Pods can be resized in place: %w", err)
	}
	c.can = inplace.Abilities{Resize: resize}
	for _, start := range c.start {
		start(ctx)
	}
	return kube.Fill(ctx, c.watched)
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
