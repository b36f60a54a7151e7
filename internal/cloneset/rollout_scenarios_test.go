package cloneset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/history"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

func TestScenario41OnePodAtATime(t *testing.T) {
	f := newFixture(t)
	f.start(5)
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "5b", f.Images())
	require.Equal(t, 4, f.Fewest)
	require.Equal(t, 5, f.Most)
	require.Equal(t, f.Set().Status.UpdateRevision, f.Set().Status.CurrentRevision)
}

func deadline(seconds int32) edit {
	return func(s *v1beta1.CloneSet) { s.Spec.ProgressDeadlineSeconds = &seconds }
}

func TestScenarios42To45APartitionHolds(t *testing.T) {
	canary := func(t *testing.T) *fixture {
		f := newFixture(t)
		f.start(5, unavailable("2"), partition("3"), deadline(600))
		f.Edit(image("b"))
		f.Rest()
		require.Equal(t, "3a2b", f.Images())
		return f
	}
	t.Run("42", func(t *testing.T) {
		f := canary(t)
		s := f.Set().Status
		require.EqualValues(t, 2, s.ExpectedUpdatedReplicas)
		require.EqualValues(t, 2, s.UpdatedReplicas)
		require.NotEqual(t, s.UpdateRevision, s.CurrentRevision)
		require.Equal(t, ReasonPartitionAvailable, f.conditionOf("Progressing").Reason)
		require.Equal(t, corev1.ConditionTrue, f.conditionOf("Ready").Status)
	})
	t.Run("43 lost Pods come back at their revision", func(t *testing.T) {
		f := canary(t)
		for _, lost := range [][]string{{"a"}, {"b"}, {"a", "b"}} {
			for _, i := range lost {
				f.DeletePod(f.WithImage(i))
			}
			f.Rest()
			require.Equal(t, "3a2b", f.Images())
		}
	})
	t.Run("44 a higher partition takes no Pod back", func(t *testing.T) {
		f := canary(t)
		f.Edit(partition("4"))
		f.Rest()
		require.Equal(t, "3a2b", f.Images())
		f.DeletePod(f.WithImage("b"))
		f.Rest()
		require.Equal(t, "4a1b", f.Images())
	})
	t.Run("45 a third revision", func(t *testing.T) {
		f := canary(t)
		f.Edit(image("c"))
		f.Rest()
		require.Equal(t, 2, strings.Count(fmt.Sprint(f.imageList()), "c"))
		require.Len(t, f.Active(), 5)
	})
}

func (f *fixture) imageList() []string {
	var out []string
	for _, p := range f.Active() {
		out = append(out, p.Spec.Containers[0].Image)
	}
	return out
}

func TestScenarios46To49Surge(t *testing.T) {
	for name, c := range map[string]struct {
		replicas                      int32
		unavailable, surge, partition string
		fewest, most                  int
		ends                          string
	}{
		"46":                 {5, "1", "1", "3", 4, 6, "3a2b"},
		"47":                 {4, "0", "1", "0", 4, 5, "4b"},
		"48":                 {10, "20%", "30%", "0", 8, 13, "10b"},
		"49 a single Pod":    {1, "20%", "0", "0", 0, 1, "1b"},
		"surge of the whole": {4, "0", "100%", "0", 4, 8, "4b"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(c.replicas, unavailable(c.unavailable), surge(c.surge), partition(c.partition))
			f.Edit(image("b"))
			f.Rest()
			require.Equal(t, c.ends, f.Images())
			require.GreaterOrEqual(t, f.Fewest, c.fewest)
			require.LessOrEqual(t, f.Most, c.most)
		})
	}
}

func preDelete(s *v1beta1.CloneSet) {
	s.Spec.Template.Labels["hold"] = "true"
	s.Spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{LabelsHandler: map[string]string{"hold": "true"}}}
}

func (f *fixture) release(name string) {
	f.EditPod(name, func(p *corev1.Pod) { delete(p.Labels, "hold") })
}

func (f *fixture) inState(state pub.LifecycleStateType) []string {
	var out []string
	for _, p := range f.Active() {
		if pods.LifecycleState(p) == state {
			out = append(out, p.Name)
		}
	}
	return out
}

