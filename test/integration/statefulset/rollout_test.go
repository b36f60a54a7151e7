package statefulset

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// keepsReady fails the test if ever fewer than that many Pods are ready.
func (e *env) keepsReady(least int) {
	e.watchPods(func(pods map[int]*corev1.Pod) error {
		ready := 0
		for _, p := range pods {
			if localcluster.IsActive(p) && localcluster.IsReady(p) {
				ready++
			}
		}
		if ready < least {
			return fmt.Errorf("%d Pods are ready", ready)
		}
		return nil
	})
}

func TestScenario049And125_UpdatesGoDownwardsOneByOne(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3))
	e.settled("0:a 1:a 2:a")
	e.keepsReady(2)
	e.watchPods(func(pods map[int]*corev1.Pod) error {
		for o, p := range pods {
			above := pods[o+1]
			if o < 2 && tag(p) == "b" && (above == nil || tag(above) != "b") {
				return fmt.Errorf("Pod %d is updated before Pod %d", o, o+1)
			}
		}
		return nil
	})
	e.edit(image("b"))
	set := e.until("the promotion", func(s *v1beta1.StatefulSet) bool {
		return e.state() == "0:b 1:b 2:b" && s.Status.AvailableReplicas == 3 && s.Status.CurrentRevision == s.Status.UpdateRevision
	})
	s := set.Status
	for _, n := range []int32{s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas} {
		require.EqualValues(t, 3, n)
	}
	require.Equal(t, "app=web", s.LabelSelector)
}

func TestScenario050_ThePartitionSaysFromWhatPodsAreMade(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3, partition(2)))
	old := e.settled("0:a 1:a 2:a").Status.UpdateRevision
	e.edit(image("b"))
	set := e.settled("0:a 1:a 2:b")
	require.Equal(t, old, set.Status.CurrentRevision)
	require.EqualValues(t, 1, set.Status.UpdatedReplicas)
	for _, o := range []int{0, 2} {
		before := e.pod(o)
		e.deletePod(o)
		require.Equal(t, tag(before), tag(e.replaced(before)))
	}
	e.settled("0:a 1:a 2:b")
	e.edit(partition(0))
	e.settled("0:b 1:b 2:b")
	e.until("the promotion", func(s *v1beta1.StatefulSet) bool { return s.Status.CurrentRevision == set.Status.UpdateRevision })
}

func TestScenario056_ParallelUpdatesWithinTheBudgetAndAboveThePartition(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(6, parallel, partition(3), unavailable(2)))
	e.settled("0:a 1:a 2:a 3:a 4:a 5:a")
	before := uids(e.active())[:3]
	e.keepsReady(4)
	e.edit(image("b"))
	e.settled("0:a 1:a 2:a 3:b 4:b 5:b")
	require.Equal(t, before, uids(e.active())[:3])
}

func TestScenario074_APodThatCannotStartIsTakenBack(t *testing.T) {
	for to, change := range map[string]string{"back": "a", "forward": "c"} {
		t.Run(to, func(t *testing.T) {
			e := newRunningEnv(t)
			e.create(newSet(3))
			e.settled("0:a 1:a 2:a")
			e.edit(image("b-no-such-image"))
			e.reaches("0:a 1:a 2:b-no-such-image")
			e.until("a Pod that cannot start", func(s *v1beta1.StatefulSet) bool {
				return s.Status.UpdatedReplicas == 1 && s.Status.ReadyReplicas == 2
			})
			e.edit(image(change))
			e.settled(fmt.Sprintf("0:%[1]s 1:%[1]s 2:%[1]s", change))
		})
	}
}

func TestScenario075_AFirstRevisionThatNeverWorkedIsReplaced(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3, image("a-crash-loop")))
	e.reaches("0:a-crash-loop")
	e.edit(image("b"))
	e.settled("0:b 1:b 2:b")
}

func TestScenario078_InPlaceThePodStaysTheSame(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3, parallel, inPlace))
	e.settled("0:a 1:a 2:a")
	before := e.active()
	seen := map[string]bool{}
	e.watchPods(func(pods map[int]*corev1.Pod) error {
		for _, p := range pods {
			seen["state "+p.Labels[pub.LifecycleStateKey]] = true
			for _, c := range p.Status.Conditions {
				if c.Type == pub.InPlaceUpdateReady {
					seen["gate "+string(c.Status)] = true
				}
			}
		}
		return nil
	})
	e.edit(image("b"))
	set := e.settled("0:b 1:b 2:b")
	after := e.active()
	require.Equal(t, uids(before), uids(after))
	for i, p := range after {
		require.Equal(t, before[i].Status.PodIP, p.Status.PodIP)
		require.Equal(t, set.Status.UpdateRevision, p.Labels["controller-revision-hash"])
		require.EqualValues(t, 1, p.Status.ContainerStatuses[0].RestartCount)
	}
	e.inState(pub.LifecycleStateNormal, 3)
	for _, what := range []string{"gate False", "gate True", "state Updating", "state Normal"} {
		require.True(t, seen[what], what)
	}
}

func TestScenario090_OrderedAHookHoldsThePodBeforeAndAfterItsUpdate(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3, inPlace, hooked(func(l *pub.Lifecycle, h *pub.LifecycleHook) { l.InPlaceUpdate = h })))
	e.settled("0:a 1:a 2:a")
	before := uids(e.active())
	e.edit(image("b"))
	for o := 2; o >= 0; o-- {
		e.inState(pub.LifecycleStatePreparingUpdate, 1)
		require.Equal(t, string(pub.LifecycleStatePreparingUpdate), e.pod(o).Labels[pub.LifecycleStateKey])
		require.Equal(t, "a", tag(e.pod(o)))
		e.patchPod(o, `{"labels":{"hook":"false"}}`)
		e.inState(pub.LifecycleStateUpdated, 1)
		require.Equal(t, "b", tag(e.pod(o)))
		e.patchPod(o, `{"labels":{"hook":"true"}}`)
	}
	e.settled("0:b 1:b 2:b")
	require.Equal(t, before, uids(e.active()))
}
