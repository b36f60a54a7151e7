package statefulset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

// Whoever waits for Ready with the generation of a change relies on the change being carried out by then.

func (f *fixture) isReadyNow() bool {
	f.Helper()
	require.Equal(f, f.Set().Generation, f.Set().Status.ObservedGeneration)
	return f.conditionOf(v1beta1.StatefulSetConditionReady).Status == corev1.ConditionTrue
}

func TestASetIsNotReadyWhileAWantedPodIsMissing(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.Put(modelcluster.Pods, f.foreign(3))
	f.Edit(reserve(1))
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals(), "3 cannot be made, so that 1 stays")
	require.False(t, f.isReadyNow())
	require.Contains(t, f.waits(), "Pod web-3 cannot be created")
	f.Remove(modelcluster.Pods, namespace+"/"+name(3))
	f.Live(0)
	f.Rest()
	require.Equal(t, "0 2 3", f.ordinals())
	require.True(t, f.isReadyNow())
}

func TestASetIsNotReadyBeforeItsOrdinalsHaveMoved(t *testing.T) {
	for what, edits := range map[string][]edit{"in order": nil, "parallel": {parallel}, "parallel, with a hook": {parallel, preDelete}} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, edits...)
			f.Edit(start(1))
			f.sync()
			require.False(t, f.isReadyNow())
			f.Rest()
			if len(edits) == 2 {
				require.False(t, f.isReadyNow(), "0 is still there")
				f.release(0)
				f.Rest()
			}
			require.Equal(t, "1 2 3", f.ordinals())
			require.True(t, f.isReadyNow())
		})
	}
}

func TestASetIsNotReadyWhileALabelledPodIsToGo(t *testing.T) {
	f := newFixture(t)
	f.start(2, paused(true))
	f.markDelete(1)
	f.sync()
	require.False(t, f.isReadyNow())
	f.Rest()
	require.True(t, f.isReadyNow())
}

func TestStalledEndsWithItsCauseAlsoWhereNoUpdateIsReached(t *testing.T) {
	t.Run("a claim is deleted as told", func(t *testing.T) {
		f := newFixture(t)
		f.class(ptr.To(true))
		f.start(2, claimTemplate("www", "1Gi"), follow)
		f.EditClaim("www-web-1", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("slow") })
		f.Edit(image("b-broken"))
		f.Rest()
		require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
		f.Remove(modelcluster.Claims, namespace+"/www-web-1")
		f.DeletePod(name(1))
		f.Live(10 * time.Minute)
		f.Rest()
		require.Equal(t, "0:a 1:b-broken", f.state(), "it is never available, so that no update is reached")
		require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
	})
	t.Run("a class lets claims grow", func(t *testing.T) {
		f := newFixture(t)
		f.class(ptr.To(false))
		f.start(2, claimTemplate("www", "1Gi"), follow)
		f.Edit(image("b-broken"), claimTemplate("www", "2Gi"))
		f.Rest()
		require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
		f.class(ptr.To(true))
		f.Live(10 * time.Minute)
		f.Rest()
		require.Equal(t, "0:a 1:b-broken", f.state())
		require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
	})
	t.Run("not while the cause is there", func(t *testing.T) {
		f := newFixture(t)
		f.start(2, inPlaceOnly)
		f.Edit(command("x"))
		f.Rest()
		require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
		f.unready(0)
		f.Rest()
		require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
	})
}

func command(words ...string) edit {
	return func(s *v1beta1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Command = words }
}

func TestStalledIsNotOfTheFormerSpec(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, inPlaceOnly)
	f.Edit(command("x"))
	f.Rest()
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
	f.Refuse("create", modelcluster.Pods, nil)
	f.Edit(command(), replicas(4))
	f.try(1, 0)
	require.Equal(t, f.Set().Generation, f.Set().Status.ObservedGeneration)
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
}
