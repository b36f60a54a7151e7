package cloneset

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

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
			if isActive(p) {
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
	e.killUntil("60 available Pods", func(ctx context.Context) error { return e.statusIs(ctx, replicas, replicas) })
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
			if !isActive(p) || !isReady(p) {
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
	e.killUntil("30 updated Pods", func(ctx context.Context) error { return e.statusIs(ctx, replicas, replicas) })
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

// killUntil starts the controller and kills it after a random time, over and over, until done holds.
// Each life is a little longer than the one before, so that the work ends.
func (e *env) killUntil(what string, done func(context.Context) error) {
	e.Helper()
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kills := 0
	for life := 200 * time.Millisecond; ; life += 40 * time.Millisecond {
		p := cluster.StartController(e, "cloneset-controller", e.namespace)
		err := localcluster.Await(e.Context(), life+time.Duration(random.Int64N(int64(300*time.Millisecond))), done)
		p.Kill()
		if err == nil {
			break
		}
		if kills++; kills > 200 {
			e.Fatalf("%s did not happen within %d lives: %v", what, kills, err)
		}
	}
	e.Logf("killed %d times", kills)
	require.Positive(e, kills, "the controller finished before it could be killed")
}
