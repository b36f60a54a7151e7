package statefulset

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// hook is the label that hooks hold Pods by; the template puts it on.
const hook = "hold"

func hold(s *v1beta1.StatefulSet) *pub.LifecycleHook {
	s.Spec.Template.Labels[hook] = "true"
	if s.Spec.Lifecycle == nil {
		s.Spec.Lifecycle = &pub.Lifecycle{}
	}
	return &pub.LifecycleHook{LabelsHandler: map[string]string{hook: "true"}}
}

func preDelete(s *v1beta1.StatefulSet) {
	h := hold(s)
	h.MarkPodNotReady = true
	s.Spec.Lifecycle.PreDelete = h
}

func preUpdate(s *v1beta1.StatefulSet) {
	inPlace(s)
	h := hold(s)
	h.MarkPodNotReady = true
	s.Spec.Lifecycle.InPlaceUpdate = h
}

func (f *fixture) release(ordinal int) { f.label(ordinal, hook, "false") }

func (f *fixture) satisfy(ordinal int) { f.label(ordinal, hook, "true") }

// lifecycle are the states of the active Pods by ordinal, where they are not Normal.
func (f *fixture) lifecycle() map[string]pub.LifecycleStateType {
	out := map[string]pub.LifecycleStateType{}
	for _, p := range f.Active() {
		if s := pods.LifecycleState(p); s != pub.LifecycleStateNormal {
			out[p.Name] = s
		}
	}
	return out
}

type held = map[string]pub.LifecycleStateType

func TestScenario81SpecifiedDeleteWithinTheBudget(t *testing.T) {
	f := newFixture(t)
	f.start(5, parallel, unavailable("3"))
	f.unready(1, 2)
	f.markDelete(0, 1, 2, 3, 4)
	f.sync()
	require.Equal(t, "1 2 4", f.terminating())
}

func TestScenario82SpecifiedDeleteKeepsThePartition(t *testing.T) {
	f := newFixture(t)
	f.start(4, parallel, partition(2))
	f.Edit(image("b"))
	f.Rest()
	f.markDelete(1, 2)
	require.Equal(t, []string{"0:a 1:a 2:b 3:b", "0:a 1:a 3:b", "0:a 1:a 2:b 3:b", "0:a 2:b 3:b", "0:a 1:a 2:b 3:b"}, f.states())
}

func TestScenario83SpecifiedDeleteInOrder(t *testing.T) {
	f := newFixture(t)
	f.start(4)
	f.markDelete(1, 3)
	require.Equal(t, []string{"0 1 2 3", "0 1 2", "0 1 2 3", "0 2 3", "0 1 2 3"}, f.passes())
}

func TestScenario84SpecifiedDeleteAndReservation(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, claimTemplate("www", "1Gi"), retain("Retain", "Delete"))
	claim := f.Claim("www-web-1").UID
	f.markDelete(1)
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
	require.Equal(t, claim, f.Claim("www-web-1").UID)
	f.markDelete(1)
	f.Edit(reserve(1))
	f.Rest()
	require.Equal(t, "0 2 3", f.ordinals())
	require.Nil(t, f.Claim("www-web-1"))
}

func TestScenario85SpecifiedDeleteWhilePaused(t *testing.T) {
	for _, e := range []edit{paused(true), onDelete} {
		for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
			f := newFixture(t)
			f.start(3, policy, e)
			before := f.Pod(name(1)).UID
			f.markDelete(1)
			f.sync()
			f.sync()
			f.sync()
			require.Equal(t, 1, f.Writes["delete pods"])
			f.Settle()
			f.Rest()
			require.Equal(t, "0 1 2", f.ordinals())
			require.NotEqual(t, before, f.Pod(name(1)).UID)
		}
	}
}

