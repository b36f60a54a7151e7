package statefulset

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

func TestScenario1OneAfterTheOther(t *testing.T) {
	f := newFixture(t)
	f.create(3)
	for _, want := range []string{"0", "0 1", "0 1 2"} {
		f.sync()
		f.sync()
		require.Equal(t, want, f.ordinals())
		f.Settle()
	}
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
}

func TestScenario2IdentityOfAPod(t *testing.T) {
	f := newFixture(t)
	f.start(3, claimTemplate("www", "1Gi"))
	p := f.Pod("web-2")
	require.Equal(t, "web-2", p.Spec.Hostname)
	require.Equal(t, "nginx", p.Spec.Subdomain)
	require.Equal(t, "web-", p.GenerateName)
	require.Equal(t, "www", p.Spec.Volumes[0].Name)
	require.Equal(t, "www-web-2", p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	require.Equal(t, "web-2", p.Labels["statefulset.kubernetes.io/pod-name"])
	require.Equal(t, "2", p.Labels["apps.kubernetes.io/pod-index"])
	require.Equal(t, f.Set().Status.UpdateRevision, p.Labels["controller-revision-hash"])
	require.True(t, strings.HasPrefix(p.Labels["controller-revision-hash"], "web-"))
	require.Equal(t, pub.LifecycleStateNormal, pods.LifecycleState(p))
	owner := metav1.GetControllerOf(p)
	require.Equal(t, "apps.kruise.io/v1beta1", owner.APIVersion)
	require.Equal(t, "StatefulSet", owner.Kind)
	require.True(t, *owner.BlockOwnerDeletion)
	require.True(t, pods.HasGate(p, pub.KruisePodReady))
}

func TestAPodHasWhatItsTemplateSays(t *testing.T) {
	f := newFixture(t)
	f.create(1, func(s *v1beta1.StatefulSet) {
		s.Spec.Template.Finalizers = []string{"example.com/backup", "example.com/log"}
		s.Spec.Template.Annotations = map[string]string{"note": "x"}
	})
	f.Wait(90 * time.Second)
	f.sync()
	p := f.Pod(name(0))
	require.Equal(t, []string{"example.com/backup", "example.com/log"}, p.Finalizers)
	require.Equal(t, "x", p.Annotations["note"])
	require.Equal(t, f.Clock.Now().UTC().Format(time.RFC3339), p.Annotations[pub.LifecycleTimestampKey])
}

func TestALabelThatSaysAnotherNameIsRepaired(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		f := newFixture(t)
		f.start(2, policy)
		f.label(1, appsv1.StatefulSetPodNameLabel, name(0))
		f.label(1, appsv1.PodIndexLabel, "0")
		f.Rest()
		require.Equal(t, name(1), f.Pod(name(1)).Labels[appsv1.StatefulSetPodNameLabel])
		require.Equal(t, "1", f.Pod(name(1)).Labels[appsv1.PodIndexLabel])
	})
}

func TestScenario3ParallelCreatesAllAtOnce(t *testing.T) {
	f := newFixture(t)
	f.create(5, parallel)
	f.sync()
	require.Equal(t, "0 1 2 3 4", f.ordinals())
}

func TestScenario4MinReadySecondsHoldsTheNext(t *testing.T) {
	f := newFixture(t)
	f.create(3, minReady(60))
	f.Pass()
	f.Pass()
	f.Wait(time.Second)
	f.ShowAll()
	again, err := f.Sync()
	require.NoError(t, err)
	require.Equal(t, "0", f.ordinals())
	require.EqualValues(t, 1, f.Set().Status.ReadyReplicas)
	require.Zero(t, f.Set().Status.AvailableReplicas)
	require.Greater(t, again, time.Duration(0))
	require.LessOrEqual(t, again, 60*time.Second)
	f.Wait(60 * time.Second)
	f.sync()
	require.Equal(t, "0 1", f.ordinals())
}

func TestScenario5ParallelDoesNotWaitForMinReadySeconds(t *testing.T) {
	f := newFixture(t)
	f.create(5, parallel, minReady(60))
	f.sync()
	require.Equal(t, "0 1 2 3 4", f.ordinals())
}

