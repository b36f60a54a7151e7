package cloneset

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// A controller that is killed at any moment, again and again, loses nothing and does nothing twice.

func TestKilledDuringScaleUpNeverMakesAPodTooMany(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const replicas = 60
	var most atomic.Int32
	cluster.Observe(t, e.namespace, func(pods localcluster.Pods) error {
		active := int32(0)
		for _, p := range pods {
			if localcluster.IsActive(p) {
				active++
			}
		}
		most.Store(max(most.Load(), active))
		if active > replicas {
			return fmt.Errorf("%d Pods exist, %d are wanted", active, replicas)
		}
		return nil
	})
	e.create(newSet(replicas))
	cluster.KillUntil(t, "cloneset-controller", e.namespace, "60 available Pods", func(ctx context.Context) error { return e.statusIs(ctx, replicas, replicas) })
	require.EqualValues(t, replicas, most.Load())
}

func TestKilledDuringInPlaceRolloutKeepsTheBudget(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const replicas, unavailable = 30, 3
	warm := cluster.StartController(t, "cloneset-controller", e.namespace)
	e.create(newSet(replicas, inPlace, budget(intstr.FromInt32(unavailable), intstr.FromInt32(0))))
	e.available(replicas)
	warm.Kill()

	before := uids(e.active())
	cluster.Observe(t, e.namespace, func(pods localcluster.Pods) error {
		down := 0
		for _, p := range pods {
			if !localcluster.IsActive(p) || !localcluster.IsReady(p) {
				down++
			}
		}
		if down > unavailable {
			return fmt.Errorf("%d Pods are unavailable, %d are allowed", down, unavailable)
		}
		if len(pods) > replicas {
			return fmt.Errorf("%d Pods exist, %d are wanted", len(pods), replicas)
		}
		return nil
	})
	e.setImage(imageB)
	cluster.KillUntil(t, "cloneset-controller", e.namespace, "30 updated Pods", func(ctx context.Context) error { return e.statusIs(ctx, replicas, replicas) })
	require.Equal(t, before, uids(e.active()), "no Pod is replaced")
	require.Equal(t, "30b", e.images())
}

func (e *env) statusIs(ctx context.Context, updated, available int32) error {
	set, err := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	s := set.Status
	if s.ObservedGeneration != set.Generation || s.UpdatedAvailableReplicas != updated || s.AvailableReplicas != available || s.Replicas != available {
		return fmt.Errorf("%d Pods, %d available, %d updated", s.Replicas, s.AvailableReplicas, s.UpdatedAvailableReplicas)
	}
	return nil
}
