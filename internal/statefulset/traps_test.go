package statefulset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// What users of StatefulSets are known to get stuck with.

func TestTrapAFirstRevisionThatNeverStarts(t *testing.T) {
	for _, bad := range []string{"broken", "crashes", "unready"} {
		f := newFixture(t)
		f.create(1, parallel, image(bad))
		f.Rest()
		f.Edit(image("b"))
		f.Rest()
		require.Equal(t, "0:b", f.state(), bad)
		require.Equal(t, 1, f.Available())
	}
}

func TestTrapOthersAreNotTouchedBeforeABrokenPodIsMended(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.Edit(image("broken"))
	f.Rest()
	f.Edit(image("c"))
	require.Equal(t, []string{
		"0:a 1:a 2:broken", "0:a 1:a", "0:a 1:a 2:c", "0:a 2:c", "0:a 1:c 2:c", "1:c 2:c", "0:c 1:c 2:c",
	}, f.states())
}

func TestTrapAStuckPodHoldsUpNoReplacement(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel)
	f.EditPod(name(0), func(p *corev1.Pod) { p.Finalizers = []string{"x/stuck"} })
	f.DeletePod(name(0))
	f.Remove("pods", namespace+"/"+name(2))
	f.Rest()
	require.Equal(t, "0", f.terminating())
	require.Equal(t, "1 2", f.ordinals())
}

func TestTrapAMinimalSetGetsItsPods(t *testing.T) {
	f := newFixture(t)
	f.Edit(func(s *v1beta1.StatefulSet) {
		s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		s.Spec.ServiceName = "nginx"
		s.Spec.Template.Labels = map[string]string{"app": "web"}
		s.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "a"}}
	})
	f.Rest()
	require.Equal(t, "0:a", f.state())
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "0:b", f.state())
}

func TestTrapABrokenPodUsesUpTheBudget(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, unavailable("1"))
	f.unready(0)
	f.Edit(image("b"))
	f.sync()
	require.Equal(t, "1:a 2:a", f.state(), "the one that does not work goes first")
	f.Settle()
	f.sync()
	require.Equal(t, "0:b 1:a 2:a", f.state(), "no other goes before it works")
	f.Rest()
	require.Equal(t, "0:b 1:b 2:b", f.state())
}

// The same where the partition keeps the Pod that does not work: the update does not touch it, and waits for it.
func TestTrapABrokenPodBelowThePartitionUsesUpTheBudget(t *testing.T) {
	for n, policy := range map[string]edit{"anew": parallel, "in place": both(parallel, inPlace), "OrderedReady": func(*v1beta1.StatefulSet) {}} {
		t.Run(n, func(t *testing.T) {
			begin := func() *fixture {
				f := newFixture(t)
				f.start(3, policy, unavailable("1"), partition(1))
				f.unready(0)
				f.Edit(image("b"))
				f.Rest()
				require.Equal(t, "0:a 1:a 2:a", f.state(), "Pod 2 is not touched before Pod 0 works")
				require.Zero(t, f.Writes["delete pods"])
				require.Zero(t, f.Set().Status.UpdatedReplicas)
				return f
			}
			t.Run("until it is repaired", func(t *testing.T) {
				f := begin()
				f.ready(0)
				f.Watch()
				f.Rest()
				require.Equal(t, "0:a 1:b 2:b", f.state())
				require.GreaterOrEqual(t, f.Fewest, 2)
			})
			t.Run("until it is replaced", func(t *testing.T) {
				f := begin()
				f.DeletePod(name(0))
				f.Settle()
				f.sync()
				require.Equal(t, "0:a 1:a 2:a", f.state(), "it comes back as it was")
				f.Settle()
				f.Watch()
				f.Rest()
				require.Equal(t, "0:a 1:b 2:b", f.state())
				require.GreaterOrEqual(t, f.Fewest, 2)
			})
		})
	}
}

func TestTrapAPodThatEndsInACanaryComesBackAsItWas(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.start(3, policy, partition(2))
		f.Edit(image("b"))
		f.Rest()
		f.end(corev1.PodSucceeded, 0)
		f.Rest()
		require.Equal(t, "0:a 1:a 2:b", f.state())
	}
}

func TestTrapTwoBrokenPodsAreReplacedWithinTheBudget(t *testing.T) {
	f := newFixture(t)
	f.start(5, parallel, unavailable("2"))
	f.unready(1, 3)
	f.Edit(image("b"))
	f.sync()
	require.Equal(t, "0:a 2:a 4:a", f.state())
	f.Settle()
	f.Watch()
	f.Rest()
	require.GreaterOrEqual(t, f.Fewest, 3)
	require.Equal(t, "0:b 1:b 2:b 3:b 4:b", f.state())
}

func TestTrapAReservationGoesAndItsClaimAlone(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, reserve(3, 4, 5), claimTemplate("www", "1Gi"), retain("Retain", "Delete"))
	f.Edit(reserve(4, 5))
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
	f.Edit(reserve(1))
	f.Rest()
	require.Equal(t, "0 2 3", f.ordinals())
	require.Equal(t, "0 2 3", f.claimNames())
}

