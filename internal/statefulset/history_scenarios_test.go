package statefulset

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

func (f *fixture) revisions() map[string]int64 {
	out := map[string]int64{}
	for _, o := range f.Objects["controllerrevisions"] {
		r := o.(*appsv1.ControllerRevision)
		out[r.Name] = r.Revision
	}
	return out
}

func TestScenario107ATemplateThatIsSetBack(t *testing.T) {
	f := newFixture(t)
	f.start(1)
	var names []string
	for _, i := range []string{"a", "b", "c"} {
		f.Edit(image(i))
		f.Rest()
		names = append(names, f.Set().Status.UpdateRevision)
	}
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, names[1], f.Set().Status.UpdateRevision)
	require.Equal(t, map[string]int64{names[0]: 1, names[1]: 4, names[2]: 3}, f.revisions())
}

func TestScenario108TheHistoryIsLimited(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		f := newFixture(t)
		f.start(2, policy, func(s *v1beta1.StatefulSet) { s.Spec.RevisionHistoryLimit = ptr.To(int32(2)) })
		most := 0
		for i := range 8 {
			f.Edit(image(fmt.Sprintf("i%d", i)))
			for before := -1; before != f.Changes(); {
				before = f.Changes()
				f.sync()
				most = max(most, len(f.revisions()))
				f.Settle()
			}
			require.LessOrEqual(t, most, 4, "two of the rollout, and two more")
			require.LessOrEqual(t, len(f.revisions()), 3)
		}
		require.Equal(t, 4, most)
	})
}

func TestScenario109APromotionWaitsForAllPods(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.Edit(image("b"))
	for range 100 {
		f.sync()
		s := f.Set().Status
		if s.CurrentRevision == s.UpdateRevision {
			break
		}
		f.Settle()
	}
	require.Equal(t, "0:b 1:b 2:b", f.state())
	require.EqualValues(t, 3, f.Set().Status.ReadyReplicas)
	require.EqualValues(t, 3, f.Set().Status.CurrentReplicas)
}

func TestScenario109APromotionWaitsUntilAllPodsAreReady(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		f := newFixture(t)
		f.start(3, policy)
		f.Edit(image("b"))
		for f.state() != "1:b 2:b" {
			f.Pass()
		}
		isPromoted := func() bool { return f.Set().Status.CurrentRevision == f.Set().Status.UpdateRevision }
		f.sync()
		f.sync()
		require.Equal(t, "0:b 1:b 2:b", f.state())
		require.EqualValues(t, []int32{3, 3, 2}, []int32{f.Set().Status.Replicas, f.Set().Status.UpdatedReplicas, f.Set().Status.ReadyReplicas})
		require.False(t, isPromoted(), "the last Pod is not ready")
		f.Settle()
		f.sync()
		require.True(t, isPromoted())
	})
}

func TestScenario110ACanarySurvivesScalingToZero(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.start(3, policy, partition(2))
		f.Edit(image("b"))
		f.Rest()
		f.Edit(replicas(0))
		f.Rest()
		require.Empty(t, f.state())
		f.Edit(replicas(3))
		f.Rest()
		require.Equal(t, "0:a 1:a 2:b", f.state())
	}
}

func TestScenario111ARevisionOfAnotherSerialisation(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	for key, o := range f.Objects["controllerrevisions"] {
		r := o.DeepCopyObject().(*appsv1.ControllerRevision)
		var tree map[string]any
		require.NoError(t, json.Unmarshal(r.Data.Raw, &tree))
		template := tree["spec"].(map[string]any)["template"].(map[string]any)
		template["metadata"].(map[string]any)["creationTimestamp"] = nil
		raw, err := json.MarshalIndent(tree, "", " ")
		require.NoError(t, err)
		r.Data.Raw = raw
		f.Put("controllerrevisions", r)
		require.Contains(t, key, r.Name)
	}
	f.Restart()
	f.Edit(replicas(4))
	f.Rest()
	require.Len(t, f.revisions(), 1)
	require.Zero(t, f.Writes["delete pods"])
	require.Equal(t, "0:a 1:a 2:a 3:a", f.state())
}