func TestScenarios86And88ADeletionThatWaits(t *testing.T) {
	f := newFixture(t)
	f.start(5, parallel, preDelete)
	f.Edit(replicas(3))
	f.Rest()
	require.Equal(t, held{name(3): pub.LifecycleStatePreparingDelete, name(4): pub.LifecycleStatePreparingDelete}, f.lifecycle())
	require.False(t, pods.IsConditionTrue(f.Pod(name(4)), pub.KruisePodReady))

	g := newFixture(t)
	g.start(5, parallel, preDelete)
	g.Edit(replicas(3))
	g.Rest()
	g.Edit(replicas(5))
	g.Rest()
	require.Empty(t, g.lifecycle(), "88")
	require.True(t, pods.IsConditionTrue(g.Pod(name(4)), pub.KruisePodReady))
	require.Zero(t, g.Writes["delete pods"])

	f.release(4)
	f.Rest()
	require.Equal(t, "0 1 2 3", f.ordinals())
	f.release(3)
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
}

func TestScenario87ADeletionThatWaitsInOrder(t *testing.T) {
	f := newFixture(t)
	f.start(5, preDelete)
	f.Edit(replicas(3))
	f.Rest()
	require.Equal(t, held{name(4): pub.LifecycleStatePreparingDelete}, f.lifecycle())
	f.release(4)
	f.Rest()
	require.Equal(t, "0 1 2 3", f.ordinals())
	require.Equal(t, held{name(3): pub.LifecycleStatePreparingDelete}, f.lifecycle())
	f.release(3)
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
}

func TestScenario89ARecreationThatWaits(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.start(3, policy, preDelete)
		f.Edit(image("b"))
		for _, next := range []int{2, 1, 0} {
			f.Rest()
			require.Equal(t, held{name(next): pub.LifecycleStatePreparingDelete}, f.lifecycle())
			f.release(next)
		}
		f.Rest()
		require.Equal(t, "0:b 1:b 2:b", f.state())
	}
}

func TestARecreationThatIsNotWantedAnyMoreIsTakenBack(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		for name, back := range map[string]edit{"the template": image("a"), "the partition": partition(3), "the type": onDelete} {
			f := newFixture(t)
			f.start(3, policy, preDelete)
			f.Edit(image("b"))
			f.Rest()
			require.NotEmpty(t, f.lifecycle())
			f.Edit(back)
			f.Rest()
			require.Empty(t, f.lifecycle(), name)
			require.Equal(t, "0:a 1:a 2:a", f.state())
			require.EqualValues(t, 3, f.Set().Status.AvailableReplicas)
		}
	}
}

func TestScenario90AnUpdateThatWaits(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.start(3, policy, preUpdate)
		f.Edit(image("b"))
		for _, next := range []int{2, 1, 0} {
			f.Rest()
			require.Equal(t, held{name(next): pub.LifecycleStatePreparingUpdate}, f.lifecycle())
			f.release(next)
			f.Rest()
			require.Equal(t, held{name(next): pub.LifecycleStateUpdated}, f.lifecycle())
			f.satisfy(next)
		}
		f.Rest()
		require.Equal(t, "0:b 1:b 2:b", f.state())
		require.Empty(t, f.lifecycle())
		require.Zero(t, f.Writes["delete pods"])
	}
}

func TestScenario91AnUpdateThatIsTakenBackWhileItWaits(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		for name, back := range map[string]edit{"the template": image("a"), "the partition": partition(3)} {
			f := newFixture(t)
			f.start(3, policy, preUpdate)
			f.Edit(image("b"))
			f.Rest()
			require.Len(t, f.lifecycle(), 1)
			f.Edit(back)
			f.Rest()
			require.Empty(t, f.lifecycle(), name)
			require.Equal(t, "0:a 1:a 2:a", f.state())
			require.True(t, pods.IsConditionTrue(f.Pod("web-2"), pub.KruisePodReady))
		}
	}
}