func TestScenario50AWithdrawnRolloutDeletesNothing(t *testing.T) {
	f := newFixture(t)
	f.start(5, unavailable("2"), preDelete)
	names := f.Names()
	f.Edit(image("b"))
	f.Rest()
	require.Len(t, f.inState(pub.LifecycleStatePreparingDelete), 2)
	f.Edit(image("a"))
	f.Rest()
	require.Equal(t, names, f.Names())
	require.Len(t, f.inState(pub.LifecycleStateNormal), 5)
	for _, p := range f.Active() {
		require.NotContains(t, p.Labels, pub.SpecifiedDeleteKey)
	}
}

func TestScenario51AHookHoldsThePodThatIsToBeRecreated(t *testing.T) {
	f := newFixture(t)
	f.start(5, unavailable("1"), preDelete)
	f.Edit(image("b"))
	f.Rest()
	held := f.inState(pub.LifecycleStatePreparingDelete)
	require.Len(t, held, 1)
	require.Equal(t, "5a", f.Images())
	f.release(held[0])
	f.Rest()
	require.Equal(t, "4a1b", f.Images(), "the next one is held")

	f.Edit(func(s *v1beta1.CloneSet) { s.Spec.ScaleStrategy.ExcludePreparingDelete = true })
	f.Rest()
	require.Equal(t, "4a5b", f.Images(), "a held Pod is replaced at once, and so the next one can be held")
	require.GreaterOrEqual(t, f.Fewest, 4)
}

func TestScenario37To38ScaleInWithAHook(t *testing.T) {
	f := newFixture(t)
	f.start(5, preDelete)
	f.Edit(replicas(3))
	f.Rest()
	require.Len(t, f.inState(pub.LifecycleStatePreparingDelete), 2)
	require.Len(t, f.Active(), 5)
	f.Edit(replicas(4))
	f.Rest()
	held := f.inState(pub.LifecycleStatePreparingDelete)
	require.Len(t, held, 1)
	f.Edit(replicas(2))
	f.Rest()
	require.Len(t, f.inState(pub.LifecycleStatePreparingDelete), 3)
	for _, name := range f.inState(pub.LifecycleStatePreparingDelete) {
		f.release(name)
	}
	f.Rest()
	require.Len(t, f.Active(), 2)
}

func TestScenario52ABrokenRevisionStopsAndTheNextOneReplacesItFirst(t *testing.T) {
	f := newFixture(t)
	f.start(5, unavailable("2"))
	f.Edit(image("broken"))
	f.Rest()
	require.Equal(t, "3a2broken", f.Images())
	f.Edit(image("c"))
	f.Watch()
	f.Rest()
	require.Equal(t, "5c", f.Images())
	require.GreaterOrEqual(t, f.Fewest, 3)
}

func TestScenario53BrokenOldPodsGoOneAtATime(t *testing.T) {
	f := newFixture(t)
	f.start(3, unavailable("1"), image("broken"))
	f.Edit(image("broken-too"))
	f.Rest()
	require.Equal(t, "2broken1broken-too", f.Images())
}

func uids(list []*corev1.Pod) []string {
	var out []string
	for _, p := range list {
		out = append(out, string(p.UID))
	}
	slices.Sort(out)
	return out
}

func TestScenario54AnInPlaceRolloutKeepsThePods(t *testing.T) {
	f := newFixture(t)
	f.start(5, unavailable("2"), partition("2"), inPlace)
	before := uids(f.Active())
	f.Edit(image("b"))
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	updating := f.inState(pub.LifecycleStateUpdating)
	require.Len(t, updating, 2)
	for _, p := range f.Active() {
		if slices.Contains(updating, p.Name) {
			require.Equal(t, pub.ReasonStartInPlaceUpdate, pods.Condition(p, pub.InPlaceUpdateReady).Reason)
			require.False(t, pods.IsConditionTrue(p, corev1.PodReady))
		}
	}
	f.Rest()
	require.Equal(t, "2a3b", f.Images())
	require.GreaterOrEqual(t, f.Fewest, 3)
	require.Equal(t, before, uids(f.Active()))
	f.Edit(partition("0"))
	f.Rest()
	require.Equal(t, "5b", f.Images())
	require.Equal(t, before, uids(f.Active()))
	require.Equal(t, f.Set().Status.UpdateRevision, f.Set().Status.CurrentRevision)
	require.Equal(t, 5, f.Writes["patch pods"])
	require.Equal(t, 15, f.Writes["patch/status pods"], "5 at creation, then one to close and one to open the gate of each")
}

