package statefulset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// waits is what the conditions say that the set waits for; both that say that it is on its way say the same.
func (f *fixture) waits() string {
	f.Helper()
	ready, onTheWay := f.conditionOf(v1beta1.StatefulSetConditionReady), f.conditionOf(v1beta1.StatefulSetConditionReconciling)
	require.Equal(f, ready.Message, onTheWay.Message)
	require.NotEqual(f, ready.Status, onTheWay.Status)
	require.Equal(f, corev1.ConditionFalse, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
	if ready.Message != "" {
		require.Equal(f, corev1.ConditionFalse, ready.Status)
		require.Equal(f, workload.ReasonReconciling, ready.Reason)
	}
	return ready.Message
}

func (f *fixture) foreign(ordinal int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name(ordinal), Namespace: namespace, UID: "foreign"}}
}

func TestASetSaysWhoseNameItWaitsFor(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		f := newFixture(t)
		f.start(1, policy)
		require.Empty(t, f.waits())
		f.Put(modelcluster.Pods, f.foreign(1))
		f.Edit(replicas(3))
		f.Rest()
		require.Contains(t, f.waits(), "Pod web-1 cannot be created: a Pod that does not belong to the set has its name")
		require.NotContains(t, f.waits(), "more")
		require.NotEqual(t, corev1.ConditionTrue, f.conditionOf(v1beta1.FailedCreatePod).Status, "it is no failure")
		require.NotContains(t, strings.Join(f.Events, "\n"), "Warning")
		f.Remove(modelcluster.Pods, namespace+"/"+name(1))
		f.Live(0)
		require.NotNil(t, f.Pod(name(1)))
		require.Empty(t, f.waits())
	})
}

// The caches may show it only after the creation: then its event is what wakes the set.
func TestASetSaysWhoseNameItWaitsForWhenThatIsSeen(t *testing.T) {
	f := newFixture(t)
	f.create(2, parallel)
	f.ShowAll()
	f.Put(modelcluster.Pods, f.foreign(0))
	_, err := f.Sync()
	require.NoError(t, err)
	f.Live(0)
	require.Contains(t, f.waits(), "Pod web-0 cannot be created")
}

func TestASetSaysWhichClaimItWaitsFor(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		f := newFixture(t)
		f.start(3, policy, claimTemplate("www", "1Gi"), retain("Retain", "Delete"))
		f.EditClaim("www-web-1", func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name(1), UID: "gone"}}
		})
		f.Remove(modelcluster.Pods, namespace+"/"+name(1))
		f.Rest()
		require.Contains(t, f.waits(), "Pod web-1 cannot be created before claim www-web-1 is gone")
		f.Remove(modelcluster.Claims, namespace+"/www-web-1")
		f.Live(0)
		require.NotNil(t, f.Pod(name(1)))
		require.Empty(t, f.waits())
	})
}

func TestASetSaysWhichHookItWaitsFor(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		t.Run("before a deletion", func(t *testing.T) {
			f := newFixture(t)
			f.start(4, policy, preDelete)
			require.Empty(t, f.waits())
			f.Edit(replicas(2))
			f.Rest()
			first, second := "Pod web-3 is PreparingDelete: it waits for the preDelete hook", "Pod web-2 is PreparingDelete: it waits for the preDelete hook"
			if isOrdered(&f.Set().Spec) {
				require.Equal(t, first, f.waits())
			} else {
				require.Equal(t, first+" (and 1 more)", f.waits())
			}
			f.release(3)
			f.Rest()
			require.Equal(t, second, f.waits())
			f.release(2)
			f.Rest()
			require.Empty(t, f.waits())
		})
		t.Run("before and after an update", func(t *testing.T) {
			f := newFixture(t)
			f.start(1, policy, preUpdate)
			f.Edit(image("b"))
			f.Rest()
			require.Equal(t, "Pod web-0 is PreparingUpdate: it waits for the inPlaceUpdate hook", f.waits())
			f.release(0)
			f.sync()
			require.Empty(t, f.waits(), "its hook has let it go")
			f.Rest()
			require.Equal(t, "Pod web-0 is Updated: it waits for the inPlaceUpdate hook", f.waits())
			f.satisfy(0)
			f.sync()
			require.Empty(t, f.waits())
		})
		t.Run("before it serves", func(t *testing.T) {
			f := newFixture(t)
			f.start(1, policy, preNormal)
			require.Equal(t, "Pod web-0 is PreparingNormal: it waits for the preNormal hook", f.waits())
			f.label(0, "h", "true")
			f.sync()
			require.Empty(t, f.waits())
		})
	})
}

// What goes on by itself is not told: a Pod that is adopted, one that ends, one whose hook has let it go.
func TestASetDoesNotSayWhatGoesOnByItself(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel, preDelete)
	f.EditPod(name(1), func(p *corev1.Pod) { p.OwnerReferences = nil })
	f.sync()
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.StatefulSetConditionReady).Status)
	require.Empty(t, f.waits(), "it is adopted")
	f.Rest()

	f.Edit(replicas(1))
	f.Rest()
	require.NotEmpty(t, f.waits())
	f.EditPod(name(1), func(p *corev1.Pod) { p.Finalizers = []string{"example.com/stuck"} })
	f.release(1)
	f.sync()
	require.Empty(t, f.waits(), "its hook has let it go")
	f.satisfy(1)
	f.sync()
	require.Equal(t, "1", f.terminating())
	require.Empty(t, f.waits(), "it is terminating")
}

func TestASetThatGoesWaitsForNothing(t *testing.T) {
	f := newFixture(t)
	f.start(1, parallel)
	f.Put(modelcluster.Pods, f.foreign(1))
	f.Edit(replicas(2))
	f.Rest()
	require.NotEmpty(t, f.waits())
	f.Edit(func(s *v1beta1.StatefulSet) {
		s.Finalizers = []string{"foregroundDeletion"}
		s.DeletionTimestamp = &metav1.Time{Time: f.Clock.Now()}
	})
	f.Rest()
	require.Empty(t, f.waits())
}