func TestScenario113And114PodsAreReleasedAndAdopted(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	uid := f.Pod("web-0").UID
	f.EditPod("web-0", func(p *corev1.Pod) { p.OwnerReferences = nil })
	f.Rest()
	require.Len(t, f.Pod("web-0").OwnerReferences, 1)
	require.Equal(t, "0 1", f.ordinals())

	f.EditPod("web-0", func(p *corev1.Pod) { p.Labels["app"] = "debug" })
	f.Rest()
	require.Empty(t, f.Pod("web-0").OwnerReferences)
	require.Equal(t, "1", f.ordinals())
	require.NotContains(t, strings.Join(f.Events, "\n"), "Warning")

	f.Live(0)
	_, set := f.Alarm.Next()
	require.False(t, set, "nothing else would wake the set")
	f.EditPod("web-0", func(p *corev1.Pod) { p.Labels["app"] = "web" })
	f.ShowAll()
	f.Live(time.Second)
	require.Equal(t, "0 1", f.ordinals(), "the event is enough")
	require.Equal(t, uid, f.Pod("web-0").UID)
}

func TestTheNameOfAPodIsHeldBySomebodyElse(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel)
	f.EditPod("web-0", func(p *corev1.Pod) { p.Labels["app"] = "debug" })
	f.Rest()
	f.Edit(replicas(4))
	f.Rest()
	require.Equal(t, "1 2 3", f.ordinals())
	f.Remove("pods", namespace+"/web-0")
	f.Live(0)
	require.Equal(t, "0 1 2 3", f.ordinals())
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	for _, e := range []edit{func(*v1beta1.StatefulSet) {}, both(parallel, inPlace, claimTemplate("www", "1Gi"), retain("Delete", "Delete"))} {
		f := newFixture(t)
		f.start(3, e)
		f.Edit(image("b"))
		f.Rest()
		before := f.Total()
		for range 5 {
			f.sync()
		}
		require.Equal(t, before, f.Total())
	}
}

// The floors of the number of writes: a Pod is one write and one for its gate, its recreation one more for the deletion, its
// update in place three.
func TestNoMoreWritesThanNeeded(t *testing.T) {
	f := newFixture(t)
	f.start(10, parallel, inPlace, unavailable("2"))
	require.Equal(t, 10, f.Writes["create pods"])
	require.Equal(t, 10, f.Writes["patch/status pods"]+f.Writes["patch pods"])
	clear(f.Writes)
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, 30, f.Writes["patch/status pods"]+f.Writes["patch pods"])
	clear(f.Writes)
	f.Edit(func(s *v1beta1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "x", Value: "y"}}
	})
	f.Rest()
	require.Equal(t, [2]int{10, 10}, [2]int{f.Writes["create pods"], f.Writes["delete pods"]})
	require.Equal(t, 10, f.Writes["patch/status pods"]+f.Writes["patch pods"])
}

// What the garbage collector has released is to outlive the set.
func TestASetThatGoesAdoptsNoRevision(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	for _, o := range f.Objects["controllerrevisions"] {
		c := o.DeepCopyObject().(modelcluster.Object)
		c.SetOwnerReferences(nil)
		f.Put("controllerrevisions", c)
	}
	f.Edit(func(s *v1beta1.StatefulSet) {
		s.Finalizers = []string{"orphan"}
		now := metav1.NewTime(f.Clock.Now())
		s.DeletionTimestamp = &now
	})
	clear(f.Writes)
	f.Rest()
	require.Zero(t, f.Writes["patch controllerrevisions"])
}

func TestAPodWithAPaddedOrdinalStandsInForNone(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel)
	p := f.Pod(name(1)).DeepCopy()
	p.Name, p.UID, p.OwnerReferences = "web-01", "stray", nil
	f.Put("pods", p)
	f.Remove("pods", namespace+"/web-1")
	f.Rest()
	require.Equal(t, []string{"web-0", "web-1"}, f.Names())
}

func TestRevisionsOfNobodyAreAdopted(t *testing.T) {
	f := newFixture(t)
	f.start(3, partition(2))
	f.Edit(image("b"))
	f.Rest()
	for _, o := range f.Objects[modelcluster.Revisions] {
		r := o.(*appsv1.ControllerRevision).DeepCopy()
		r.OwnerReferences = nil
		f.Put(modelcluster.Revisions, r)
	}
	f.Rest()
	require.Len(t, f.Objects[modelcluster.Revisions], 2)
	for _, o := range f.Objects[modelcluster.Revisions] {
		require.True(t, metav1.IsControlledBy(o, f.Set()), o.GetName())
	}
}