func TestScenario55ASurgeMakesTheInPlaceRolloutWider(t *testing.T) {
	f := newFixture(t)
	f.start(5, unavailable("1"), surge("2"), inPlace)
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "5b", f.Images())
	require.Equal(t, 7, f.Most)
	require.GreaterOrEqual(t, f.Fewest, 4)
}

func TestScenario56ARollbackMeetsPodsInFlight(t *testing.T) {
	f := newFixture(t)
	f.start(3, unavailable("2"), inPlace)
	names := f.Names()
	f.Edit(image("b"))
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	require.Equal(t, "1a2b", f.Images())
	f.Edit(image("a"))
	f.ShowAll()
	_, err = f.Sync()
	require.NoError(t, err)
	require.Equal(t, "3a", f.Images())
	f.Rest()
	require.Equal(t, names, f.Names())
	require.EqualValues(t, 3, f.revisionNumbers()[f.Set().Status.UpdateRevision])
	require.Len(t, f.inState(pub.LifecycleStateNormal), 3)
}

func TestScenario57WhatCannotBeDoneInPlaceIsRecreated(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace)
	names := f.Names()
	f.Edit(func(s *v1beta1.CloneSet) {
		s.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	})
	f.Rest()
	require.Len(t, f.Active(), 3)
	for _, n := range f.Names() {
		require.NotContains(t, names, n)
	}
}

func TestInPlaceOnlyReportsWhatItCannotDoAndTouchesNothing(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.PodUpdatePolicy = v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType
	}))
	before := f.Names()
	f.Edit(func(s *v1beta1.CloneSet) {
		s.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	})
	f.Rest()
	require.Equal(t, before, f.Names())
	c := f.conditionOf(v1beta1.CloneSetConditionFailedUpdate)
	require.Equal(t, ReasonInPlaceImpossible, c.Reason)
	require.Contains(t, c.Message, "env")
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)

	f.Edit(func(s *v1beta1.CloneSet) { s.Spec.Template.Spec.Containers[0].Env = nil })
	f.Rest()
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
}

func TestScenario59APodThatIsBrokenAnywayDoesNotWaitForTheBudget(t *testing.T) {
	f := newFixture(t)
	f.start(3, unavailable("1"), rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.PriorityStrategy = &pub.UpdatePriorityStrategy{WeightPriority: []pub.UpdatePriorityWeightTerm{
			{Weight: 50, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"first": "yes"}}},
		}}
	}))
	for _, n := range f.Names()[1:] {
		f.EditPod(n, func(p *corev1.Pod) { p.Labels["first"] = "yes" })
	}
	f.breakPod(f.Names()[0])
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "3b", f.Images())
}

func TestScenario60OnePodsErrorDoesNotStopTheOthers(t *testing.T) {
	f := newFixture(t)
	f.start(3, unavailable("3"), inPlace)
	bad := f.Names()[1]
	f.Before = func(verb, resource, name string) error {
		if name == bad && verb == "patch" {
			return apierrors.NewInternalError(fmt.Errorf("no"))
		}
		return nil
	}
	f.Edit(image("b"))
	f.ShowAll()
	_, err := f.Sync()
	require.Error(t, err)
	require.Equal(t, "1a2b", f.Images())
	require.Equal(t, corev1.ConditionTrue, f.conditionOf("FailedUpdate").Status)
	f.Before = nil
	f.Wait(workload.FirstRetry)
	f.Rest()
	require.Equal(t, "3b", f.Images())
	require.Equal(t, corev1.ConditionFalse, f.conditionOf("FailedUpdate").Status)
}

func TestScenario61PercentPartitions(t *testing.T) {
	for _, c := range []struct {
		replicas  int32
		partition string
		updated   int
	}{{4, "99%", 1}, {1, "50%", 0}, {3, "100%", 0}, {10, "1%", 9}, {10, "0%", 10}, {3, "33.3%", 2}} {
		t.Run(fmt.Sprint(c.replicas, c.partition), func(t *testing.T) {
			f := newFixture(t)
			f.start(c.replicas, partition(c.partition), inPlace, unavailable("100%"))
			f.Edit(image("b"))
			f.Rest()
			require.Equal(t, c.updated, strings.Count(fmt.Sprint(f.imageList()), "b"))
		})
	}
}

