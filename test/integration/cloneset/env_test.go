package cloneset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	imageA = "registry.example/web:a"
	imageB = "registry.example/web:b"
	imageC = "registry.example/web:c"
)

// env is one test's namespace.
type env struct {
	*testing.T
	namespace string
}

// newEnv makes a namespace without a controller.
func newEnv(t *testing.T) *env {
	t.Helper()
	return &env{T: t, namespace: cluster.Namespace(t, "cloneset-")}
}

// newRunningEnv makes a namespace with a controller, for tests that run beside others.
func newRunningEnv(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	e := newEnv(t)
	cluster.StartController(t, "cloneset-controller", e.namespace)
	return e
}

// newSet is a CloneSet named web at image A, as a user would write the shortest one.
func newSet(replicas int32, edits ...func(*v1beta1.CloneSet)) *v1beta1.CloneSet {
	labels := map[string]string{"app": "web"}
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	set.Spec.Replicas = ptr.To(replicas)
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: imageA}}},
	}
	set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{}
	for _, edit := range edits {
		edit(set)
	}
	return set
}

func inPlace(set *v1beta1.CloneSet) {
	set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType
}

func partition(v intstr.IntOrString) func(*v1beta1.CloneSet) {
	return func(set *v1beta1.CloneSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = &v }
}

func budget(unavailable, surge intstr.IntOrString) func(*v1beta1.CloneSet) {
	return func(set *v1beta1.CloneSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &unavailable
		set.Spec.UpdateStrategy.RollingUpdate.MaxSurge = &surge
	}
}

func (e *env) create(set *v1beta1.CloneSet) *v1beta1.CloneSet {
	e.Helper()
	created, err := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace).Create(e.Context(), set, metav1.CreateOptions{})
	require.NoError(e, err)
	return created
}

// patch is a JSON merge patch of the set named web.
func (e *env) patch(patch string) {
	e.Helper()
	_, err := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace).Patch(e.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(e, err)
}

func (e *env) scale(replicas int) {
	e.Helper()
	e.patch(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

func (e *env) setPartition(p string) {
	e.Helper()
	e.patch(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":` + p + `}}}}`)
}

func (e *env) setImage(image string) {
	e.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image)
	_, err := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace).Patch(e.Context(), "web", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(e, err)
}

func (e *env) get() *v1beta1.CloneSet {
	e.Helper()
	set, err := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace).Get(e.Context(), "web", metav1.GetOptions{})
	require.NoError(e, err)
	return set
}

// until waits until the status has seen the spec and done holds.
func (e *env) until(what string, done func(*v1beta1.CloneSet) bool) *v1beta1.CloneSet {
	e.Helper()
	var last *v1beta1.CloneSet
	harness.Eventually(e, what, harness.Patience, func(ctx context.Context) error {
		set, err := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		last = set
		if set.Status.ObservedGeneration != set.Generation || !done(set) {
			raw, _ := json.Marshal(set.Status)
			return fmt.Errorf("generation %d, status %s", set.Generation, raw)
		}
		return nil
	})
	return last
}

// available waits until exactly that many Pods exist and all are available.
func (e *env) available(n int32) *v1beta1.CloneSet {
	e.Helper()
	return e.until(fmt.Sprintf("%d available Pods", n), func(s *v1beta1.CloneSet) bool {
		return s.Status.Replicas == n && s.Status.AvailableReplicas == n
	})
}

// updated waits until that many Pods are updated and available, of all available.
func (e *env) updated(n, of int32) *v1beta1.CloneSet {
	e.Helper()
	return e.until(fmt.Sprintf("%d of %d Pods updated", n, of), func(s *v1beta1.CloneSet) bool {
		return s.Status.UpdatedReplicas == n && s.Status.UpdatedAvailableReplicas == n && s.Status.Replicas == of && s.Status.AvailableReplicas == of
	})
}

// active lists the Pods that neither ended nor are being deleted, sorted by name.
func (e *env) active() []corev1.Pod {
	e.Helper()
	list, err := cluster.Kube.CoreV1().Pods(e.namespace).List(e.Context(), metav1.ListOptions{})
	require.NoError(e, err)
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !localcluster.IsActive(&p) })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// images counts active Pods by the image of their first container: "3a2b".
func (e *env) images() string {
	e.Helper()
	count := map[string]int{}
	for _, p := range e.active() {
		_, tag, _ := strings.Cut(p.Spec.Containers[0].Image, ":")
		count[tag]++
	}
	tags := make([]string, 0, len(count))
	for tag, n := range count {
		tags = append(tags, fmt.Sprintf("%d%s", n, tag))
	}
	slices.SortFunc(tags, func(a, b string) int { return strings.Compare(a[len(a)-1:], b[len(b)-1:]) })
	return strings.Join(tags, "")
}

func uids(pods []corev1.Pod) []types.UID {
	ids := make([]types.UID, 0, len(pods))
	for _, p := range pods {
		ids = append(ids, p.UID)
	}
	slices.Sort(ids)
	return ids
}

func condition(set *v1beta1.CloneSet, kind string) (status, reason string) {
	for _, c := range set.Status.Conditions {
		if string(c.Type) == kind {
			return string(c.Status), c.Reason
		}
	}
	return "", ""
}