// Beside Pods that are not wanted any more, as many as are wanted can be updated, or ready.
func TestAPromotionWaitsForPodsThatAreToGo(t *testing.T) {
	for n, serves := range map[string]bool{"one that serves": true, "one that does not": false} {
		t.Run(n, func(t *testing.T) {
			f := newFixture(t)
			f.start(4, parallel)
			f.stick(3)
			f.Edit(replicas(3), image("b"))
			f.Rest()
			if !serves {
				f.breakDown(3)
				f.Rest()
			}
			s := f.Set().Status
			require.Equal(t, "0:b 1:b 2:b", f.state())
			require.Equal(t, "3", f.terminating())
			require.EqualValues(t, []int32{4, 3}, []int32{s.Replicas, s.UpdatedReplicas})
			require.NotEqual(t, s.CurrentRevision, s.UpdateRevision)
			f.EditPod(name(3), func(p *corev1.Pod) { p.Finalizers = nil })
			f.Settle()
			f.Rest()
			require.Equal(t, f.Set().Status.CurrentRevision, f.Set().Status.UpdateRevision)
		})
	}
}

// breakDown makes a Pod that goes unready: the kubelet of the model leaves it as it is.
func (f *fixture) breakDown(ordinal int) {
	f.EditPod(name(ordinal), func(p *corev1.Pod) {
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
				c.Status = corev1.ConditionFalse
			}
		}
	})
}

func TestPodsThatWereJustTakenDownAreNotCounted(t *testing.T) {
	for n, policy := range map[string]edit{"by deletion": func(*v1beta1.StatefulSet) {}, "in place": inPlace} {
		t.Run(n, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, policy)
			f.Edit(image("b"))
			f.sync()
			require.EqualValues(t, 2, f.Set().Status.CurrentReplicas)
		})
	}
}

func TestPodsThatAreNotReadyAreNotCountedAsUpdatedAndReady(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel)
	f.unready(1)
	f.Rest()
	require.EqualValues(t, 1, f.Set().Status.UpdatedReadyReplicas)
}

func TestUpdatedPodsAreAvailableAfterMinReadySeconds(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, unavailable("3"), partition(1), minReady(60))
	f.Wait(2 * time.Minute)
	f.Edit(image("b"))
	f.Rest()
	check := func(updatedReady, updatedAvailable, available int32) {
		t.Helper()
		s := f.Set().Status
		require.Equal(t, []int32{updatedReady, updatedAvailable, available}, []int32{s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas, s.AvailableReplicas})
	}
	check(2, 0, 1)
	f.Wait(2 * time.Minute)
	f.Rest()
	check(2, 2, 3)
}

func TestCollisionsOfRevisionNamesAreCounted(t *testing.T) {
	f := newFixture(t)
	f.start(1)
	require.Equal(t, ptr.To(int32(0)), f.Set().Status.CollisionCount, "always written")
	f.Edit(image("b"))
	f.Rest()
	name := f.Set().Status.UpdateRevision

	f = newFixture(t)
	f.start(1)
	f.Put(modelcluster.Revisions, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: "other"},
		Data:       runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"spec":{"containers":[]}}}}`)},
	})
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "0:b", f.state())
	require.Equal(t, ptr.To(int32(1)), f.Set().Status.CollisionCount)
	require.NotEqual(t, name, f.Set().Status.UpdateRevision)
	f.Restart()
	f.Edit(image("c"))
	f.Rest()
	require.Equal(t, ptr.To(int32(1)), f.Set().Status.CollisionCount, "it is kept")
}

func TestAPromotionMakesRoomInTheHistory(t *testing.T) {
	f := newFixture(t)
	f.create(1, func(s *v1beta1.StatefulSet) { s.Spec.RevisionHistoryLimit = ptr.To(int32(0)) })
	f.Live(time.Hour)
	f.Edit(image("b"))
	f.Live(time.Hour)
	require.Len(t, f.revisions(), 1)
}

func TestLabelsOfAPodThatGoesAreLeftAsTheyAre(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel)
	f.stick(1)
	f.EditPod(name(1), func(p *corev1.Pod) { delete(p.Labels, appsv1.StatefulSetPodNameLabel) })
	f.Rest()
	require.NotContains(t, f.Pod(name(1)).Labels, appsv1.StatefulSetPodNameLabel)
}
