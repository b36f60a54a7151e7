package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

func storedPod(name, uid, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(uid), ResourceVersion: version}}
}

func TestGateWaitsForWritesAndForNothingElse(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	require.NoError(t, store.Add(storedPod("a", "1", "9")))
	g := NewGate()
	require.True(t, g.Open("set"))
	g.Wrote("set", store, "10")
	g.Wrote("set", store, "9")
	require.False(t, g.Open("set"))
	require.True(t, g.Open("other"))
	// Any later event will do: the object itself may be gone before it was ever seen.
	require.NoError(t, store.Add(storedPod("b", "2", "11")))
	require.True(t, g.Open("set"))

	g.Wrote("set", store, "no number")
	require.True(t, g.Open("set"), "what cannot be compared is not waited for")
	g.Wrote("set", store, "100")
	g.Forget("set")
	require.True(t, g.Open("set"))
}

func TestGateSeesDeletionsHoweverTheyEnd(t *testing.T) {
	for name, happens := range map[string]func(cache.Store) error{
		"gone": func(s cache.Store) error { return s.Delete(storedPod("a", "1", "12")) },
		"terminating": func(s cache.Store) error {
			p := storedPod("a", "1", "12")
			p.DeletionTimestamp = &metav1.Time{}
			return s.Update(p)
		},
		"replaced": func(s cache.Store) error { return s.Update(storedPod("a", "2", "12")) },
	} {
		t.Run(name, func(t *testing.T) {
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			require.NoError(t, store.Add(storedPod("a", "1", "9")))
			g := NewGate()
			g.Deleted("set", store, "d/a", "1")
			require.False(t, g.Open("set"))
			require.NoError(t, happens(store))
			require.True(t, g.Open("set"))
		})
	}
}

func TestSlowStartStopsAfterTheBatchThatFails(t *testing.T) {
	var calls atomic.Int32
	n, err := SlowStart(10, 4, func(i int) error {
		calls.Add(1)
		if i >= 3 {
			return fmt.Errorf("no %d", i)
		}
		return nil
	})
	require.Error(t, err)
	require.Equal(t, 3, n)
	require.EqualValues(t, 7, calls.Load())
	n, err = SlowStart(10, 4, func(int) error { return nil })
	require.NoError(t, err)
	require.Equal(t, 10, n)
}

func TestForEachTriesAllAndKeepsTheLimit(t *testing.T) {
	var running, most atomic.Int32
	err := ForEach(50, 3, func(i int) error {
		now := running.Add(1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		defer running.Add(-1)
		if i%2 == 0 {
			return fmt.Errorf("e%d", i)
		}
		return nil
	})
	require.LessOrEqual(t, most.Load(), int32(3))
	require.ErrorContains(t, err, "e0")
	require.ErrorContains(t, err, "e48")
	require.PanicsWithValue(t, "boom", func() { _ = ForEach(3, 2, func(int) error { panic("boom") }) })
}

func TestChangedObjectsGoBeforeTheInitialList(t *testing.T) {
	var l levels[string]
	for _, item := range []string{"a", "b"} {
		l.mark(item)
		l.Push(item)
	}
	l.Push("changed")
	require.Equal(t, 3, l.Len())
	require.Equal(t, []string{"changed", "a", "b"}, []string{l.Pop(), l.Pop(), l.Pop()})
}

// within waits for a channel.
func within(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s did not happen", what)
	}
}

func TestLoopRetriesErrorsAndPanicsAndFinishesWhatItBegan(t *testing.T) {
	key := cache.NewObjectName("d", "a")
	var calls atomic.Int32
	third, inside, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	loop := NewLoop("test", clock.RealClock{}, func(ctx context.Context, k cache.ObjectName) (time.Duration, error) {
		switch calls.Add(1) {
		case 1:
			return 0, errors.New("failed")
		case 2:
			panic("worse")
		case 3:
			close(third)
			return time.Millisecond, nil
		case 4:
			close(inside)
			<-release
		}
		return 0, nil
	})
	defer loop.ShutDown()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { loop.Run(ctx, 2) })
	loop.Add(key)
	within(t, third, "the retry after an error and a panic")
	within(t, inside, "the look again")
	cancel()
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		t.Fatal("Run returned while a sync was going on")
	default:
	}
	close(release)
	within(t, done, "the end")

	// A loop that ended can be run again, and has lost nothing.
	again := make(chan struct{})
	loop.sync = func(context.Context, cache.ObjectName) (time.Duration, error) { close(again); return 0, nil }
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	loop.Add(key)
	wg.Go(func() { loop.Run(ctx, 1) })
	within(t, again, "the sync of the second run")
	cancel()
	wg.Wait()
}

func TestTrimmedPodsKeepWhatIsRead(t *testing.T) {
	trim := TrimPods(func(p *corev1.Pod) bool { return p.Name == "ours" })
	p := storedPod("ours", "1", "2")
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	p.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "x", "a": "b", corev1.PodDeletionCost: "3"}
	p.Spec.NodeName = "n"
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Command: []string{"x"}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, Message: "long"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", ImageID: "id", ContainerID: "cid", Ready: true}}
	out, err := trim(p)
	require.NoError(t, err)
	ours := out.(*corev1.Pod)
	require.Empty(t, ours.ManagedFields)
	require.Equal(t, map[string]string{corev1.PodDeletionCost: "3"}, ours.Annotations)
	require.Equal(t, []corev1.Container{{Name: "c", Image: "i"}}, ours.Spec.Containers)
	require.Equal(t, corev1.ConditionTrue, ours.Status.Conditions[0].Status)
	require.Empty(t, ours.Status.Conditions[0].Message)
	require.Equal(t, "cid", ours.Status.ContainerStatuses[0].ContainerID)

	foreign := storedPod("foreign", "1", "2")
	foreign.Labels = map[string]string{"a": "b"}
	foreign.Spec.NodeName = "n"
	out, err = trim(foreign)
	require.NoError(t, err)
	require.Equal(t, storedPod("foreign", "1", "2"), out)
}
