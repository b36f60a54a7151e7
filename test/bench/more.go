package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	phaseWide  = "in place, 10% at a time"
	phaseFleet = "many sets changed at once"
)

// atOnce bounds the requests of the benchmark itself.
const atOnce = 20

// replacements deletes Pods one after the other and measures how long it takes until another one is created.
func (b *bench) replacements(ctx context.Context, s *side, namespace string) error {
	list, err := b.cluster.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Pods: %w", err)
	}
	known := map[types.UID]bool{}
	for i := range list.Items {
		known[list.Items[i].UID] = true
	}
	created := make(chan time.Time, b.options.deletions)
	stop, err := b.cluster.Observe(ctx, namespace, func(pods localcluster.Pods) error {
		for uid := range pods {
			if !known[uid] {
				known[uid] = true
				created <- time.Now()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range min(b.options.deletions, len(list.Items)) {
		start := time.Now()
		if err := b.cluster.Kube.CoreV1().Pods(namespace).Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting Pod %s: %w", list.Items[i].Name, err)
		}
		select {
		case at := <-created:
			s.replacements = append(s.replacements, at.Sub(start))
		case <-time.After(within):
			return fmt.Errorf("no replacement of Pod %s within %s", list.Items[i].Name, within)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	slices.Sort(s.replacements)
	return stop()
}

// quantile of sorted values.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// wide rolls one large set in place, ten percent at a time.
func (b *bench) wide(ctx context.Context, s *side) error {
	const namespace, share = "bench-wide", "10%"
	n := 2 * b.options.pods
	return b.within(ctx, namespace, func() error {
		sets := b.cluster.Flotilla.AppsV1beta1().CloneSets(namespace)
		if _, err := sets.Create(ctx, newSet("web", n, share), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the set: %w", err)
		}
		if err := b.ready(ctx, namespace, n); err != nil {
			return err
		}
		return b.measure(ctx, s, namespace, phaseWide, func(ctx context.Context) error {
			_, err := sets.Patch(ctx, "web", types.JSONPatchType, setImage(imageB), metav1.PatchOptions{})
			return err
		}, n, allReady(n, imageB))
	})
}

// fleet changes many sets at the same time.
func (b *bench) fleet(ctx context.Context, s *side) error {
	const namespace, size = "bench-fleet", 20
	n := b.options.sets
	sets := b.cluster.Flotilla.AppsV1beta1().CloneSets(namespace)
	each := func(do func(name string) error) error {
		errs := make(chan error, n)
		slots := make(chan struct{}, atOnce)
		var wg sync.WaitGroup
		for i := range n {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				errs <- do(fmt.Sprintf("web-%d", i))
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
	return b.within(ctx, namespace, func() error {
		err := each(func(name string) error {
			_, err := sets.Create(ctx, newSet(name, size, quarter), metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("creating the sets: %w", err)
		}
		if err := b.ready(ctx, namespace, n*size); err != nil {
			return err
		}
		return b.measure(ctx, s, namespace, phaseFleet, func(ctx context.Context) error {
			return each(func(name string) error {
				_, err := sets.Patch(ctx, name, types.JSONPatchType, setImage(imageB), metav1.PatchOptions{})
				return err
			})
		}, n*size, allReady(n*size, imageB))
	})
}

func newSet(name string, pods int, unavailable string) *v1beta1.CloneSet {
	labels := map[string]string{"app": name}
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.Replicas = ptr.To(int32(pods))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template = template(imageA)
	set.Spec.Template.Labels = labels
	set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{
		PodUpdatePolicy: v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType, MaxUnavailable: ptr.To(intstr.FromString(unavailable)),
	}
	return set
}

// within runs in a namespace of its own, which is gone afterwards.
func (b *bench) within(ctx context.Context, namespace string, do func() error) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := b.cluster.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	if err := do(); err != nil {
		return err
	}
	return b.empty(ctx, namespace)
}

// ready waits until that many Pods are ready.
func (b *bench) ready(ctx context.Context, namespace string, n int) error {
	return localcluster.Await(ctx, within, func(ctx context.Context) error {
		list, err := b.cluster.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		count := 0
		for i := range list.Items {
			if ready(&list.Items[i]) {
				count++
			}
		}
		if count != n {
			return fmt.Errorf("%d of %d Pods are ready", count, n)
		}
		return nil
	})
}
