package cloneset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	watched                       []watched
}

// watched is one of the informers that wake sets.
type watched struct {
	resource  schema.GroupVersionResource
	informer  cache.SharedIndexInformer
	transform cache.TransformFunc
	handler   cache.ResourceEventHandler
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
	c.watched = []watched{
		{v1beta1.SchemeGroupVersion.WithResource("clonesets"), c.sets, trimSet, c.setHandler()},
		{corev1.SchemeGroupVersion.WithResource("pods"), c.pods, kube.TrimPods(isOurPod), c.ownedHandler()},
		{corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), c.claims, trimClaim, c.ownedHandler()},
		{appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), c.revisions, trimRevision, c.ownedHandler()},
	}
	var errs []error
	for _, w := range c.watched {
		_, err := w.informer.AddEventHandler(w.handler)
		errs = append(errs, err, w.informer.SetTransform(w.transform), w.informer.SetWatchErrorHandlerWithContext(c.env.WatchFailed))
		if w.informer != c.sets {
			errs = append(errs, w.informer.AddIndexers(indexers()))
		}
	}
	c.start = []func(context.Context){
		func(ctx context.Context) { core.StartWithContext(ctx) },
		func(ctx context.Context) { ours.StartWithContext(ctx) },
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("setting up the informers: %w", err)
	}
	return nil
}

// sources are the caches that decisions are made by.
func (c *Controller) sources() []kube.Source {
	list := make([]kube.Source, len(c.watched))
	for i, w := range c.watched {
		list[i] = kube.Source{Resource: w.resource, Store: w.informer.GetStore()}
		if w.informer == c.pods || w.informer == c.claims {
			list[i].Selector = hasID()
		}
	}
	return list
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
	synced := make([]cache.InformerSynced, len(c.watched))
	for i, w := range c.watched {
		synced[i] = w.informer.HasSynced
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("the caches did not fill: %w", context.Cause(ctx))
	}
	if len(c.sets.GetStore().ListKeys()) > 0 && c.sets.GetStore().LastStoreSyncResourceVersion() == "" {
		return errors.New("client-go's feature AtomicFIFO is off; it must be on: without it written objects cannot be awaited")
	}
	return nil
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

// setHandler wakes a set whose spec changed at once, and one of whose metadata changed in a moment. A change of the status
// wakes nobody: that is what the controller writes itself.
func (c *Controller) setHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			if set, ok := o.(*v1beta1.CloneSet); ok {
				if initial {
					c.loop.AddInitial(cache.MetaObjectToName(set))
				} else {
					c.loop.Add(cache.MetaObjectToName(set))
				}
			}
		},
		UpdateFunc: func(before, after any) {
			was, okWas := before.(*v1beta1.CloneSet)
			is, okIs := after.(*v1beta1.CloneSet)
			if !okWas || !okIs {
				return
			}
			if was.UID != is.UID {
				c.forget(was.UID)
			}
			if was.Generation != is.Generation || was.UID != is.UID {
				c.loop.Add(cache.MetaObjectToName(is))
			} else if !sameMetadata(was, is) {
				c.loop.AddSoon(cache.MetaObjectToName(is))
			}
		},
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			if set, ok := o.(*v1beta1.CloneSet); ok {
				c.forget(set.UID)
				c.loop.Add(cache.MetaObjectToName(set))
			}
		},
	}
}

// sameMetadata compares what people and tools change.
func sameMetadata(a, b metav1.Object) bool {
	return maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		slices.Equal(a.GetFinalizers(), b.GetFinalizers()) && a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp())
}

// ownedHandler wakes the set that an object belongs to, or belonged to before.
func (c *Controller) ownedHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: c.wake,
		UpdateFunc: func(before, after any) {
			was, okWas := before.(metav1.Object)
			is, okIs := after.(metav1.Object)
			if !okWas || !okIs || was.GetResourceVersion() == is.GetResourceVersion() {
				return
			}
			if !sameOwner(was, is) {
				c.wake(before)
			}
			c.wake(after)
		},
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			c.wake(o)
		},
	}
}

func sameOwner(a, b metav1.Object) bool {
	return reflect.DeepEqual(metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b))
}

// wake finds the set by the owner's name. A Pod without a controller may be one that comes back to the set that its
// name begins with.
func (c *Controller) wake(o any) {
	object, ok := o.(metav1.Object)
	if !ok {
		return
	}
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
