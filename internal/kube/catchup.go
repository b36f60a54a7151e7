package kube

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// Source is a cache and what it caches.
type Source struct {
	Resource schema.GroupVersionResource
	Store    cache.Store
	// Selector leaves out objects that nobody decides by. nil: all count.
	Selector labels.Selector
	// ClusterScoped: the objects are in no namespace.
	ClusterScoped bool
}

const (
	catchUpPage  = 500
	catchUpPoll  = 20 * time.Millisecond
	catchUpRetry = time.Second
)

// CatchUp waits until the caches show all that the API server holds at the time of the call. A process that becomes
// leader needs it: its caches may not show yet what the leader before it did last, and nothing of its own is there to be
// awaited. It returns an error only if the context ends.
func CatchUp(ctx context.Context, client metadata.Interface, namespace string, sources []Source) error {
	log := logr.FromContextOrDiscard(ctx)
	for _, s := range sources {
		failing := false
		err := wait.PollUntilContextCancel(ctx, catchUpRetry, true, func(ctx context.Context) (bool, error) {
			err := s.catchUp(ctx, client, namespace)
			if err != nil && ctx.Err() == nil && !failing {
				failing = true
				log.Error(err, "cannot tell whether the cache is current; nothing is done before it is", "resource", s.Resource.Resource)
			}
			return err == nil, nil
		})
		if err != nil {
			return fmt.Errorf("waiting for the cache of %s: %w", s.Resource.Resource, err)
		}
	}
	return nil
}

// catchUp reads without a version, which the API server answers from its latest state, and no more than metadata.
func (s Source) catchUp(ctx context.Context, client metadata.Interface, namespace string) error {
	known := s.matching()
	options := metav1.ListOptions{Limit: catchUpPage}
	if s.Selector != nil {
		options.LabelSelector = s.Selector.String()
	}
	if s.ClusterScoped {
		namespace = metav1.NamespaceAll
	}
	newest := ""
	for {
		page, err := client.Resource(s.Resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing %s: %w", s.Resource.Resource, err)
		}
		for i := range page.Items {
			item := &page.Items[i]
			delete(known, cache.MetaObjectToName(item).String())
			if isNewer(item.ResourceVersion, newest) {
				newest = item.ResourceVersion
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return s.await(ctx, newest, page.ResourceVersion, known)
		}
	}
}

// matching are the keys of the objects that the cache shows.
func (s Source) matching() map[string]bool {
	keys := map[string]bool{}
	for _, item := range s.Store.List() {
		if o, err := meta.Accessor(item); err == nil && s.counts(o) {
			keys[cache.MetaObjectToName(o).String()] = true
		}
	}
	return keys
}

func (s Source) counts(o metav1.Object) bool {
	return s.Selector == nil || s.Selector.Matches(labels.Set(o.GetLabels()))
}

// await waits for the newest object of the list, and for the end of those that the list does not hold.
func (s Source) await(ctx context.Context, newest, listed string, gone map[string]bool) error {
	err := wait.PollUntilContextCancel(ctx, catchUpPoll, true, func(context.Context) (bool, error) {
		if isNewer(newest, s.Store.LastStoreSyncResourceVersion()) {
			return false, nil
		}
		for key := range gone {
			item, exists, err := s.Store.GetByKey(key)
			if err != nil || !exists {
				delete(gone, key)
				continue
			}
			// Another object of that name, or one that was changed after the list.
			if o, err := meta.Accessor(item); err != nil || !s.counts(o) || isNewer(o.GetResourceVersion(), listed) {
				delete(gone, key)
			}
		}
		return len(gone) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the events of %s: %w", s.Resource.Resource, err)
	}
	return nil
}
