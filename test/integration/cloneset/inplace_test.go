package cloneset

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// Numbers of tests that are called InPlace are those of the scenarios of in-place update and lifecycle.

func withCPU(limit string) func(*v1beta1.CloneSet) {
	return func(s *v1beta1.CloneSet) {
		s.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)},
		}
	}
}

// setCPU changes the limit, and the image as well unless that is empty.
func (e *env) setCPU(limit, image string) {
	e.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/resources/limits/cpu","value":%q}`, limit)
	if image != "" {
		patch += fmt.Sprintf(`,{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}`, image)
	}
	_, err := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace).Patch(e.Context(), "web", types.JSONPatchType, []byte(patch+"]"), metav1.PatchOptions{})
	require.NoError(e, err)
}

func restarts(pods []corev1.Pod) int32 {
	n := int32(0)
	for _, p := range pods {
		for _, c := range p.Status.ContainerStatuses {
			n += c.RestartCount
		}
	}
	return n
}

func TestInPlace038_ResourcesChangeWithoutARestart(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3, inPlace, withCPU("1"), budget(intstr.FromInt32(1), intstr.FromInt32(0))))
	e.available(3)
	before, had := uids(e.active()), restarts(e.active())
	cluster.Observe(t, e.namespace, func(pods localcluster.Pods) error {
		for _, p := range pods {
			for _, c := range p.Status.Conditions {
				if c.Type == pub.InPlaceUpdateReady && c.Status != corev1.ConditionTrue {
					return fmt.Errorf("%s was taken out of its Services", p.Name)
				}
			}
		}
		return nil
	})
	e.setCPU("2", "")
	e.updated(3, 3)
	require.Equal(t, before, uids(e.active()))
	require.Equal(t, had, restarts(e.active()))
	for _, p := range e.active() {
		require.Equal(t, "2", p.Spec.Containers[0].Resources.Limits.Cpu().String())
		require.Equal(t, "2", p.Status.ContainerStatuses[0].Resources.Limits.Cpu().String())
	}
}

func TestInPlace045_ImageAndResourcesChangeTogether(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(2, inPlace, withCPU("1"), budget(intstr.FromInt32(1), intstr.FromInt32(0))))
	e.available(2)
	before := uids(e.active())
	e.setCPU("2", imageB)
	e.updated(2, 2)
	require.Equal(t, before, uids(e.active()))
	require.Equal(t, "2b", e.images())
	for _, p := range e.active() {
		require.Equal(t, "2", p.Status.ContainerStatuses[0].Resources.Limits.Cpu().String())
	}
}

func TestInPlace043_APodWhoseNodeHasNoRoomIsReplaced(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(1, inPlace, withCPU("1"), budget(intstr.FromInt32(1), intstr.FromInt32(0))))
	e.available(1)
	old := e.active()[0]
	patch := []byte(`{"metadata":{"annotations":{"sim.flotilla.io/resize":"infeasible"}}}`)
	_, err := cluster.Kube.CoreV1().Pods(e.namespace).Patch(t.Context(), old.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	e.setCPU("2", "")
	e.updated(1, 1)
	require.NotEqual(t, old.UID, e.active()[0].UID)
	require.Equal(t, "2", e.active()[0].Spec.Containers[0].Resources.Limits.Cpu().String())
}

func TestInPlace040_AChangeOfTheQualityOfServiceIsARecreation(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(1, inPlace, budget(intstr.FromInt32(1), intstr.FromInt32(0))))
	e.available(1)
	old := e.active()[0].UID
	patch := []byte(`[{"op":"add","path":"/spec/template/spec/containers/0/resources","value":{"requests":{"cpu":"1"}}}]`)
	_, err := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace).Patch(t.Context(), "web", types.JSONPatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	e.updated(1, 1)
	require.NotEqual(t, old, e.active()[0].UID)
}

