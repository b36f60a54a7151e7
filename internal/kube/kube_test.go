package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
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
	trim := TrimPods(func(p *corev1.Pod) bool { return p.Name == "ours" }, false)
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

// works hands the queue's next key to the loop's worker.
func works(t *testing.T, l *Loop, c *clocktesting.FakeClock) {
	t.Helper()
	for l.queue.Len() == 0 {
		c.Step(time.Millisecond)
		runtime.Gosched()
	}
	key, _ := l.queue.Get()
	l.work(t.Context(), key)
}

func TestLoopRemembersNothingOfWhatIsGone(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	var l *Loop
	l = NewLoop("test", c, func(_ context.Context, k cache.ObjectName) (time.Duration, error) {
		l.Forget(k)
		return 0, nil
	})
	defer l.ShutDown()
	for i := range 100 {
		l.Add(cache.NewObjectName("d", fmt.Sprint(i)))
		works(t, l, c)
	}
	require.Empty(t, l.pace)
	require.Empty(t, l.failed)
}

func TestLoopKeepsTheTimeToLookAgainBesideAnError(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	key := cache.NewObjectName("d", "a")
	var at []time.Time
	l := NewLoop("test", c, func(context.Context, cache.ObjectName) (time.Duration, error) {
		at = append(at, c.Now())
		if len(at) < 8 {
			return 0, errors.New("failed")
		}
		return 100 * time.Millisecond, errors.New("failed")
	})
	defer l.ShutDown()
	l.Add(key)
	for range 9 {
		works(t, l, c)
	}
	// The backoff is over two seconds by now.
	require.Less(t, at[8].Sub(at[7]), 2*time.Second)
}

func TestLoopIsNotWokenByEventsOfAFailingSyncOftenerThanOnceASecond(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	key := cache.NewObjectName("d", "a")
	syncs := 0
	var l *Loop
	l = NewLoop("test", c, func(context.Context, cache.ObjectName) (time.Duration, error) {
		syncs++
		l.AddSoon(key) // what the sync has written comes back as an event
		if syncs%2 == 0 {
			return 0, Waiting(time.Millisecond) // it waits for its caches, which is no success
		}
		return 0, errors.New("failed")
	})
	defer l.ShutDown()
	l.Add(key)
	end := c.Now().Add(time.Minute)
	for c.Now().Before(end) {
		c.Step(5 * time.Millisecond)
		for l.queue.Len() > 0 {
			k, _ := l.queue.Get()
			l.work(t.Context(), k)
		}
	}
	require.LessOrEqual(t, syncs, 2*(60+8))

	l.Add(key)
	require.Equal(t, 1, l.queue.Len(), "a changed spec is tried at once")
}

func TestLoopSaysNothingOfAnAPIServerThatIsAwayAndGoesOnSoon(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	var at []time.Time
	l := NewLoop("test", c, func(context.Context, cache.ObjectName) (time.Duration, error) {
		at = append(at, c.Now())
		return 0, fmt.Errorf("creating Pod: %w", syscall.ECONNREFUSED)
	})
	defer l.ShutDown()
	lines := 0
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, _ string) { lines++ }, funcr.Options{}))
	l.Add(cache.NewObjectName("d", "a"))
	for range 20 {
		for l.queue.Len() == 0 {
			c.Step(10 * time.Millisecond)
			runtime.Gosched()
		}
		key, _ := l.queue.Get()
		l.work(ctx, key)
	}
	require.Zero(t, lines)
	require.LessOrEqual(t, at[19].Sub(at[18]), lostBackoff+time.Second)
}

func TestBackoffGrowsByPartAndGoal(t *testing.T) {
	now := time.Now()
	b := Backoff{First: time.Second, Longest: 5 * time.Second}
	for _, want := range []time.Duration{1, 2, 4, 5, 5} {
		require.Equal(t, want*time.Second, b.Failed("set", "a", "1", now))
	}
	wait, failed := b.Wait("set", "a", "1", now.Add(time.Second))
	require.True(t, failed)
	require.Equal(t, 4*time.Second, wait)
	wait, failed = b.Wait("set", "a", "1", now.Add(time.Minute))
	require.True(t, failed)
	require.Zero(t, wait)
	_, failed = b.Wait("set", "a", "2", now)
	require.False(t, failed, "another goal")
	require.Equal(t, time.Second, b.Failed("set", "a", "2", now))
	b.Failed("set", "b", "2", now)
	b.Keep("set", func(part string) bool { return part == "b" })
	_, failed = b.Wait("set", "a", "2", now)
	require.False(t, failed)
	b.Succeeded("set", "b")
	require.Empty(t, b.owners)
}

func TestGateIsClosedWhileAWriteIsInDoubt(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	g := NewGate()
	away := true
	g.doubt("set", doubt{store, "d/a"}, func(context.Context) error {
		if away {
			return errors.New("away")
		}
		g.Wrote("set", store, "10")
		return nil
	})
	require.False(t, g.Open("set"))
	require.Error(t, g.Settle(t.Context(), "set"))
	require.False(t, g.Open("set"))
	away = false
	require.NoError(t, g.Settle(t.Context(), "set"))
	require.False(t, g.Open("set"), "what was written is awaited")
	require.NoError(t, store.Add(storedPod("a", "1", "10")))
	require.True(t, g.Open("set"))
}

func TestWhatIsDeniedWithTheCodeOfSomethingMissingDoesNotPass(t *testing.T) {
	pods, namespaces := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "namespaces"}
	named := names(&metav1.ObjectMeta{Name: "web"})
	for name, c := range map[string]struct {
		err     error
		passing bool
	}{
		"the object is gone":    {apierrors.NewNotFound(pods, "web"), true},
		"the namespace is gone": {apierrors.NewNotFound(namespaces, "d"), true},
		"a webhook says no":     {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound, Message: "no"}}, false},
		"it misses another one": {apierrors.NewNotFound(schema.GroupResource{Resource: "images"}, "x"), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := fmt.Errorf("patching: %w", unlessDenied(c.err, named))
			require.Equal(t, c.passing, IsPassing(err))
			require.Equal(t, !c.passing, IsRefused(err))
			require.False(t, isUnanswered(err))
			require.ErrorContains(t, err, c.err.Error())
		})
	}
	require.NoError(t, unlessDenied(nil, named))
}
