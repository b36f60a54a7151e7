package cloneset

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// The numbers are those of the scenarios of in-place update and lifecycle.

// hooked gives the set lifecycle hooks, and its template the labels and finalizers that hold Pods.
func hooked(l pub.Lifecycle) edit {
	return func(s *v1beta1.CloneSet) {
		s.Spec.Lifecycle = &l
		s.Spec.Template.Labels = map[string]string{"app": "web"}
		for _, h := range []*pub.LifecycleHook{l.PreDelete, l.InPlaceUpdate} {
			if h != nil {
				for k, v := range h.LabelsHandler {
					s.Spec.Template.Labels[k] = v
				}
				s.Spec.Template.Finalizers = append(s.Spec.Template.Finalizers, h.FinalizersHandler...)
			}
		}
	}
}

func byLabel(mark bool) *pub.LifecycleHook {
	return &pub.LifecycleHook{LabelsHandler: map[string]string{"hook": "true"}, MarkPodNotReady: mark}
}

// only is the set's one Pod.
func (f *fixture) only() *corev1.Pod {
	f.Helper()
	require.Len(f, f.Active(), 1)
	return f.Active()[0]
}

func (f *fixture) state() pub.LifecycleStateType { return pods.LifecycleState(f.only()) }

func (f *fixture) label(key, value string) {
	f.EditPod(f.only().Name, func(p *corev1.Pod) { p.Labels[key] = value })
	f.Rest()
}

func (f *fixture) imageOf() string { return f.only().Spec.Containers[0].Image }

func (f *fixture) notReadyKeys() string {
	if c := pods.Condition(f.only(), pub.KruisePodReady); c != nil {
		return string(c.Status) + " " + c.Message
	}
	return ""
}

func TestLifecycle46And47APodIsNormalWhenItsHookIsSatisfied(t *testing.T) {
	f := newFixture(t)
	f.start(1, hooked(pub.Lifecycle{PreNormal: &pub.LifecycleHook{LabelsHandler: map[string]string{"ok": "true"}}}))
	require.Equal(t, pub.LifecycleStatePreparingNormal, f.state())
	require.EqualValues(t, 1, f.Set().Status.ReadyReplicas)
	require.EqualValues(t, 0, f.Set().Status.AvailableReplicas)
	f.label("ok", "true")
	require.Equal(t, pub.LifecycleStateNormal, f.state())
	require.EqualValues(t, 1, f.Set().Status.AvailableReplicas)

	g := newFixture(t)
	g.start(1, hooked(pub.Lifecycle{PreNormal: &pub.LifecycleHook{LabelsHandler: map[string]string{"ok": "true"}, FinalizersHandler: []string{"example.com/f"}}}))
	g.EditPod(g.only().Name, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/f"} })
	g.Rest()
	require.Equal(t, pub.LifecycleStatePreparingNormal, g.state(), "both are needed")
	g.label("ok", "true")
	require.Equal(t, pub.LifecycleStateNormal, g.state())
}

func TestLifecycle48To51AnUpdateWaitsBeforeAndAfter(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlace, hooked(pub.Lifecycle{InPlaceUpdate: byLabel(false)}))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, pub.LifecycleStatePreparingUpdate, f.state())
	require.Equal(t, "a", f.imageOf())
	require.True(t, pods.IsConditionTrue(f.only(), pub.InPlaceUpdateReady))
	// 51: rolled back, the hook still being there in full.
	f.Edit(image("a"))
	f.Rest()
	require.Equal(t, pub.LifecycleStateNormal, f.state())
	f.Edit(image("b"))
	f.Rest()
	f.label("hook", "false")
	require.Equal(t, "b", f.imageOf())
	require.Equal(t, pub.LifecycleStateUpdated, f.state())
	require.EqualValues(t, 0, f.Set().Status.AvailableReplicas)
	// 50: a newer template puts the hook back.
	f.Edit(image("c"))
	f.Rest()
	require.Equal(t, pub.LifecycleStatePreparingUpdate, f.state())
	require.Equal(t, "true", f.only().Labels["hook"])
	require.Equal(t, "b", f.imageOf())
	f.label("hook", "false")
	require.Equal(t, "c", f.imageOf())
	f.label("hook", "true")
	require.Equal(t, pub.LifecycleStateNormal, f.state())
	require.EqualValues(t, 1, f.Set().Status.AvailableReplicas)

	// 51: rolled back when the hook is not there in full any more.
	f.Edit(image("d"))
	f.Rest()
	f.EditPod(f.only().Name, func(p *corev1.Pod) { p.Labels["hook"] = "gone" })
	f.Edit(image("c"))
	f.Rest()
	require.Equal(t, "c", f.imageOf())
	require.Contains(t, []pub.LifecycleStateType{pub.LifecycleStateUpdated}, f.state())
}