func TestScenario6AClaimThatGoesHoldsItsPod(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		f := newFixture(t)
		f.start(3, policy, claimTemplate("www", "1Gi"))
		f.EditClaim("www-web-1", func(c *corev1.PersistentVolumeClaim) {
			c.Finalizers = []string{"somebody/holds"}
			c.DeletionTimestamp = &metav1.Time{Time: f.Clock.Now()}
		})
		f.Remove("pods", namespace+"/web-1")
		f.Remove("pods", namespace+"/web-2")
		f.ShowAll()
		again, err := f.Sync()
		require.Error(t, err)
		others := "0 2"
		if isOrdered(&f.Set().Spec) {
			others = "0"
		}
		require.Equal(t, others, f.ordinals())
		require.Contains(t, strings.Join(f.Events, "\n"), "Warning FailedCreate")
		require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.FailedCreatePod).Status)
		require.Greater(t, again, time.Duration(0))
		f.Live(5 * time.Minute)
		require.Equal(t, others, f.ordinals())
		require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.FailedCreatePod).Status)
		f.Remove("persistentvolumeclaims", namespace+"/www-web-1")
		f.Rest()
		require.Equal(t, "0 1 2", f.ordinals())
		require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.FailedCreatePod).Status)
	})
}

func TestScenario7APendingPodGetsItsClaimAgain(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.create(1, policy, claimTemplate("www", "1Gi"))
		f.sync()
		f.Remove("persistentvolumeclaims", namespace+"/www-web-0")
		require.Equal(t, corev1.PodPending, f.Pod("web-0").Status.Phase)
		f.sync()
		require.NotNil(t, f.Claim("www-web-0"))
	}
}

func TestScenario8LabelsOfAClaim(t *testing.T) {
	f := newFixture(t)
	f.start(1, claimTemplate("www", "1Gi"))
	require.Equal(t, map[string]string{"x": "1", "app": "web"}, f.Claim("www-web-0").Labels)

	f = newFixture(t)
	f.start(1, claimTemplate("www", "1Gi"), func(s *v1beta1.StatefulSet) { s.Spec.VolumeClaimTemplates[0].Labels["app"] = "other" })
	require.Equal(t, map[string]string{"x": "1", "app": "web"}, f.Claim("www-web-0").Labels, "the selector has the last word")
}

func preNormal(s *v1beta1.StatefulSet) {
	s.Spec.Lifecycle = &pub.Lifecycle{PreNormal: &pub.LifecycleHook{LabelsHandler: map[string]string{"h": "true"}}}
}

func TestScenario10PreNormal(t *testing.T) {
	f := newFixture(t)
	f.start(2, preNormal)
	require.Equal(t, "0", f.ordinals())
	require.Equal(t, pub.LifecycleStatePreparingNormal, f.stateOf(0))
	require.Zero(t, f.Set().Status.AvailableReplicas)
	f.label(0, "h", "true")
	f.Rest()
	require.Equal(t, pub.LifecycleStateNormal, f.stateOf(0))
	require.Equal(t, "0 1", f.ordinals())
}

func TestScenarios11To24WhichOrdinalsHaveAPod(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []edit
		want  []string
	}{
		{"11", []edit{both(replicas(3), start(2))}, []string{"2 3 4"}},
		{"12", []edit{both(replicas(3), start(2), reserve(0, 4)), reserve(0, 2, 3, 4, 5)}, []string{"2 3 5", "6 7 8"}},
		{"13", []edit{both(replicas(4), start(1), reserve(1, 3, 4))}, []string{"2 5 6 7"}},
		{"14 and 15", []edit{replicas(2), both(replicas(3), start(2))}, []string{"0 1", "2 3 4"}},
		{"16 to 18", []edit{both(replicas(4), reserve(1)), reserve(1, 3)}, []string{"0 2 3 4", "0 2 4 5"}},
		{"19 and 20", []edit{both(replicas(4), reserve(1)), both(replicas(3), reserve(1, 3)), reserve()}, []string{"0 2 3 4", "0 2 4", "0 1 2"}},
		{"21", []edit{both(replicas(4), reserve("2-5", 7))}, []string{"0 1 6 8"}},
		{"22", []edit{both(replicas(3), reserve(0, "2-5")), replicas(1)}, []string{"1 6 7", "1"}},
		{"23", []edit{both(replicas(3), reserve(3, 4, 5)), reserve(4, 5), replicas(5)}, []string{"0 1 2", "0 1 2", "0 1 2 3 6"}},
		{"24", []edit{both(replicas(1), reserve(0)), replicas(0), replicas(1)}, []string{"1", "", "1"}},
	} {
		for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
			f := newFixture(t)
			f.create(0, policy)
			for i, e := range c.steps {
				f.Edit(e)
				f.Rest()
				require.Equal(t, c.want[i], f.ordinals(), c.name)
			}
		}
	}
}