// Whoever finished with the Pod for its update has to take it up again, although there was none.
func TestScenario91AnUpdateThatIsTakenBackAfterItsHookLetItGo(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		for n, back := range map[string]edit{"the template": image("a"), "the partition": partition(3)} {
			f := newFixture(t)
			f.start(3, policy, preUpdate)
			f.Edit(image("b"))
			f.Rest()
			require.Equal(t, held{name(2): pub.LifecycleStatePreparingUpdate}, f.lifecycle())
			f.release(2)
			f.Edit(back)
			f.Rest()
			require.Equal(t, held{name(2): pub.LifecycleStateUpdated}, f.lifecycle(), n)
			require.Equal(t, "0:a 1:a 2:a", f.state())
			f.satisfy(2)
			f.Rest()
			require.Empty(t, f.lifecycle(), n)
			require.Equal(t, "0:a 1:a 2:a", f.state())
			require.Equal(t, 3, f.Available())
		}
	})
}

// A Pod that was updated and not taken up again is as much out of date as any other when the template is set back.
func TestScenario91AnUpdateThatIsTakenBackAfterItsEnd(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		f := newFixture(t)
		f.start(3, policy, preUpdate)
		f.Edit(image("b"))
		f.Rest()
		f.release(2)
		f.Rest()
		require.Equal(t, held{name(2): pub.LifecycleStateUpdated}, f.lifecycle())
		require.Equal(t, "0:a 1:a 2:b", f.state())
		f.Edit(partition(3))
		f.Rest()
		require.Equal(t, held{name(2): pub.LifecycleStateUpdated}, f.lifecycle(), "the partition takes nothing back")
		f.Edit(partition(0), image("a"))
		f.Rest()
		require.Equal(t, held{name(2): pub.LifecycleStatePreparingUpdate}, f.lifecycle())
		require.Equal(t, "true", f.Pod(name(2)).Labels[hook], "it is held again")
		require.Equal(t, "0:a 1:a 2:b", f.state())
		f.release(2)
		f.Rest()
		require.Equal(t, held{name(2): pub.LifecycleStateUpdated}, f.lifecycle())
		f.satisfy(2)
		f.Rest()
		require.Empty(t, f.lifecycle())
		require.Equal(t, "0:a 1:a 2:a", f.state())
		require.Zero(t, f.Writes["delete pods"])
	})
}

func TestScenario92UnorderedReplacementBesideAnUpdateThatWaits(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, preUpdate, partition(2), unordered(nil))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, held{name(2): pub.LifecycleStatePreparingUpdate}, f.lifecycle())
	f.DeletePod(name(0))
	f.Settle()
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a", f.state())
	f.release(2)
	f.Rest()
	f.satisfy(2)
	f.Rest()
	require.Equal(t, "0:a 1:a 2:b", f.state())
}

// A Pod that has ended waits for its hook as well.
func TestAnEndedPodWaitsForItsHook(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel, preDelete)
	f.end(corev1.PodFailed, 1)
	f.Rest()
	require.Equal(t, pub.LifecycleStatePreparingDelete, f.stateOf(1))
	f.release(1)
	f.Rest()
	require.Equal(t, "0 1", f.ordinals())
	require.Equal(t, corev1.PodRunning, f.Pod(name(1)).Status.Phase)
}

// The second batch of an update is not lost to a deletion that was not wanted in the end.
func TestAnUpdateGoesOnAfterADeletionThatWasTakenBack(t *testing.T) {
	f := newFixture(t)
	two := func(s *v1beta1.StatefulSet) {
		s.Spec.Template.Spec.Containers = append(s.Spec.Template.Spec.Containers, corev1.Container{
			Name: "side", Image: "s1", Env: []corev1.EnvVar{{Name: "KRUISE_CONTAINER_PRIORITY", Value: "10"}},
		})
	}
	f.start(2, parallel, inPlace, preDelete, two, unavailable("2"))
	f.Edit(image("b"), func(s *v1beta1.StatefulSet) { s.Spec.Template.Spec.Containers[1].Image = "s2-unready" })
	f.Rest()
	require.Equal(t, pub.LifecycleStateUpdating, f.stateOf(1))
	f.Edit(replicas(1))
	f.Rest()
	require.Equal(t, pub.LifecycleStatePreparingDelete, f.stateOf(1))
	f.Edit(replicas(2))
	f.Rest()
	for i := range 2 {
		f.EditPod(name(i), func(p *corev1.Pod) { p.Spec.Containers[1].Image = "s2" })
	}
	f.Rest()
	require.Equal(t, "0:b 1:b", f.state())
	require.Empty(t, f.lifecycle())
}