func TestLifecycle49AnyPartOfAHookHolds(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlace, hooked(pub.Lifecycle{InPlaceUpdate: &pub.LifecycleHook{
		LabelsHandler: map[string]string{"hook": "true"}, FinalizersHandler: []string{"example.com/f"},
	}}))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, pub.LifecycleStatePreparingUpdate, f.state())
	f.EditPod(f.only().Name, func(p *corev1.Pod) { p.Finalizers = nil })
	f.Rest()
	require.Equal(t, pub.LifecycleStatePreparingUpdate, f.state())
	f.label("hook", "false")
	require.Equal(t, "b", f.imageOf())
}

func TestLifecycle52APodThatIsNotWantedAnyMoreGoesBack(t *testing.T) {
	f := newFixture(t)
	f.start(2, inPlace, unavailable("1"), partition("1"), hooked(pub.Lifecycle{InPlaceUpdate: byLabel(true)}))
	f.Edit(image("b"))
	f.Rest()
	require.Len(t, f.inState(pub.LifecycleStatePreparingUpdate), 1)
	f.Edit(partition("2"))
	f.Rest()
	require.Empty(t, f.inState(pub.LifecycleStatePreparingUpdate))
	require.Equal(t, 2, f.Available(), "and is ready again")
	require.Equal(t, "2a", f.Images())
}

func TestLifecycle53And54ADeletionWaitsAndMayBeTakenBack(t *testing.T) {
	f := newFixture(t)
	f.start(1, hooked(pub.Lifecycle{PreDelete: &pub.LifecycleHook{FinalizersHandler: []string{"example.com/f"}}}))
	name := f.only().Name
	f.Edit(replicas(0))
	f.Rest()
	require.Equal(t, pub.LifecycleStatePreparingDelete, f.state())
	f.Edit(replicas(1))
	f.Rest()
	require.Equal(t, name, f.only().Name)
	require.Equal(t, pub.LifecycleStateNormal, f.state())
	f.Edit(replicas(0))
	f.Rest()
	f.EditPod(name, func(p *corev1.Pod) { p.Finalizers = nil })
	f.Rest()
	require.Empty(t, f.Active())
}

func TestLifecycle55AHookThatIsTakenOutOfTheSpecHoldsNobody(t *testing.T) {
	noHooks := func(s *v1beta1.CloneSet) { s.Spec.Lifecycle = nil }
	t.Run("before the update", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, inPlace, hooked(pub.Lifecycle{InPlaceUpdate: byLabel(false)}))
		f.Edit(image("b"))
		f.Rest()
		f.Edit(noHooks)
		f.Rest()
		require.Equal(t, "b", f.imageOf())
		require.Equal(t, pub.LifecycleStateNormal, f.state())
	})
	t.Run("after the update", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, inPlace, hooked(pub.Lifecycle{InPlaceUpdate: byLabel(false)}))
		f.Edit(image("b"))
		f.Rest()
		f.label("hook", "false")
		require.Equal(t, pub.LifecycleStateUpdated, f.state())
		f.Edit(noHooks)
		f.Rest()
		require.Equal(t, pub.LifecycleStateNormal, f.state())
	})
	t.Run("before the deletion", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, hooked(pub.Lifecycle{PreDelete: byLabel(false)}))
		f.Edit(replicas(0))
		f.Rest()
		require.Equal(t, pub.LifecycleStatePreparingDelete, f.state())
		f.Edit(noHooks)
		f.Rest()
		require.Empty(t, f.Active())
	})
}