func both(edits ...edit) edit {
	return func(s *v1beta1.StatefulSet) {
		for _, e := range edits {
			e(s)
		}
	}
}

// passes are the ordinals after each pass, as long as they change.
func (f *fixture) passes() []string {
	f.Helper()
	list := []string{f.ordinals()}
	for range 60 {
		f.Pass()
		if now := f.ordinals(); now != list[len(list)-1] {
			list = append(list, now)
		}
	}
	return list
}

func TestScenario14MovingOrdinalsInOrder(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	f.Edit(both(replicas(3), start(2)))
	require.Equal(t, []string{"0 1", "0 1 2", "0 1 2 3", "0 1 2 3 4", "0 2 3 4", "2 3 4"}, f.passes())
}

func TestScenario15MovingOrdinalsAtOnce(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel)
	f.Edit(both(replicas(3), start(2)))
	f.sync()
	require.Equal(t, "2 3 4", f.ordinals())
	require.Equal(t, "0 1", f.terminating())
}

func TestScenarios17And18AnOrdinalIsReserved(t *testing.T) {
	f := newFixture(t)
	f.start(4, parallel, reserve(1))
	f.Edit(reserve(1, 3))
	f.sync()
	require.Equal(t, "0 2 4 5", f.ordinals())

	f = newFixture(t)
	f.start(4, reserve(1))
	f.Edit(reserve(1, 3))
	require.Equal(t, []string{"0 2 3 4", "0 2 3 4 5", "0 2 4 5"}, f.passes())
}

func TestScenario25ABrokenPodIsReserved(t *testing.T) {
	f := newFixture(t)
	f.start(4)
	f.unready(2)
	f.Edit(reserve(2))
	require.Equal(t, []string{"0 1 2 3", "0 1 2 3 4", "0 1 3 4"}, f.passes())
}

func TestScenario26ABrokenPodHoldsUpAReservation(t *testing.T) {
	f := newFixture(t)
	f.start(4)
	f.unready(1)
	f.Edit(reserve(2))
	require.Equal(t, []string{"0 1 2 3"}, f.passes())
	f.ready(1)
	require.Equal(t, []string{"0 1 2 3", "0 1 2 3 4", "0 1 3 4"}, f.passes())
}

func TestScenario28ABadEntryStopsEverything(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, reserve(1))
	f.Edit(reserve(1, "bad"), image("b"), replicas(7))
	f.Rest()
	f.Rest()
	require.Equal(t, "0:a 2:a 3:a", f.state())
	c := f.conditionOf(v1beta1.FailedUpdatePod)
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Contains(t, c.Message, `spec.reserveOrdinals[1]: "bad"`)
	require.Equal(t, 1, strings.Count(strings.Join(f.Events, "\n"), "Warning InvalidSpec"))
	f.Edit(reserve(1))
	f.Rest()
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.FailedUpdatePod).Status)
	require.Equal(t, "0:b 2:b 3:b 4:b 5:b 6:b 7:b", f.state())
}

func TestScenario29AHugeRangeIsHandled(t *testing.T) {
	f := newFixture(t)
	f.start(2, reserve("0-2000000000"))
	require.Equal(t, "2000000001 2000000002", f.ordinals())
}