// Of several Pods that are to go the one whose deletion was begun goes first, whatever becomes of the others.
func TestADeletionThatWasBegunInOrderGoesOnBesideABrokenPod(t *testing.T) {
	f := newFixture(t)
	f.start(5, preDelete)
	f.Edit(replicas(3))
	f.Rest()
	require.Equal(t, held{name(4): pub.LifecycleStatePreparingDelete}, f.lifecycle())
	f.unready(3)
	f.release(4)
	f.Rest()
	require.Equal(t, held{name(3): pub.LifecycleStatePreparingDelete}, f.lifecycle())
	require.Equal(t, "0 1 2 3", f.ordinals())
}

func TestADeletionByAUserIsNotTakenBack(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel, preDelete)
	f.Edit(replicas(1))
	f.Rest()
	f.stick(1)
	f.Edit(replicas(2))
	f.Rest()
	require.Equal(t, pub.LifecycleStatePreparingDelete, f.stateOf(1))
}

// A Pod that is about to go is not what an update cannot do.
func TestAPodThatWaitsForItsDeletionIsNoProblem(t *testing.T) {
	f := newFixture(t)
	f.start(1, parallel, inPlace, inPlaceOnly, cpu("2"), preDelete)
	f.Edit(cpu("200"))
	f.Rest()
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
	f.markDelete(0)
	f.Rest()
	require.Equal(t, pub.LifecycleStatePreparingDelete, f.stateOf(0))
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
}

// A Pod that was never let to serve is not let by a deletion that is taken back.
func TestADeletionThatIsTakenBackLeavesTheFirstHookToItsPod(t *testing.T) {
	f := newFixture(t)
	f.create(2, parallel, func(s *v1beta1.StatefulSet) {
		s.Spec.Template.Labels[hook] = "true"
		s.Spec.Lifecycle = &pub.Lifecycle{
			PreNormal: &pub.LifecycleHook{LabelsHandler: map[string]string{"ok": "true"}},
			PreDelete: &pub.LifecycleHook{LabelsHandler: map[string]string{hook: "true"}},
		}
	})
	f.Rest()
	require.Equal(t, pub.LifecycleStatePreparingNormal, f.stateOf(1))
	for _, satisfied := range []bool{false, true} {
		state := pub.LifecycleStatePreparingNormal
		if satisfied {
			state = pub.LifecycleStateNormal
			f.EditPod(name(1), func(p *corev1.Pod) { p.Labels["ok"] = "true" })
		}
		f.Edit(replicas(1))
		f.Rest()
		require.Equal(t, pub.LifecycleStatePreparingDelete, f.stateOf(1))
		f.Edit(replicas(2))
		f.Rest()
		require.Equal(t, state, f.stateOf(1))
	}
}

// Another ordinal above it that is to go, too, does not hold up one whose deletion has begun.
func TestInOrderADeletionThatHasBegunComesFirst(t *testing.T) {
	f := newFixture(t)
	f.start(5, preDelete)
	f.Edit(reserve(3), replicas(4))
	f.Rest()
	require.Equal(t, held{"web-3": pub.LifecycleStatePreparingDelete}, f.lifecycle())
	f.Edit(replicas(3))
	f.Rest()
	require.Equal(t, held{"web-3": pub.LifecycleStatePreparingDelete}, f.lifecycle(), "one at a time")
	f.release(3)
	f.Rest()
	require.Equal(t, held{"web-4": pub.LifecycleStatePreparingDelete}, f.lifecycle())
	require.Equal(t, "0 1 2 4", f.ordinals())
}