const heldForUpdate = `False [{"userAgent":"Lifecycle","key":"preUpdateHook"}]`

func TestLifecycle56And57AHeldPodIsTakenOutOfItsServicesAndPutBack(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlace, hooked(pub.Lifecycle{InPlaceUpdate: byLabel(true)}))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, heldForUpdate, f.notReadyKeys())
	require.False(t, pods.IsConditionTrue(f.only(), corev1.PodReady))
	f.label("hook", "false")
	require.Equal(t, pub.LifecycleStateUpdated, f.state())
	require.Equal(t, "True []", f.notReadyKeys())

	// 57: the hook is satisfied before the update completes.
	g := newFixture(t)
	g.start(1, inPlace, hooked(pub.Lifecycle{InPlaceUpdate: byLabel(true)}))
	g.Edit(image("b"))
	g.Rest()
	g.EditPod(g.only().Name, func(p *corev1.Pod) { p.Labels["hook"] = "false" })
	g.ShowAll()
	_, err := g.Sync()
	require.NoError(t, err)
	require.Equal(t, pub.LifecycleStateUpdating, g.state())
	g.label("hook", "true")
	require.Equal(t, pub.LifecycleStateNormal, g.state())
	require.Equal(t, "True []", g.notReadyKeys())
	require.Equal(t, 1, g.Available())
}

func TestLifecycle58ARollbackWhileHeldPutsThePodBack(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlace, hooked(pub.Lifecycle{InPlaceUpdate: byLabel(true)}))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, heldForUpdate, f.notReadyKeys())
	f.Edit(image("a"))
	f.Rest()
	require.Equal(t, "True []", f.notReadyKeys())
	require.Equal(t, 1, f.Available())
}

func TestLifecycle59AHeldPodWithoutTheConditionGetsIt(t *testing.T) {
	f := newFixture(t)
	f.start(1, hooked(pub.Lifecycle{PreDelete: byLabel(true)}))
	f.EditPod(f.only().Name, func(p *corev1.Pod) {
		p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == pub.KruisePodReady })
	})
	f.Edit(replicas(0))
	f.Rest()
	require.Equal(t, `False [{"userAgent":"Lifecycle","key":"preDeleteHook"}]`, f.notReadyKeys())
}

func TestLifecycle60TheKeysOfOthersStay(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlace, hooked(pub.Lifecycle{InPlaceUpdate: byLabel(true)}))
	const theirs = `{"userAgent":"ContainerRecreateRequest","key":"default/x"}`
	f.EditPod(f.only().Name, func(p *corev1.Pod) {
		c := pods.Condition(p, pub.KruisePodReady)
		c.Status, c.Message = corev1.ConditionFalse, "["+theirs+"]"
	})
	f.Rest()
	require.Equal(t, "False ["+theirs+"]", f.notReadyKeys())
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "False ["+theirs+`,{"userAgent":"Lifecycle","key":"preUpdateHook"}]`, f.notReadyKeys())
	f.label("hook", "false")
	require.Equal(t, "b", f.imageOf())
	require.Equal(t, "False ["+theirs+"]", f.notReadyKeys())
}

func TestLifecycle61And62WithoutHooksNothingDependsOnAWebhook(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlace, hooked(pub.Lifecycle{PreDelete: byLabel(false)}))
	require.True(t, pods.HasGate(f.only(), pub.InPlaceUpdateReady) && pods.HasGate(f.only(), pub.KruisePodReady))
	require.Equal(t, 1, f.Available())
	var states []pub.LifecycleStateType
	f.Changed = func(_, after object) {
		if p, ok := after.(*corev1.Pod); ok && !slices.Contains(states, pods.LifecycleState(p)) {
			states = append(states, pods.LifecycleState(p))
		}
	}
	f.Edit(image("b"))
	f.Rest()
	require.NotContains(t, states, pub.LifecycleStateUpdated)
	require.Equal(t, pub.LifecycleStateNormal, f.state())
}

