package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	namespace = "demo"
	// Sets of examples, and the folders' files.
	rolling  = "in-place"
	holding  = "canary"
	newImage = "registry.example/web:1.1"
	replicas = 10
	// The examples' own numbers.
	maxUnavailable = 2
	canaryUpdated  = 2
)

type demo struct {
	cluster *localcluster.Cluster
	screen  *screen
}

// play runs the acts in order and returns what was seen, also when an act failed.
func (d *demo) play(ctx context.Context) (seen []string, err error) {
	if err := d.reset(ctx); err != nil {
		return nil, err
	}
	acts := []struct {
		promise string
		run     func(context.Context) (string, error)
	}{
		{"10 replicas come up", d.create},
		{"a new image rolls in place, 2 Pods at a time", d.rollInPlace},
		{"a partition of 80% holds a canary at 2 of 10", d.canary},
		{"an Advanced StatefulSet gives up single ordinals", d.reserve},
		{"both versions of the API speak of the same objects", d.bothVersions},
		{"a refusal names its field", d.refusal},
		{"a set that is protected is not deleted", d.protection},
		{"a caBundle that somebody wipes comes back", d.repair},
		{"certificates are replaced while requests run", d.rotate},
	}
	for _, act := range acts {
		step("%s", act.promise)
		started := time.Now()
		what, err := act.run(ctx)
		if err != nil {
			return append(seen, fmt.Sprintf("  FAILED  %s", act.promise)), fmt.Errorf("%s: %w", act.promise, err)
		}
		seen = append(seen, fmt.Sprintf("  seen    %s: %s (%.1fs)", act.promise, what, time.Since(started).Seconds()))
	}
	return seen, nil
}

func (d *demo) create(ctx context.Context) (string, error) {
	if err := d.apply("cloneset", rolling); err != nil {
		return "", err
	}
	if err := d.until(ctx, rolling, func(c *v1beta1.CloneSet) bool { return c.Status.AvailableReplicas == replicas }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d of %d available", replicas, replicas), nil
}

func (d *demo) rollInPlace(ctx context.Context) (string, error) {
	before, err := d.pods(ctx, rolling)
	if err != nil {
		return "", err
	}
	var worst atomic.Int32
	stop, err := d.cluster.Observe(ctx, namespace, func(pods localcluster.Pods) error {
		down := int32(0)
		for _, p := range pods {
			if p.Labels["app"] == rolling && !localcluster.IsReady(p) {
				down++
			}
		}
		worst.Store(max(worst.Load(), down))
		if down > maxUnavailable {
			return fmt.Errorf("%d Pods were not ready at once, %d are allowed", down, maxUnavailable)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	err = d.setImage(ctx, rolling, newImage)
	if err == nil {
		err = d.until(ctx, rolling, func(c *v1beta1.CloneSet) bool { return c.Status.UpdatedAvailableReplicas == replicas })
	}
	if err := errors.Join(err, stop()); err != nil {
		return "", err
	}
	after, err := d.pods(ctx, rolling)
	if err != nil {
		return "", err
	}
	if err := samePods(before, after); err != nil {
		return "", err
	}
	return fmt.Sprintf("all %d Pods run %s, none was replaced, every IP was kept, at most %d were not ready", replicas, newImage, worst.Load()), nil
}

func samePods(before, after map[types.UID]corev1.Pod) error {
	for uid, old := range before {
		now, ok := after[uid]
		switch {
		case !ok:
			return fmt.Errorf("replaced: Pod %s", old.Name)
		case now.Status.PodIP != old.Status.PodIP:
			return fmt.Errorf("the IP of Pod %s was %s and is %s", old.Name, old.Status.PodIP, now.Status.PodIP)
		case now.Spec.Containers[0].Image != newImage:
			return fmt.Errorf("still at the old image: Pod %s runs %s", old.Name, now.Spec.Containers[0].Image)
		}
	}
	if len(after) != len(before) {
		return fmt.Errorf("there were %d Pods and are %d", len(before), len(after))
	}
	return nil
}

func (d *demo) canary(ctx context.Context) (string, error) {
	if err := d.apply("cloneset", holding); err != nil {
		return "", err
	}
	if err := d.until(ctx, holding, func(c *v1beta1.CloneSet) bool { return c.Status.AvailableReplicas == replicas }); err != nil {
		return "", err
	}
	if err := d.setImage(ctx, holding, newImage); err != nil {
		return "", err
	}
	settled := func(c *v1beta1.CloneSet) bool {
		return c.Status.UpdatedAvailableReplicas == canaryUpdated && c.Status.AvailableReplicas == replicas
	}
	if err := d.until(ctx, holding, settled); err != nil {
		return "", err
	}
	// It has to stay there: more than two is what a partition must never let happen.
	hold, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	err := d.until(hold, holding, func(c *v1beta1.CloneSet) bool { return c.Status.UpdatedReplicas != canaryUpdated })
	if err == nil {
		return "", errors.New("the rollout went on past the partition")
	}
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	return fmt.Sprintf("%d of %d at %s, the others wait", canaryUpdated, replicas, newImage), nil
}

func (d *demo) apply(kind, name string) error {
	file := filepath.Join(d.cluster.Root, "examples", kind, name+".yaml")
	if out, err := d.cluster.Kubectl("apply", "-n", namespace, "-f", file); err != nil {
		return fmt.Errorf("applying %s: %w: %s", file, err, out)
	}
	return nil
}

func (d *demo) setImage(ctx context.Context, name, image string) error {
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image)
	_, err := d.cluster.Flotilla.AppsV1beta1().CloneSets(namespace).Patch(ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("changing the image of %s: %w", name, err)
	}
	return nil
}

// until draws the CloneSets until done says so for the named one, at a status that has seen its spec.
func (d *demo) until(ctx context.Context, name string, done func(*v1beta1.CloneSet) bool) error {
	defer d.screen.settle()
	return localcluster.Await(ctx, within, func(ctx context.Context) error {
		list, err := d.cluster.Flotilla.AppsV1beta1().CloneSets(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing CloneSets: %w", err)
		}
		d.screen.draw(list.Items)
		for i := range list.Items {
			if c := &list.Items[i]; c.Name == name && c.Status.ObservedGeneration == c.Generation && done(c) {
				return nil
			}
		}
		return fmt.Errorf("%s is not there yet", name)
	})
}

func (d *demo) pods(ctx context.Context, app string) (map[types.UID]corev1.Pod, error) {
	list, err := d.cluster.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	pods := make(map[types.UID]corev1.Pod, len(list.Items))
	for _, p := range list.Items {
		pods[p.UID] = p
	}
	return pods, nil
}
