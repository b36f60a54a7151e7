package statefulset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

func TestACreationThatIsRefusedIsTriedLaterAndLater(t *testing.T) {
	for n, policy := range map[string]edit{"OrderedReady": func(*v1beta1.StatefulSet) {}, "Parallel": parallel} {
		t.Run(n, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, policy)
			f.Refuse("create", modelcluster.Pods, nil)
			f.Edit(replicas(4))
			f.Live(time.Minute)
			before := f.Writes["create pods"]
			f.Live(10 * time.Minute)
			require.InDelta(t, 10, f.Writes["create pods"]-before, 2, "once a minute by now")
		})
	}
}

// hold keeps a claim that somebody has deleted.
func (f *fixture) hold(claim string) {
	f.EditClaim(claim, func(c *corev1.PersistentVolumeClaim) {
		now := metav1.NewTime(f.Clock.Now())
		c.Finalizers, c.DeletionTimestamp = []string{"example.com/backup"}, &now
	})
}

func TestAPodThatCannotBeCreatedHoldsUpNoOther(t *testing.T) {
	for n, obstruct := range map[string]func(*fixture){
		"the API server refuses it": func(f *fixture) {
			f.Refuse("create", modelcluster.Pods, func(pod string) bool { return pod != name(0) })
		},
		"its claim is about to go": func(f *fixture) { f.hold("www-web-0") },
	} {
		t.Run(n, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, parallel, claimTemplate("www", "1Gi"))
			obstruct(f)
			f.Remove(modelcluster.Pods, namespace+"/"+name(0))
			f.Live(5 * time.Minute)
			require.Equal(t, "1 2", f.ordinals())
			require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.FailedCreatePod).Status)
			f.Remove(modelcluster.Pods, namespace+"/"+name(2))
			f.sync()
			require.Equal(t, "1 2", f.ordinals())
		})
	}
}

func TestAPodIsMadeAsSoonAsItsClaimIsGone(t *testing.T) {
	f := newFixture(t)
	f.start(1, claimTemplate("www", "1Gi"))
	f.hold("www-web-0")
	f.Remove(modelcluster.Pods, namespace+"/"+name(0))
	f.Live(5 * time.Minute)
	require.Nil(t, f.Pod(name(0)))
	f.Remove(modelcluster.Claims, namespace+"/www-web-0")
	f.sync()
	require.NotNil(t, f.Pod(name(0)))
	f.Rest()
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.FailedCreatePod).Status)
}

func TestARevisionThatCannotBeReadHoldsUpOnlyItsOwnPods(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, partition(1))
	f.Edit(image("b"))
	f.Rest()
	current := f.Objects[modelcluster.Revisions][namespace+"/"+f.Set().Status.CurrentRevision].(*appsv1.ControllerRevision).DeepCopy()
	current.Data.Raw = []byte(`{"spec":7}`)
	f.Put(modelcluster.Revisions, current)
	for i := range 3 {
		f.Remove(modelcluster.Pods, namespace+"/"+name(i))
	}
	f.Live(time.Minute)
	require.Equal(t, "1:b 2:b", f.state())
	require.Contains(t, f.conditionOf(v1beta1.FailedCreatePod).Message, current.Name)
}

// What an update cannot do it still cannot while it is another Pod's turn; another spec is another matter.
func TestAProblemIsToldOnceAndStays(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace, inPlaceOnly)
	command := func(words ...string) edit {
		return func(s *v1beta1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Command = words }
	}
	f.Edit(command("x"))
	f.Rest()
	check := func(problem corev1.ConditionStatus) {
		t.Helper()
		require.Equal(t, problem, f.conditionOf(v1beta1.FailedUpdatePod).Status)
		require.Equal(t, problem, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
	}
	check(corev1.ConditionTrue)
	told := len(f.Events)
	for range 3 {
		f.unready(0)
		f.Rest()
		check(corev1.ConditionTrue)
		f.ready(0)
		f.Rest()
		check(corev1.ConditionTrue)
	}
	require.Len(t, f.Events, told)
	f.unready(0)
	f.Edit(command())
	f.Rest()
	check(corev1.ConditionFalse)
}

func TestASetThatIsStalledIsNotReady(t *testing.T) {
	f := newFixture(t)
	f.start(2, inPlace, inPlaceOnly)
	f.Edit(claimTemplate("logs", "1Gi"))
	f.Rest()
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.StatefulSetConditionReady).Status)
}

func TestPodsOfASpecThatIsWrongAreCounted(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel)
	f.Edit(reserve("bad"))
	f.Remove(modelcluster.Pods, namespace+"/"+name(2))
	f.Rest()
	s := f.Set().Status
	require.Equal(t, []int32{2, 2, 2, 2, 2, 2}, []int32{
		s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas, s.UpdatedAvailableReplicas,
	})
}

func TestNegativeReplicasAreNoReasonToTouchAPod(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	f.Edit(replicas(-1))
	f.Rest()
	require.Equal(t, "0 1", f.ordinals())
	require.Contains(t, f.conditionOf(v1beta1.StatefulSetConditionStalled).Message, "spec.replicas: -1")
}

func TestFailuresOfManyPodsAtOnceAreRemembered(t *testing.T) {
	f := newFixture(t)
	f.start(8, parallel, inPlace, unavailable("8"))
	f.controller.parallel = 8
	f.Refuse("patch", modelcluster.Pods, nil)
	f.Edit(image("b"))
	f.ShowAll()
	after, err := f.Sync()
	require.Error(t, err)
	require.Positive(t, after)
}

func TestAPodThatRefusesToBeAdoptedHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel)
	f.EditPod(name(2), func(p *corev1.Pod) { p.OwnerReferences = nil })
	f.Refuse("patch", modelcluster.Pods, func(pod string) bool { return pod != name(2) })
	f.Live(time.Second)
	f.Remove(modelcluster.Pods, namespace+"/"+name(1))
	f.Live(30 * time.Second)
	require.NotNil(t, f.Pod(name(1)))
}