func TestTrapACrashLoopScalesToZero(t *testing.T) {
	f := newFixture(t)
	f.create(1, image("crashes"))
	f.Rest()
	f.Edit(replicas(0))
	f.Rest()
	require.Empty(t, f.Active())
	f = newFixture(t)
	f.create(3, parallel, image("crashes"))
	f.Rest()
	f.Edit(replicas(0))
	f.Rest()
	require.Empty(t, f.Active())
}

func TestTrapABadEntryNeverEmptiesTheList(t *testing.T) {
	for _, bad := range []string{"bad", "5-3", "", "-1"} {
		f := newFixture(t)
		f.start(3, parallel, reserve(1))
		f.Edit(reserve(1, bad))
		f.Rest()
		require.Equal(t, "0 2 3", f.ordinals(), bad)
		require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.FailedUpdatePod).Status)
		f.Edit(reserve(1))
		f.Rest()
		require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.FailedUpdatePod).Status, "and the condition goes")
		require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
	}
}

// One foreign Pod that the caches do not show yet: no failure is told, and the others are made.
func TestANameThatIsTakenUnseen(t *testing.T) {
	f := newFixture(t)
	f.create(3, parallel)
	f.ShowAll()
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name(0), Namespace: namespace, UID: "foreign"}}
	f.Put("pods", foreign)
	_, err := f.Sync()
	require.NoError(t, err)
	require.NotContains(t, f.Events, "FailedCreate")
	require.Len(t, f.Active(), 2)
	require.NotEqual(t, corev1.ConditionTrue, f.conditionOf(v1beta1.FailedCreatePod).Status)
	f.Remove("pods", namespace+"/"+name(0))
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
}

func TestASetBesideOneWhoseNameBeginsAlike(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel)
	other := f.Pod(name(1)).DeepCopy()
	other.Name, other.UID, other.OwnerReferences = "web-1-0", "other", nil
	f.Put("pods", other)
	f.Rest()
	require.Nil(t, metav1.GetControllerOf(f.Pod("web-1-0")))
	require.Equal(t, "0 1", f.ordinals())
}

// A Pod of the older API version stays with its set.
func TestAnOwnerIsKnownByItsUID(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel)
	uid := f.Pod(name(1)).UID
	f.EditPod(name(1), func(p *corev1.Pod) {
		p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1"
		delete(p.Labels, "apps.kubernetes.io/pod-index")
	})
	before := f.Total()
	f.Rest()
	require.Equal(t, before, f.Total())
	f.Edit(replicas(1))
	f.Rest()
	require.Nil(t, f.Pod(name(1)), uid)
}

// The Pods of such a selector do not match it, and would be let go as soon as they are made: each keeps its name, and nobody
// ends it.
func TestASelectorThatAsksForOurOwnLabelsMakesNoPods(t *testing.T) {
	for _, key := range []string{
		pub.LifecycleStateKey, pub.ControllerRevisionHashKey, "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
	} {
		f := newFixture(t)
		f.create(2, parallel, func(s *v1beta1.StatefulSet) {
			s.Spec.Selector.MatchLabels[key] = "mine"
			s.Spec.Template.Labels[key] = "mine"
		})
		for range 5 {
			f.Live(time.Minute)
		}
		require.Empty(t, f.Pods(), key)
		c := f.conditionOf(v1beta1.StatefulSetConditionStalled)
		require.Equal(t, corev1.ConditionTrue, c.Status)
		require.Equal(t, workload.ReasonInvalidSelector, c.Reason)
		require.Contains(t, c.Message, key)
	}
}

func TestASelectorMayAskWhetherOurOwnLabelsAreThere(t *testing.T) {
	f := newFixture(t)
	f.create(2, parallel, func(s *v1beta1.StatefulSet) {
		s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{
			{Key: pub.ControllerRevisionHashKey, Operator: metav1.LabelSelectorOpExists},
		}
		s.Spec.Template.Labels[pub.ControllerRevisionHashKey] = "any"
	})
	f.Rest()
	require.Equal(t, "0:a 1:a", f.state())
}

// What it owns is deleted before it is gone; what was made anew would hold that up.
func TestASetThatIsBeingDeletedMakesNoRevision(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.Apply(func(o modelcluster.Object) {
		o.SetFinalizers([]string{"foregroundDeletion"})
		o.SetDeletionTimestamp(&metav1.Time{Time: f.Clock.Now()})
	})
	f.Rest()
	for key := range f.Objects[modelcluster.Revisions] {
		f.Remove(modelcluster.Revisions, key)
	}
	before, status := f.Changes(), f.Set().Status
	f.Rest()
	require.Equal(t, before, f.Changes())
	f.DeletePod(name(1))
	f.Settle()
	f.Rest()
	require.Equal(t, "0 2", f.ordinals())
	require.EqualValues(t, 2, f.Set().Status.Replicas, "what is left of it is still counted")
	require.Equal(t, status.UpdateRevision, f.Set().Status.UpdateRevision)
}
