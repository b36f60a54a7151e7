package localcluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// Pods are the Pods of a namespace as they stood after one event, by UID.
type Pods map[types.UID]*corev1.Pod

// Observe calls check after every change of any Pod in the namespace, in the order in which the
// server made the changes. The returned function stops observing and gives the first error of check.
func (c *Cluster) Observe(ctx context.Context, namespace string, check func(Pods) error) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Kube.CoreV1().Pods(namespace).Watch(ctx, o)
		},
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching Pods: %w", err)
	}
	o := &observer{pods: Pods{}, check: check}
	for i := range list.Items {
		o.pods[list.Items[i].UID] = &list.Items[i]
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range watcher.ResultChan() {
			o.see(e)
		}
	}()
	var once sync.Once
	return func() error {
		once.Do(func() {
			cancel()
			watcher.Stop()
			<-done
		})
		return o.first
	}, nil
}

type observer struct {
	pods  Pods
	check func(Pods) error
	seen  int
	first error
}

func (o *observer) see(e watch.Event) {
	o.seen++
	pod, ok := e.Object.(*corev1.Pod)
	switch {
	case e.Type == watch.Bookmark:
		return
	case !ok:
		o.fail(fmt.Errorf("the watch broke: %v", e.Object))
		return
	case e.Type == watch.Deleted:
		delete(o.pods, pod.UID)
	default:
		o.pods[pod.UID] = pod
	}
	if err := o.check(o.pods); err != nil {
		o.fail(fmt.Errorf("event %d (%s %s): %w", o.seen, e.Type, pod.Name, err))
	}
}

// fail keeps the first violation: what follows from it is noise.
func (o *observer) fail(err error) {
	if o.first == nil && !errors.Is(err, context.Canceled) {
		o.first = err
	}
}
