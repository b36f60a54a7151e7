package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Watched is one of the informers that wake the owners.
type Watched struct {
	Resource  schema.GroupVersionResource
	Informer  cache.SharedIndexInformer
	Transform cache.TransformFunc
	Handler   cache.ResourceEventHandler
	// Selector tells what of the resource was made for owners; nil: all of it counts.
	Selector labels.Selector
	// Owned: the objects are found by their owners.
	Owned bool
	// ClusterScoped: the objects are in no namespace.
	ClusterScoped bool
}

// SetUp prepares the informers. Nothing is read before they are started.
func SetUp(watched []Watched, watchFailed cache.WatchErrorHandlerWithContext) error {
	var errs []error
	for _, w := range watched {
		_, err := w.Informer.AddEventHandler(w.Handler)
		errs = append(errs, err, w.Informer.SetTransform(w.Transform), w.Informer.SetWatchErrorHandlerWithContext(watchFailed))
		if w.Owned {
			errs = append(errs, w.Informer.AddIndexers(Indexers()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("setting up the informers: %w", err)
	}
	return nil
}

// Sources are the caches that decisions are made by.
func Sources(watched []Watched) []Source {
	list := make([]Source, len(watched))
	for i, w := range watched {
		list[i] = Source{Resource: w.Resource, Store: w.Informer.GetStore(), Selector: w.Selector, ClusterScoped: w.ClusterScoped}
	}
	return list
}

// Fill waits until the caches of started informers are filled.
func Fill(ctx context.Context, watched []Watched) error {
	synced := make([]cache.InformerSynced, len(watched))
	for i, w := range watched {
		synced[i] = w.Informer.HasSynced
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("the caches did not fill: %w", context.Cause(ctx))
	}
	for _, w := range watched {
		if store := w.Informer.GetStore(); len(store.ListKeys()) > 0 && store.LastStoreSyncResourceVersion() == "" {
			return errors.New("client-go's feature AtomicFIFO is off; it must be on: without it written objects cannot be awaited")
		}
	}
	return nil
}

// Waker calls the sync of a key: now, after all that changed, or in a moment.
type Waker interface {
	Add(key cache.ObjectName)
	AddInitial(key cache.ObjectName)
	AddSoon(key cache.ObjectName)
}

// OwnerHandler wakes an owner whose spec changed at once, and one of whose metadata changed in a moment. A change of the
// status wakes nobody: that is what the controller writes itself. It forgets owners that are gone.
func OwnerHandler[T metav1.Object](waker func() Waker, forget func(types.UID)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			if owner, ok := o.(T); ok {
				if initial {
					waker().AddInitial(cache.MetaObjectToName(owner))
				} else {
					waker().Add(cache.MetaObjectToName(owner))
				}
			}
		},
		UpdateFunc: func(before, after any) {
			was, okWas := before.(T)
			is, okIs := after.(T)
			if !okWas || !okIs {
				return
			}
			if was.GetUID() != is.GetUID() {
				forget(was.GetUID())
			}
			if was.GetGeneration() != is.GetGeneration() || was.GetUID() != is.GetUID() {
				waker().Add(cache.MetaObjectToName(is))
			} else if !sameMetadata(was, is) {
				waker().AddSoon(cache.MetaObjectToName(is))
			}
		},
		DeleteFunc: func(o any) {
			if owner, ok := lastState(o).(T); ok {
				forget(owner.GetUID())
				waker().Add(cache.MetaObjectToName(owner))
			}
		},
	}
}

// OwnedHandler is told of an object with its old owner and with its new one.
func OwnedHandler(wake func(metav1.Object)) cache.ResourceEventHandler {
	tell := func(o any) {
		if object, ok := o.(metav1.Object); ok {
			wake(object)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: tell,
		UpdateFunc: func(before, after any) {
			was, okWas := before.(metav1.Object)
			is, okIs := after.(metav1.Object)
			if !okWas || !okIs || was.GetResourceVersion() == is.GetResourceVersion() {
				return
			}
			if !sameOwner(was, is) {
				wake(was)
			}
			wake(is)
		},
		DeleteFunc: func(o any) { tell(lastState(o)) },
	}
}

// lastState is the object that a deletion is told of, even if the deletion itself was missed.
func lastState(o any) any {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return o
}

// sameMetadata compares what people and tools change.
func sameMetadata(a, b metav1.Object) bool {
	return maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		slices.Equal(a.GetFinalizers(), b.GetFinalizers()) && a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp())
}

func sameOwner(a, b metav1.Object) bool {
	return reflect.DeepEqual(metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b))
}