func TestLifecycleSeveralHooksAtOnce(t *testing.T) {
	f := newFixture(t)
	f.start(2, inPlace, unavailable("1"), hooked(pub.Lifecycle{
		PreDelete:     &pub.LifecycleHook{FinalizersHandler: []string{"example.com/drain"}},
		InPlaceUpdate: byLabel(true),
		PreNormal:     &pub.LifecycleHook{LabelsHandler: map[string]string{"warm": "yes"}},
	}))
	for _, name := range f.Names() {
		f.EditPod(name, func(p *corev1.Pod) { p.Labels["warm"] = "yes" })
	}
	f.Rest()
	require.Equal(t, 2, f.Available())
	f.Edit(image("b"))
	for range 2 {
		f.Rest()
		held := f.inState(pub.LifecycleStatePreparingUpdate)
		require.Len(t, held, 1)
		f.EditPod(held[0], func(p *corev1.Pod) { p.Labels["hook"] = "off" })
		f.Rest()
		f.EditPod(held[0], func(p *corev1.Pod) { p.Labels["hook"] = "true" })
	}
	f.Rest()
	require.Equal(t, "2b", f.Images())
	require.Equal(t, 2, f.Available())
	f.Edit(replicas(1))
	f.Rest()
	require.Len(t, f.inState(pub.LifecycleStatePreparingDelete), 1)
}

func TestTheBestOfThePodsThatLeaveAreKept(t *testing.T) {
	for worse := range 2 {
		f := newFixture(t)
		f.start(5, preDelete)
		f.Edit(replicas(3))
		f.Rest()
		leaving := f.inState(pub.LifecycleStatePreparingDelete)
		require.Len(t, leaving, 2)
		f.EditPod(leaving[worse], func(p *corev1.Pod) { p.Annotations[corev1.PodDeletionCost] = "-100" })
		f.Edit(replicas(4))
		f.Pass()
		require.Equal(t, []string{leaving[worse]}, f.inState(pub.LifecycleStatePreparingDelete))
	}
}

func TestAPreparedPodIsUpdatedBesideARevisionThatDoesNotWork(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace, unavailable("2"), hooked(pub.Lifecycle{InPlaceUpdate: byLabel(false)}))
	f.Edit(image("unready"))
	f.Rest()
	held := f.inState(pub.LifecycleStatePreparingUpdate)
	require.Len(t, held, 2)
	unhook := func(name string) {
		f.EditPod(name, func(p *corev1.Pod) { p.Labels["hook"] = "false" })
		f.Rest()
	}
	unhook(held[0])
	f.Edit(unavailable("1"))
	f.Rest()
	unhook(held[1])
	require.Equal(t, "1a2unready", f.Images())
}

func TestAPreparationOutlivesAPause(t *testing.T) {
	for name, halt := range map[string]edit{
		"paused":   paused(true),
		"OnDelete": func(s *v1beta1.CloneSet) { s.Spec.UpdateStrategy.Type = v1beta1.OnDeleteCloneSetUpdateStrategyType },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(1, inPlace, unavailable("1"), hooked(pub.Lifecycle{InPlaceUpdate: byLabel(false)}))
			f.Edit(image("b"))
			f.Rest()
			require.Equal(t, pub.LifecycleStatePreparingUpdate, f.state())
			f.Edit(halt, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
				r.PodUpdatePolicy = v1beta1.ReCreateCloneSetPodUpdatePolicyType
			}))
			f.Rest()
			require.Equal(t, pub.LifecycleStatePreparingUpdate, f.state())
		})
	}
}

func TestARaisedPartitionTakesBackAsManyDeletionsAsItLacks(t *testing.T) {
	f := newFixture(t)
	f.start(4, preDelete, unavailable("2"))
	f.Edit(image("b"))
	f.Rest()
	require.Len(t, f.inState(pub.LifecycleStatePreparingDelete), 2)
	f.Edit(partition("3"))
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	require.Len(t, f.inState(pub.LifecycleStatePreparingDelete), 1)
}