func TestScenario62AChangeOfLabelsReachesThePodsWithoutARestart(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace)
	names, gates := f.Names(), f.Writes["patch/status pods"]
	f.Edit(func(s *v1beta1.CloneSet) { s.Spec.Template.Labels = map[string]string{"app": "web", "new": "label"} })
	f.Rest()
	require.Equal(t, names, f.Names())
	for _, p := range f.Active() {
		require.Equal(t, "label", p.Labels["new"])
		require.True(t, pods.AtRevision(p, f.Set().Status.UpdateRevision))
	}
	require.Equal(t, 3, f.Fewest)
	require.Equal(t, gates, f.Writes["patch/status pods"])
}

func TestScenarios63And64Paused(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.Edit(paused(true), image("b"))
	for _, c := range []struct {
		replicas int32
		images   string
	}{{5, "3a2b"}, {4, "2a2b"}, {1, "1b"}} {
		f.Edit(replicas(c.replicas))
		f.Rest()
		require.Equal(t, c.images, f.Images())
	}

	f = newFixture(t)
	f.start(5, unavailable("2"), inPlace)
	f.Edit(image("b"))
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	f.Edit(paused(true))
	f.Rest()
	require.Equal(t, "3a2b", f.Images())
	require.Equal(t, 5, f.Available())
	f.Edit(paused(false))
	f.Rest()
	require.Equal(t, "5b", f.Images())
}

func TestScenario65PausingUndoesTheSurge(t *testing.T) {
	f := newFixture(t)
	f.start(5, surge("3"), unavailable("0"))
	f.Edit(image("b"))
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	require.Equal(t, "5a3b", f.Images())
	f.Edit(paused(true))
	f.Rest()
	require.Equal(t, "5a", f.Images())
}

func TestScenario66OnDelete(t *testing.T) {
	f := newFixture(t)
	f.start(5, onDelete, deadline(600))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "5a", f.Images())
	f.DeletePod(f.WithImage("a"))
	f.Rest()
	f.DeletePod(f.WithImage("a"))
	f.Rest()
	require.Equal(t, "3a2b", f.Images())
	f.Edit(replicas(3))
	f.Rest()
	require.Equal(t, "1a2b", f.Images())
	f.Edit(replicas(5))
	f.Rest()
	require.Equal(t, "1a4b", f.Images())
	f.DeletePod(f.WithImage("a"))
	f.Rest()
	require.Equal(t, "5b", f.Images())
	require.Equal(t, ReasonAvailable, f.conditionOf("Progressing").Reason)
}

func TestScenario67OnDeleteScalesInOldPodsFirst(t *testing.T) {
	for n, want := range map[int32]string{6: "1a5b", 4: "4b"} {
		f := newFixture(t)
		f.start(3, onDelete)
		f.Edit(image("b"), replicas(8))
		f.Rest()
		require.Equal(t, "3a5b", f.Images())
		f.Edit(replicas(n))
		f.Rest()
		require.Equal(t, want, f.Images())
	}
}

