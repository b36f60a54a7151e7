package statefulset

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

func TestScenarios30To34ScalingInOrder(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to int32
		broken   []int
		want     []string
	}{
		{"30 all healthy", 5, 2, nil, []string{"0 1 2 3 4", "0 1 2 3", "0 1 2", "0 1"}},
		{"31 only one to go is broken", 5, 2, []int{3}, []string{"0 1 2 3 4", "0 1 2 3", "0 1 2", "0 1"}},
		{"32 one to stay is broken", 5, 2, []int{0}, []string{"0 1 2 3 4"}},
		{"33 several to go are broken", 3, 0, []int{0, 1, 2}, []string{"0 1 2"}},
		{"34 scaling out waits", 1, 3, []int{0}, []string{"0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.start(c.from)
			f.unready(c.broken...)
			f.Edit(replicas(c.to))
			require.Equal(t, c.want, f.passes())
		})
	}
	t.Run("33 they go when they have recovered", func(t *testing.T) {
		f := newFixture(t)
		f.start(3)
		f.unready(0, 1, 2)
		f.Edit(replicas(0))
		f.Rest()
		f.ready(0, 1, 2)
		require.Equal(t, []string{"0 1 2", "0 1", "0", ""}, f.passes())
	})
}

// A Pod that is to go is waited for until it is available, which a healthy one is only after a while.
func TestScalingInOrderWaitsForMinReadySecondsOfThePodThatGoes(t *testing.T) {
	f := newFixture(t)
	f.create(2, minReady(60))
	f.Live(time.Minute)
	require.Equal(t, "0", f.ordinals())
	f.Live(50 * time.Second)
	require.Equal(t, "0 1", f.ordinals())
	f.Edit(replicas(1))
	readySince := pods.Condition(f.Pod(name(1)), corev1.PodReady).LastTransitionTime
	f.Live(readySince.Add(59 * time.Second).Sub(f.Clock.Now()))
	require.Equal(t, "0 1", f.ordinals())
	require.EqualValues(t, []int32{2, 1}, []int32{f.Set().Status.ReadyReplicas, f.Set().Status.AvailableReplicas})
	f.Live(2 * time.Second)
	require.Equal(t, "0", f.ordinals())
}

func TestScenario30EachDeletionWaitsForTheFormer(t *testing.T) {
	f := newFixture(t)
	f.start(5)
	f.Edit(replicas(2))
	f.sync()
	f.sync()
	require.Equal(t, "0 1 2 3", f.ordinals())
	require.Equal(t, "4", f.terminating())
}

func TestScenario35ParallelScalesInAtOnce(t *testing.T) {
	f := newFixture(t)
	f.start(5, parallel)
	f.unready(3)
	f.Edit(replicas(2))
	f.sync()
	require.Equal(t, "0 1", f.ordinals())
}

// blocked are ordinals whose Pods are created unready.
func TestScenario36CreationIsThrottled(t *testing.T) {
	f := newFixture(t)
	f.create(10, parallel, scaleUnavailable("3"), image("a-unready"))
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
	f.ready(1)
	f.Rest()
	require.Equal(t, "0 1 2 3", f.ordinals())
	f.ready(0, 2)
	f.Rest()
	require.Equal(t, "0 1 2 3 4 5", f.ordinals())
}

func TestScenario37ThrottleAsAPercentage(t *testing.T) {
	for _, c := range []struct {
		replicas int32
		limit    string
		want     int
	}{{100, "10%", 10}, {10, "5%", 1}} {
		f := newFixture(t)
		f.create(c.replicas, parallel, scaleUnavailable(c.limit), image("a-unready"))
		f.Rest()
		require.Len(t, f.Active(), c.want)
	}
}

func TestScenario38ThrottledScalingOut(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, scaleUnavailable("2"))
	f.Edit(replicas(10))
	f.sync()
	require.Equal(t, "0 1 2 3 4", f.ordinals())
	f.sync()
	require.Equal(t, "0 1 2 3 4", f.ordinals())
	f.Rest()
	require.Len(t, f.Active(), 10)
}