func (e *env) labelPod(name, patch string) {
	e.Helper()
	_, err := cluster.Kube.CoreV1().Pods(e.namespace).Patch(e.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{`+patch+`}}}`), metav1.PatchOptions{})
	require.NoError(e, err)
}

func (e *env) inState(state pub.LifecycleStateType, n int) []corev1.Pod {
	e.Helper()
	var found []corev1.Pod
	harness.Eventually(e, fmt.Sprintf("%d Pods in %s", n, state), harness.Patience, func(ctx context.Context) error {
		list, err := cluster.Kube.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{LabelSelector: pub.LifecycleStateKey + "=" + string(state)})
		if err != nil {
			return err
		}
		if found = list.Items; len(found) != n {
			return fmt.Errorf("%d", len(found))
		}
		return nil
	})
	return found
}

func TestInPlace048_AHookHoldsThePodBeforeAndAfterItsUpdate(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(1, inPlace, func(s *v1beta1.CloneSet) {
		s.Spec.Template.Labels = map[string]string{"app": "web", "hook": "true"}
		s.Spec.Lifecycle = &pub.Lifecycle{InPlaceUpdate: &pub.LifecycleHook{LabelsHandler: map[string]string{"hook": "true"}, MarkPodNotReady: true}}
	}))
	e.available(1)
	name := e.active()[0].Name
	e.setImage(imageB)
	held := e.inState(pub.LifecycleStatePreparingUpdate, 1)[0]
	require.Equal(t, imageA, held.Spec.Containers[0].Image)
	e.labelPod(name, `"hook":"false"`)
	e.inState(pub.LifecycleStateUpdated, 1)
	require.Equal(t, "1b", e.images())
	e.labelPod(name, `"hook":"true"`)
	e.available(1)
	require.Equal(t, name, e.active()[0].Name)
}

func TestScenario037_AScaleInWaitsForItsHookAndMayBeTakenBack(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5, func(s *v1beta1.CloneSet) {
		s.Spec.Template.Labels = map[string]string{"app": "web", "hook": "true"}
		s.Spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{LabelsHandler: map[string]string{"hook": "true"}}}
	}))
	e.available(5)
	e.scale(3)
	e.inState(pub.LifecycleStatePreparingDelete, 2)
	require.Len(t, e.active(), 5)
	e.scale(4)
	held := e.inState(pub.LifecycleStatePreparingDelete, 1)
	e.labelPod(held[0].Name, `"hook":null`)
	e.available(4)
}

func withClaim(s *v1beta1.CloneSet) {
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}}
	s.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
}

// claims are the names of the claims that are not terminating, with their UIDs.
func (e *env) claims() map[string]types.UID {
	e.Helper()
	list, err := cluster.Kube.CoreV1().PersistentVolumeClaims(e.namespace).List(e.Context(), metav1.ListOptions{})
	require.NoError(e, err)
	out := map[string]types.UID{}
	for _, c := range list.Items {
		if c.DeletionTimestamp == nil {
			out[c.Name] = c.UID
		}
	}
	return out
}

func TestScenario073_ALostPodComesBackToItsClaim(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(2, withClaim, func(s *v1beta1.CloneSet) { s.Spec.ScaleStrategy.EnablePVCReuse = true }))
	e.available(2)
	lost, claims := e.active()[0], e.claims()
	require.Len(t, claims, 2)
	require.NoError(t, cluster.Kube.CoreV1().Pods(e.namespace).Delete(t.Context(), lost.Name, metav1.DeleteOptions{}))
	harness.Eventually(t, "another Pod of that name", harness.Patience, func(ctx context.Context) error {
		p, err := cluster.Kube.CoreV1().Pods(e.namespace).Get(ctx, lost.Name, metav1.GetOptions{})
		if err == nil && p.UID == lost.UID {
			err = fmt.Errorf("it is the same")
		}
		return err
	})
	e.available(2)
	require.Equal(t, claims, e.claims())
}

func TestScenario075_ARecreationStartsWithNewClaims(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(2, withClaim))
	e.available(2)
	old := e.claims()
	e.setImage(imageB)
	e.updated(2, 2)
	harness.Eventually(t, "the old claims to be gone", harness.Patience, func(context.Context) error {
		for name := range e.claims() {
			if _, there := old[name]; there {
				return fmt.Errorf("%s is there", name)
			}
		}
		return nil
	})
	for _, p := range e.active() {
		require.Contains(t, e.claims(), "data-"+p.Name)
	}
}

func TestScenario077_AReleasedPodKeepsItsClaim(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(2, withClaim))
	e.available(2)
	released := e.active()[0].Name
	uid := e.claims()["data-"+released]
	e.labelPod(released, `"app":"debug"`)
	harness.Eventually(t, "the Pod to be released and replaced", harness.Patience, func(ctx context.Context) error {
		list, err := cluster.Kube.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err == nil && len(list.Items) != 2 {
			err = fmt.Errorf("%d Pods", len(list.Items))
		}
		return err
	})
	e.available(2)
	require.Equal(t, uid, e.claims()["data-"+released])
	claim, err := cluster.Kube.CoreV1().PersistentVolumeClaims(e.namespace).Get(t.Context(), "data-"+released, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, released, metav1.GetControllerOf(claim).Name)
	p, err := cluster.Kube.CoreV1().Pods(e.namespace).Get(t.Context(), released, metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, p.OwnerReferences)
	require.Equal(t, corev1.PodRunning, p.Status.Phase)
	require.True(t, strings.HasPrefix(p.Name, "web-"))
}