func TestScenarios73To75Claims(t *testing.T) {
	reuse := func(s *v1beta1.CloneSet) { s.Spec.ScaleStrategy.EnablePVCReuse = true }
	t.Run("73 with reuse the new Pod has the name and the claim of the old one", func(t *testing.T) {
		f := newFixture(t)
		f.start(2, claimTemplate, reuse)
		names := f.Names()
		f.Remove(resourcePods, namespace+"/"+names[0])
		f.Rest()
		require.Equal(t, names, f.Names())
		require.Len(t, f.Objects[resourceClaims], 2)
	})
	t.Run("74 without it the claim goes with the Pod", func(t *testing.T) {
		f := newFixture(t)
		f.start(2, claimTemplate)
		lost := f.Names()[0]
		f.EditPod(lost, func(p *corev1.Pod) { p.Finalizers = []string{"hold/on"} })
		f.DeletePod(lost)
		f.Rest()
		require.Len(t, f.Objects[resourceClaims], 3)
		claim := f.Objects[resourceClaims][namespace+"/data-"+lost]
		require.Equal(t, "Pod", metav1.GetControllerOf(claim).Kind)
		require.NotContains(t, f.Names(), lost)
	})
	t.Run("75 recreation starts with new claims", func(t *testing.T) {
		for _, edits := range [][]edit{{claimTemplate}, {claimTemplate, reuse}} {
			f := newFixture(t)
			f.start(2, edits...)
			names := f.Names()
			f.Edit(image("b"))
			f.Rest()
			require.Len(t, f.Objects[resourceClaims], 2)
			for _, n := range names {
				require.NotContains(t, f.Objects[resourceClaims], namespace+"/data-"+n)
			}
		}
	})
	t.Run("76 the place of an evicted Pod is taken with its claim", func(t *testing.T) {
		f := newFixture(t)
		f.start(2, claimTemplate, reuse)
		lost := f.Names()[0]
		f.EditPod(lost, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		f.Rest()
		require.Contains(t, f.Names(), lost)
		require.Len(t, f.Objects[resourceClaims], 2)
		require.Len(t, f.Pods(), 2)
	})
}

func TestScenario86LifecycleStatesCountAsReadyButNotAsAvailable(t *testing.T) {
	f := newFixture(t)
	f.start(1)
	f.EditPod(f.Names()[0], func(p *corev1.Pod) { p.Labels[pub.LifecycleStateKey] = "PreparingDelete" })
	f.Set().Spec.Lifecycle = nil
	r := f.Objects[resourceRevisions][namespace+"/"+f.Set().Status.UpdateRevision].(*appsv1.ControllerRevision)
	s := &Snapshot{Set: f.Set(), Pods: f.Active(), History: history.History{Update: r, Current: r}}
	status, _ := s.Status(Outcome{}, "", f.Clock.Now())
	require.EqualValues(t, 1, status.ReadyReplicas)
	require.EqualValues(t, 0, status.AvailableReplicas)
}

func TestScenarios88To92TheProgressDeadline(t *testing.T) {
	f := newFixture(t)
	f.start(10, unavailable("1"), deadline(60))
	f.Edit(image("b"))
	for range 40 {
		f.Pass()
		f.Wait(10 * time.Second)
		require.NotEqual(t, ReasonDeadlineExceeded, f.conditionOf("Progressing").Reason)
	}
	require.Equal(t, ReasonAvailable, f.conditionOf("Progressing").Reason)

	f.Edit(image("broken"))
	f.Rest()
	f.Wait(62 * time.Second)
	f.Rest()
	c := f.conditionOf("Progressing")
	require.Equal(t, corev1.ConditionFalse, c.Status)
	require.Equal(t, "CloneSet revision "+f.Set().Status.UpdateRevision+" has timed out progressing", c.Message)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf("Stalled").Status)

	f.Edit(image("c"))
	f.Pass()
	require.Equal(t, ReasonUpdated, f.conditionOf("Progressing").Reason, "a new revision ends it")
	f.Rest()
	require.Equal(t, ReasonAvailable, f.conditionOf("Progressing").Reason)

	f.Edit(func(s *v1beta1.CloneSet) { s.Spec.ProgressDeadlineSeconds = nil })
	f.Rest()
	require.Empty(t, f.conditionOf("Progressing").Reason)
}

func TestScenario89ADeadlineThatPassedIsForgottenOnceThePodsAreThere(t *testing.T) {
	f := newFixture(t)
	f.start(1, deadline(8))
	f.Edit(image("b"), func(s *v1beta1.CloneSet) { s.Spec.Template.Labels["unschedulable"] = "yes" })
	f.Live(20 * time.Second)
	c := f.conditionOf("Progressing")
	require.Equal(t, corev1.ConditionFalse, c.Status)
	require.Equal(t, ReasonDeadlineExceeded, c.Reason)
	require.Contains(t, c.Message, f.Set().Status.UpdateRevision)
	f.EditPod(f.Names()[0], func(p *corev1.Pod) { delete(p.Labels, "unschedulable") })
	f.Live(20 * time.Second)
	c = f.conditionOf("Progressing")
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Equal(t, ReasonAvailable, c.Reason)
}

