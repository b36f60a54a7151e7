package statefulset

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// settleTime is how long it is watched that nothing happens.
const settleTime = 3 * time.Second

// createdInOrder fails the test if a Pod ever exists while one of a lower ordinal is not ready.
func (e *env) createdInOrder() {
	e.watchPods(func(pods map[int]*corev1.Pod) error {
		for o := range pods {
			if before := pods[o-1]; o > 0 && (before == nil || !localcluster.IsReady(before)) {
				return fmt.Errorf("Pod %d exists before Pod %d is ready", o, o-1)
			}
		}
		return nil
	})
}

func TestScenario001_OnePodAfterTheOther(t *testing.T) {
	e := newRunningEnv(t)
	e.createdInOrder()
	e.create(newSet(3))
	e.settled("0:a 1:a 2:a")
}

func TestScenario002_APodKnowsItsPlace(t *testing.T) {
	e := newRunningEnv(t)
	set := e.create(newSet(3, parallel, claims("1Gi", "www")))
	status := e.settled("0:a 1:a 2:a").Status
	p := e.pod(2)
	require.Equal(t, "web-2", p.Spec.Hostname)
	require.Equal(t, "nginx", p.Spec.Subdomain)
	require.Equal(t, "web-", p.GenerateName)
	for key, value := range map[string]string{
		"app": "web", "statefulset.kubernetes.io/pod-name": "web-2", "apps.kubernetes.io/pod-index": "2",
		"controller-revision-hash": status.UpdateRevision, pub.LifecycleStateKey: string(pub.LifecycleStateNormal),
	} {
		require.Equal(t, value, p.Labels[key], key)
	}
	require.NotEmpty(t, status.UpdateRevision)
	require.Equal(t, "www", p.Spec.Volumes[0].Name)
	require.Equal(t, "www-web-2", p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	owner := metav1.GetControllerOf(p)
	require.Equal(t, &metav1.OwnerReference{
		APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "web", UID: set.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}, owner)
	claim, err := cluster.Kube.CoreV1().PersistentVolumeClaims(e.namespace).Get(t.Context(), "www-web-2", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.ClaimBound, claim.Status.Phase)
	require.Equal(t, map[string]string{"app": "web"}, claim.Labels)
	require.Empty(t, claim.OwnerReferences)
}

func TestScenario003_ParallelDoesNotWait(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5, parallel, image("a-never-ready")))
	set := e.until("five Pods", func(s *v1beta1.StatefulSet) bool { return s.Status.Replicas == 5 })
	require.Zero(t, set.Status.ReadyReplicas)
}

func TestScenario016And017And019_OrdinalsAreReservedWithoutTouchingTheOtherPods(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(4, parallel, reserve(1)))
	e.settled("0:a 2:a 3:a 4:a")
	zero, two, four := e.pod(0).UID, e.pod(2).UID, e.pod(4).UID
	e.edit(reserve(1, 3))
	e.settled("0:a 2:a 4:a 5:a")
	e.edit(replicas(3))
	e.settled("0:a 2:a 4:a")
	require.Equal(t, zero, e.pod(0).UID)
	require.Equal(t, two, e.pod(2).UID)
	require.Equal(t, four, e.pod(4).UID)
}

func TestScenario018_OrderedTheSuccessorComesBeforeTheReservedPodGoes(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(4, reserve(1)))
	e.settled("0:a 2:a 3:a 4:a")
	e.watchPods(func(pods map[int]*corev1.Pod) error {
		three, five := pods[3], pods[5]
		if (three == nil || !localcluster.IsActive(three)) && (five == nil || !localcluster.IsReady(five)) {
			return fmt.Errorf("Pod 3 went before Pod 5 was ready")
		}
		return nil
	})
	e.edit(reserve(1, 3))
	e.settled("0:a 2:a 4:a 5:a")
}

