package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

func pod(labels map[string]string, finalizers ...string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Labels, p.Finalizers = labels, finalizers
	return p
}

func TestHooksHoldByAnyAndAreSatisfiedByAll(t *testing.T) {
	hook := &pub.LifecycleHook{LabelsHandler: map[string]string{"l": "true"}, FinalizersHandler: []string{"f"}}
	for name, c := range map[string]struct {
		pod         *corev1.Pod
		hooked, all bool
	}{
		"neither":       {pod(nil), false, false},
		"another value": {pod(map[string]string{"l": "false"}), false, false},
		"one label":     {pod(map[string]string{"l": "true"}), true, false},
		"one finalizer": {pod(nil, "x", "f"), true, false},
		"both":          {pod(map[string]string{"l": "true"}, "f"), true, true},
	} {
		require.Equal(t, c.hooked, Hooked(hook, c.pod), name)
		require.Equal(t, c.all, AllHooked(hook, c.pod), name)
	}
	require.False(t, Hooked(nil, pod(nil)))
	require.False(t, AllHooked(nil, pod(nil)))
	require.False(t, Hooked(&pub.LifecycleHook{}, pod(nil)))
	require.True(t, AllHooked(&pub.LifecycleHook{}, pod(nil)))
}

func TestTransitions(t *testing.T) {
	onNode := func(p *corev1.Pod) *corev1.Pod { p.Spec.NodeName = "n"; return p }
	hook := &pub.LifecycleHook{LabelsHandler: map[string]string{"l": "true"}}
	satisfied, open := map[string]string{"l": "true"}, map[string]string{}
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		facts Facts
		next  pub.LifecycleStateType
	}{
		"a new Pod without a node":          {pod(open), Facts{State: pub.LifecycleStatePreparingNormal}, pub.LifecycleStatePreparingNormal},
		"a new Pod with a node":             {onNode(pod(open)), Facts{State: pub.LifecycleStatePreparingNormal}, pub.LifecycleStateNormal},
		"46 a preNormal hook":               {onNode(pod(open)), Facts{State: pub.LifecycleStatePreparingNormal, Lifecycle: &pub.Lifecycle{PreNormal: hook}}, pub.LifecycleStatePreparingNormal},
		"46 a satisfied preNormal hook":     {pod(satisfied), Facts{State: pub.LifecycleStatePreparingNormal, Lifecycle: &pub.Lifecycle{PreNormal: hook}}, pub.LifecycleStateNormal},
		"an update under way":               {pod(open), Facts{State: pub.LifecycleStateUpdating}, pub.LifecycleStateUpdating},
		"61 an update that is done":         {pod(open), Facts{State: pub.LifecycleStateUpdating, Completed: true, Lifecycle: &pub.Lifecycle{PreDelete: hook}}, pub.LifecycleStateNormal},
		"48 an update that is done, hooked": {pod(open), Facts{State: pub.LifecycleStateUpdating, Completed: true, Lifecycle: &pub.Lifecycle{InPlaceUpdate: hook}}, pub.LifecycleStateUpdated},
		"48 updated and satisfied":          {pod(satisfied), Facts{State: pub.LifecycleStateUpdated, Lifecycle: &pub.Lifecycle{InPlaceUpdate: hook}}, pub.LifecycleStateNormal},
		"55 updated, the hook is gone":      {pod(open), Facts{State: pub.LifecycleStateUpdated}, pub.LifecycleStateNormal},
		"51 rolled back":                    {pod(satisfied), Facts{State: pub.LifecycleStatePreparingUpdate, AtTarget: true, Lifecycle: &pub.Lifecycle{InPlaceUpdate: hook}}, pub.LifecycleStateNormal},
		"52 not wanted any more":            {pod(open), Facts{State: pub.LifecycleStatePreparingUpdate, Unwanted: true, Lifecycle: &pub.Lifecycle{InPlaceUpdate: hook}}, pub.LifecycleStateUpdated},
		"waiting":                           {pod(open), Facts{State: pub.LifecycleStatePreparingUpdate}, pub.LifecycleStatePreparingUpdate},
		"being deleted":                     {pod(open), Facts{State: pub.LifecycleStatePreparingDelete, Completed: true, AtTarget: true}, pub.LifecycleStatePreparingDelete},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.next, Next(c.pod, c.facts)) })
	}
}

func TestStartingAnUpdate(t *testing.T) {
	hook := &pub.Lifecycle{InPlaceUpdate: &pub.LifecycleHook{LabelsHandler: map[string]string{"l": "true"}}}
	held, free := pod(map[string]string{"l": "true"}), pod(nil)
	require.Equal(t, Update, Start(free, pub.LifecycleStateNormal, hook))
	require.Equal(t, Prepare, Start(held, pub.LifecycleStateNormal, hook))
	require.Equal(t, Wait, Start(held, pub.LifecycleStatePreparingUpdate, hook))
	require.Equal(t, Update, Start(free, pub.LifecycleStatePreparingUpdate, hook))
	require.Equal(t, Update, Start(held, pub.LifecycleStateUpdating, hook))
	require.Equal(t, PrepareAgain, Start(free, pub.LifecycleStateUpdated, hook))
	require.Equal(t, Wait, Start(free, pub.LifecycleStateUpdated, nil))
	require.Equal(t, Wait, Start(free, pub.LifecycleStatePreparingDelete, hook))
}

func TestScenario60KeysOfOthersSurvive(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	p := pod(nil)
	p.Status.Conditions = []corev1.PodCondition{{Type: pub.KruisePodReady, Status: corev1.ConditionFalse,
		Message: `[{"userAgent":"ContainerRecreateRequest","key":"d/x"}]`}}
	held, changed := Hold(p, PreUpdateKey(), now)
	require.True(t, changed)
	require.Equal(t, `[{"userAgent":"ContainerRecreateRequest","key":"d/x"},{"userAgent":"Lifecycle","key":"preUpdateHook"}]`, held.Message)
	p.Status.Conditions[0] = held
	_, changed = Hold(p, PreUpdateKey(), now)
	require.False(t, changed)
	left, changed := Release(p, now, PreUpdateKey(), PreDeleteKey())
	require.True(t, changed)
	require.Equal(t, corev1.ConditionFalse, left.Status)
	require.Equal(t, `[{"userAgent":"ContainerRecreateRequest","key":"d/x"}]`, left.Message)

	created, changed := Hold(pod(nil), PreDeleteKey(), now)
	require.True(t, changed)
	require.Equal(t, corev1.ConditionFalse, created.Status, "59 a condition that did not exist")
}