func TestScenario91APauseRestartsTheClock(t *testing.T) {
	f := newFixture(t)
	f.start(5, deadline(60))
	f.Edit(image("b"), paused(true))
	f.Live(5 * time.Minute)
	require.Equal(t, ReasonPaused, f.conditionOf("Progressing").Reason)
	f.Edit(paused(false))
	f.Pass()
	c := f.conditionOf("Progressing")
	require.Equal(t, ReasonUpdated, c.Reason)
	require.WithinDuration(t, f.Clock.Now(), c.LastUpdateTime.Time, time.Second)
}

func TestScenario93ACanarySurvivesScalingToZero(t *testing.T) {
	f := newFixture(t)
	f.start(3, partition("2"))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "2a1b", f.Images())
	f.Edit(replicas(0))
	f.Rest()
	f.Edit(replicas(3))
	f.Rest()
	require.Equal(t, "2a1b", f.Images())
}

func TestScenario94WithoutPodsTheRolloutIsDone(t *testing.T) {
	f := newFixture(t)
	f.start(0)
	f.Edit(image("b"))
	f.Rest()
	s := f.Set().Status
	require.Equal(t, s.UpdateRevision, s.CurrentRevision)
	require.EqualValues(t, 0, s.ExpectedUpdatedReplicas)
}

func TestScenario95ConflictsShowInNoCondition(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace)
	once := map[string]bool{}
	f.Before = func(verb, resource, name string) error {
		if strings.HasPrefix(verb, "patch") && !once[verb+resource] {
			once[verb+resource] = true
			return apierrors.NewConflict(v1beta1.Resource(resource), name, fmt.Errorf("changed"))
		}
		return nil
	}
	f.Edit(image("b"))
	for range 50 {
		f.ShowAll()
		// A conflict is retried.
		if _, err := f.Sync(); err != nil {
			require.True(t, kube.IsPassing(err), err)
		}
		f.Settle()
	}
	require.Equal(t, "3b", f.Images())
	require.Empty(t, f.conditionOf("FailedUpdate").Type)
	require.Empty(t, f.conditionOf("FailedScale").Type)
}

func TestScenario96ConditionsForGenericTools(t *testing.T) {
	f := newFixture(t)
	f.create(3)
	f.Pass()
	require.Equal(t, corev1.ConditionTrue, f.conditionOf("Reconciling").Status)
	f.Rest()
	require.Equal(t, corev1.ConditionTrue, f.conditionOf("Ready").Status)
	require.Equal(t, corev1.ConditionFalse, f.conditionOf("Reconciling").Status)
	require.Equal(t, corev1.ConditionFalse, f.conditionOf("Stalled").Status)
}

func TestASpecThatIsCorrectedGoesOnAtOnce(t *testing.T) {
	for name, bad := range map[string]edit{
		"selector":  func(s *v1beta1.CloneSet) { s.Spec.Template.Labels = map[string]string{"app": "other"} },
		"partition": rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Partition = ptr.To(intstr.FromString("abc")) }),
		"type":      func(s *v1beta1.CloneSet) { s.Spec.UpdateStrategy.Type = "Blue" },
		"policy":    rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.PodUpdatePolicy = "Never" }),
		"expression": func(s *v1beta1.CloneSet) {
			s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(2)
			good := f.Set().Spec
			writes := f.Writes["delete pods"] + f.Writes["patch pods"] + f.Writes["create pods"]
			f.Edit(replicas(4), image("b"), bad)
			f.Rest()
			require.Equal(t, corev1.ConditionTrue, f.conditionOf("Stalled").Status)
			require.Contains(t, f.conditionOf("Stalled").Message, "spec.")
			require.Equal(t, writes, f.Writes["delete pods"]+f.Writes["patch pods"]+f.Writes["create pods"])
			warnings := 0
			for _, e := range f.Events {
				if strings.HasPrefix(e, "Warning Invalid") {
					warnings++
				}
			}
			require.Equal(t, 1, warnings)
			f.Edit(func(s *v1beta1.CloneSet) { s.Spec = good }, replicas(4), image("b"))
			f.Rest()
			require.Equal(t, "4b", f.Images())
			require.Equal(t, corev1.ConditionFalse, f.conditionOf("Stalled").Status)
		})
	}
}