func TestScenario019And020_AReservationThatIsClearedBringsThePodBack(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(4, reserve(1)))
	e.settled("0:a 2:a 3:a 4:a")
	zero, two := e.pod(0).UID, e.pod(2).UID
	e.edit(reserve(1, 3), replicas(3))
	e.settled("0:a 2:a 4:a")
	e.edit(reserve())
	e.settled("0:a 1:a 2:a")
	require.Equal(t, zero, e.pod(0).UID)
	require.Equal(t, two, e.pod(2).UID)
}

func TestScenario030_ScaleInGoesDownwardsOneByOne(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5))
	e.settled("0:a 1:a 2:a 3:a 4:a")
	e.watchPods(func(pods map[int]*corev1.Pod) error {
		for o, p := range pods {
			if p.DeletionTimestamp != nil && pods[o+1] != nil {
				return fmt.Errorf("Pod %d is deleted while Pod %d exists", o, o+1)
			}
		}
		return nil
	})
	e.edit(replicas(2))
	e.settled("0:a 1:a")
}

func TestScenario035_ParallelScaleInGoesAtOnce(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5, parallel))
	e.settled("0:a 1:a 2:a 3:a 4:a")
	e.patchPod(3, `{"annotations":{"sim.flotilla.io/never-ready":"true"}}`)
	e.until("an unready Pod", func(s *v1beta1.StatefulSet) bool { return s.Status.ReadyReplicas == 4 })
	e.edit(replicas(2))
	e.settled("0:a 1:a")
}

func TestScenario115_ScaleSubresource(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(1))
	e.settled("0:a")
	scale, err := e.sets().GetScale(t.Context(), setName, metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, scale.Spec.Replicas)
	require.EqualValues(t, 1, scale.Status.Replicas)
	require.Equal(t, "app=web", scale.Status.Selector)
	out, err := cluster.Kubectl("scale", "statefulsets.apps.kruise.io/web", "--replicas=2", "-n", e.namespace)
	require.NoError(t, err, out)
	require.EqualValues(t, 2, *e.settled("0:a 1:a").Spec.Replicas)
}

// TestAMinimalSetWorksWithoutAnyWebhook: nobody has filled in a default.
func TestAMinimalSetWorksWithoutAnyWebhook(t *testing.T) {
	e := newRunningEnv(t)
	out, err := cluster.KubectlInput(`
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: nginx
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "registry.example/web:a"}]
`, "apply", "-n", e.namespace, "-f", "-")
	require.NoError(t, err, out)
	e.settled("0:a")
	e.edit(image("b"))
	set := e.settled("0:b")
	require.Nil(t, set.Spec.Replicas, "the spec is the user's")
}

func (e *env) inState(state pub.LifecycleStateType, n int) {
	e.Helper()
	harness.Eventually(e, fmt.Sprintf("%d Pods in %s", n, state), harness.Patience, func(ctx context.Context) error {
		list, err := cluster.Kube.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{LabelSelector: pub.LifecycleStateKey + "=" + string(state)})
		if err == nil && len(list.Items) != n {
			err = fmt.Errorf("%d are", len(list.Items))
		}
		return err
	})
}

// hooked makes the label hook=true hold Pods.
func hooked(hook func(*pub.Lifecycle, *pub.LifecycleHook)) edit {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Labels = map[string]string{"app": "web", "hook": "true"}
		set.Spec.Lifecycle = &pub.Lifecycle{}
		hook(set.Spec.Lifecycle, &pub.LifecycleHook{LabelsHandler: map[string]string{"hook": "true"}})
	}
}

func TestScenario086And088_AScaleInWaitsForItsHookAndMayBeTakenBack(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5, parallel, hooked(func(l *pub.Lifecycle, h *pub.LifecycleHook) { l.PreDelete = h })))
	e.settled("0:a 1:a 2:a 3:a 4:a")
	three := e.pod(3).UID
	e.edit(replicas(3))
	e.inState(pub.LifecycleStatePreparingDelete, 2)
	e.patchPod(4, `{"labels":{"hook":null}}`)
	e.reaches("0:a 1:a 2:a 3:a")
	e.edit(replicas(4))
	e.inState(pub.LifecycleStatePreparingDelete, 0)
	e.settled("0:a 1:a 2:a 3:a")
	require.Equal(t, three, e.pod(3).UID)
}