func TestScenarios39To41OnlyLowerOrdinalsThrottle(t *testing.T) {
	for _, c := range []struct {
		name    string
		broken  []int
		missing int
		created bool
	}{
		{"39", []int{4, 5}, 1, true},
		{"40", []int{0, 1}, 4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.start(6, parallel, scaleUnavailable("2"))
			f.unready(c.broken...)
			f.Remove("pods", namespace+"/"+name(c.missing))
			f.Rest()
			require.Equal(t, c.created, f.Pod(name(c.missing)) != nil)
			f.ready(c.broken[0])
			f.Rest()
			require.NotNil(t, f.Pod(name(c.missing)))
		})
	}
	t.Run("41 a terminating Pod counts once", func(t *testing.T) {
		f := newFixture(t)
		f.start(6, parallel, scaleUnavailable("2"))
		f.unready(0)
		f.DeletePod(name(0))
		f.Remove("pods", namespace+"/"+name(3))
		f.sync()
		require.NotNil(t, f.Pod(name(3)))
	})
}

func (f *fixture) end(phase corev1.PodPhase, ordinals ...int) {
	for _, o := range ordinals {
		f.EditPod(name(o), func(p *corev1.Pod) { p.Status.Phase = phase })
	}
}

func TestScenario42AFailedPodIsReplacedWhateverTheThrottle(t *testing.T) {
	for _, c := range []edit{both(parallel, scaleUnavailable("1")), scaleUnavailable("1")} {
		f := newFixture(t)
		f.start(3, c)
		before := f.Pod(name(1)).UID
		f.end(corev1.PodFailed, 1)
		f.Rest()
		require.Equal(t, "0 1 2", f.ordinals())
		require.NotEqual(t, before, f.Pod(name(1)).UID)
	}
}

func TestScenario43FailedPodsAreReplacedAtOnce(t *testing.T) {
	f := newFixture(t)
	f.start(4, parallel)
	f.end(corev1.PodFailed, 0, 2)
	f.sync()
	require.Equal(t, "0 2", f.terminating())
	f.Settle()
	f.sync()
	require.Equal(t, "0 1 2 3", f.ordinals())
}

func TestScenario44FailedPodsAreReplacedInOrder(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.end(corev1.PodFailed, 0, 2)
	f.sync()
	require.Equal(t, "0", f.terminating())
	f.Settle()
	f.sync()
	f.sync()
	require.Equal(t, "0 1", f.ordinals())
	require.Empty(t, f.terminating())
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
}

func TestScenario45ASucceededPodIsReplaced(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.start(2, policy)
		before := f.Pod(name(0)).UID
		f.end(corev1.PodSucceeded, 0)
		f.Rest()
		require.Equal(t, "0 1", f.ordinals())
		require.NotEqual(t, before, f.Pod(name(0)).UID)
	}
}

func TestScenario46AFailedCreationDoesNotHoldUpScalingIn(t *testing.T) {
	f := newFixture(t)
	f.start(4, parallel, unavailable("3"))
	f.Remove("pods", namespace+"/"+name(1))
	f.Refuse("create", "pods", nil)
	f.Edit(replicas(2), image("b"))
	f.ShowAll()
	_, err := f.Sync()
	require.Error(t, err)
	require.Equal(t, "0:a", f.state(), "and no update while Pods cannot be created")
	c := f.conditionOf(v1beta1.FailedCreatePod)
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Contains(t, c.Message, "web-1")
}

func TestScenario47ASetThatIsDeletedCreatesNothing(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel)
	f.Remove("pods", namespace+"/"+name(1))
	f.Edit(func(s *v1beta1.StatefulSet) {
		s.Finalizers = []string{"foregroundDeletion"}
		s.DeletionTimestamp = &metav1.Time{Time: f.Clock.Now()}
	})
	f.Rest()
	require.Equal(t, "0 2", f.ordinals())
	require.EqualValues(t, 2, f.Set().Status.Replicas)
}