// The second scale-in begins while Pods of the first still leave.
func TestASecondScaleInDuringADrainSparesThePartition(t *testing.T) {
	f := newFixture(t)
	f.start(6, preDelete, unavailable("6"), partition("2"))
	f.Edit(image("b"))
	for range 20 {
		f.Rest()
		for _, n := range f.inState(pub.LifecycleStatePreparingDelete) {
			f.release(n)
		}
	}
	require.Equal(t, "2a4b", f.Images())
	f.Edit(partition("1"), replicas(5), paused(true))
	f.Rest()
	f.Edit(replicas(4))
	f.Rest()
	for _, n := range f.inState(pub.LifecycleStatePreparingDelete) {
		f.release(n)
	}
	f.Rest()
	require.Equal(t, "1a3b", f.Images())
}

// waits is what the conditions say that the set waits for; both that say that it is on its way say the same.
func (f *fixture) waits() string {
	f.Helper()
	ready, onTheWay := f.conditionOf(v1beta1.CloneSetConditionReady), f.conditionOf(v1beta1.CloneSetConditionReconciling)
	require.Equal(f, ready.Message, onTheWay.Message)
	require.NotEqual(f, ready.Status, onTheWay.Status)
	require.Equal(f, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)
	if ready.Message != "" {
		require.Equal(f, corev1.ConditionFalse, ready.Status)
		require.Equal(f, workload.ReasonReconciling, ready.Reason)
	}
	return ready.Message
}

func TestASetSaysWhichHookItWaitsFor(t *testing.T) {
	t.Run("before deletions", func(t *testing.T) {
		f := newFixture(t)
		f.start(3, preDelete)
		require.Empty(t, f.waits())
		f.Edit(replicas(1))
		f.Rest()
		held := f.inState(pub.LifecycleStatePreparingDelete)
		slices.Sort(held)
		require.Len(t, held, 2)
		require.Equal(t, "Pod "+held[0]+" is PreparingDelete: it waits for the preDelete hook (and 1 more)", f.waits())
		f.release(held[0])
		f.Rest()
		require.Equal(t, "Pod "+held[1]+" is PreparingDelete: it waits for the preDelete hook", f.waits())
		f.release(held[1])
		f.Rest()
		require.Empty(t, f.waits())
	})
	t.Run("before and after an update", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, inPlace, hooked(pub.Lifecycle{InPlaceUpdate: byLabel(false)}))
		f.Edit(image("b"))
		f.Rest()
		require.Equal(t, "Pod "+f.only().Name+" is PreparingUpdate: it waits for the inPlaceUpdate hook", f.waits())
		f.label("hook", "false")
		f.Rest()
		require.Equal(t, "Pod "+f.only().Name+" is Updated: it waits for the inPlaceUpdate hook", f.waits())
		f.label("hook", "true")
		f.Rest()
		require.Empty(t, f.waits())
	})
	t.Run("before it serves", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, hooked(pub.Lifecycle{PreNormal: byLabel(false)}))
		f.label("hook", "false")
		f.EditPod(f.only().Name, func(p *corev1.Pod) { p.Labels[pub.LifecycleStateKey] = string(pub.LifecycleStatePreparingNormal) })
		f.Rest()
		require.Equal(t, "Pod "+f.only().Name+" is PreparingNormal: it waits for the preNormal hook", f.waits())
		f.label("hook", "true")
		f.Rest()
		require.Empty(t, f.waits())
	})
}

func TestAStalledSetSaysWhyItIsNotReady(t *testing.T) {
	f := newFixture(t)
	f.start(2, deadline(60))
	f.Edit(image("b"), func(s *v1beta1.CloneSet) { s.Spec.MinReadySeconds = 3600 })
	f.Live(30 * time.Minute)
	stalled := f.conditionOf(v1beta1.CloneSetConditionStalled)
	require.Equal(t, corev1.ConditionTrue, stalled.Status)
	require.NotEmpty(t, stalled.Message)
	require.Equal(t, stalled.Message, f.conditionOf(v1beta1.CloneSetConditionReady).Message)
	require.Empty(t, f.conditionOf(v1beta1.CloneSetConditionReconciling).Message)
}