func TestScenario48AStuckPod(t *testing.T) {
	stuck := func(t *testing.T, policy edit) *fixture {
		f := newFixture(t)
		f.start(4, policy)
		f.EditPod(name(1), func(p *corev1.Pod) { p.Finalizers = []string{"somebody/holds"} })
		f.DeletePod(name(1))
		f.Remove("pods", namespace+"/"+name(2))
		return f
	}
	t.Run("in order nothing else is done", func(t *testing.T) {
		f := stuck(t, func(*v1beta1.StatefulSet) {})
		f.Edit(replicas(3), image("b"))
		f.Rest()
		require.Equal(t, "0:a 3:a", f.state())
	})
	t.Run("in parallel the others go on", func(t *testing.T) {
		f := stuck(t, parallel)
		f.Edit(replicas(3))
		f.Rest()
		require.Equal(t, "0:a 2:a", f.state())
		f.EditPod(name(1), func(p *corev1.Pod) { p.Finalizers = nil })
		f.Settle()
		f.Rest()
		require.Equal(t, "0:a 1:a 2:a", f.state())
	})
}

func TestScenario112AFailureThatIsOverIsNotShown(t *testing.T) {
	f := newFixture(t)
	f.create(2, parallel)
	f.Refuse("create", "pods", nil)
	f.ShowAll()
	_, err := f.Sync()
	require.Error(t, err)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.FailedCreatePod).Status)
	require.Equal(t, 2, strings.Count(strings.Join(f.Events, "\n"), "Warning FailedCreate"))
	f.Before = nil
	f.Wait(time.Minute)
	f.Rest()
	c := f.conditionOf(v1beta1.FailedCreatePod)
	require.Equal(t, corev1.ConditionFalse, c.Status)
	require.Equal(t, "Succeeded", c.Reason)
}

func TestAPodThatIsRefusedHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel)
	for i := range 3 {
		f.Remove("pods", namespace+"/"+name(i))
	}
	f.Refuse("create", "pods", func(n string) bool { return n != "web-0" })
	f.ShowAll()
	_, err := f.Sync()
	require.Error(t, err)
	f.Settle()
	require.Equal(t, "1 2", f.ordinals())
}

func TestAQuotaIsNotTriedForEveryPod(t *testing.T) {
	f := newFixture(t)
	f.create(50, parallel)
	f.Refuse("create", "pods", nil)
	f.ShowAll()
	_, err := f.Sync()
	require.Error(t, err)
	require.Equal(t, vainStarts, f.Writes["create pods"])
}

func TestAPodThatHasEndedTakesPartInTheThrottle(t *testing.T) {
	f := newFixture(t)
	f.start(4, parallel, scaleUnavailable("1"))
	f.end(corev1.PodFailed, 0)
	f.Remove(modelcluster.Pods, namespace+"/"+name(2))
	f.sync()
	require.Nil(t, f.Pod(name(2)))
	f.Rest()
	require.Equal(t, "0 1 2 3", f.ordinals())
}

func TestNobodyWaitsForACondemnedPodThatHasEnded(t *testing.T) {
	f := newFixture(t)
	f.start(4, preDelete)
	f.end(corev1.PodFailed, 2)
	f.unready(3)
	f.Edit(replicas(2))
	f.Rest()
	require.Equal(t, held{name(3): pub.LifecycleStatePreparingDelete}, f.lifecycle())
}

func TestAPodThatGoesTakesPartInTheThrottleWhileItServes(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel, scaleUnavailable("1"))
	f.stick(0)
	f.Remove(modelcluster.Pods, namespace+"/"+name(1))
	f.sync()
	require.Nil(t, f.Pod(name(1)))
}
