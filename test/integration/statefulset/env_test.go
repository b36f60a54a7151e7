package statefulset

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	appsclient "github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned/typed/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	controller = "statefulset-controller"
	setName    = "web"
	// registry begins the images; what follows is the tag.
	registry = "registry.example/web:"
)

// env is one test's namespace.
type env struct {
	*testing.T
	namespace string
}

// newEnv makes a namespace without a controller.
func newEnv(t *testing.T) *env {
	t.Helper()
	return &env{T: t, namespace: cluster.Namespace(t, "statefulset-")}
}

// newRunningEnv makes a namespace with a controller, for tests that run beside others.
func newRunningEnv(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	e := newEnv(t)
	cluster.StartController(t, controller, e.namespace)
	return e
}

type edit = func(*v1beta1.StatefulSet)

// newSet is a set named web with the image tag "a".
func newSet(replicas int32, edits ...edit) *v1beta1.StatefulSet {
	labels := map[string]string{"app": "web"}
	set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: setName}}
	set.Spec.Replicas = ptr.To(replicas)
	set.Spec.ServiceName = "nginx"
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To(int64(1)),
			Containers:                    []corev1.Container{{Name: "main", Image: registry + "a"}},
		},
	}
	for _, edit := range edits {
		edit(set)
	}
	return set
}

func parallel(set *v1beta1.StatefulSet) { set.Spec.PodManagementPolicy = v1beta1.ParallelPodManagement }

func image(tag string) edit {
	return func(set *v1beta1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = registry + tag }
}

func replicas(n int32) edit { return func(set *v1beta1.StatefulSet) { set.Spec.Replicas = &n } }

func reserve(ordinals ...int32) edit {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.ReserveOrdinals = nil
		for _, o := range ordinals {
			set.Spec.ReserveOrdinals = append(set.Spec.ReserveOrdinals, intstr.FromInt32(o))
		}
	}
}

func rolling(change func(*v1beta1.RollingUpdateStatefulSetStrategy)) edit {
	return func(set *v1beta1.StatefulSet) {
		if set.Spec.UpdateStrategy.RollingUpdate == nil {
			set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateStatefulSetStrategy{}
		}
		change(set.Spec.UpdateStrategy.RollingUpdate)
	}
}

func partition(n int32) edit {
	return rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) { r.Partition = &n })
}

func unavailable(n int32) edit {
	return rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) { r.MaxUnavailable = ptr.To(intstr.FromInt32(n)) })
}

func inPlace(set *v1beta1.StatefulSet) {
	rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) {
		r.PodUpdatePolicy = v1beta1.InPlaceIfPossiblePodUpdateStrategyType
	})(set)
	set.Spec.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: pub.InPlaceUpdateReady}}
}

// claims gives every Pod a claim of that size for each template; a template that is there takes the size.
func claims(size string, templates ...string) edit {
	return func(set *v1beta1.StatefulSet) {
		for _, name := range templates {
			i := slices.IndexFunc(set.Spec.VolumeClaimTemplates, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name })
			if i < 0 {
				i = len(set.Spec.VolumeClaimTemplates)
				set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
				main := &set.Spec.Template.Spec.Containers[0]
				main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
			}
			set.Spec.VolumeClaimTemplates[i].Spec = corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			}
		}
	}
}

func retain(whenDeleted, whenScaled v1beta1.PersistentVolumeClaimRetentionPolicyType) edit {
	return func(set *v1beta1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &v1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: whenDeleted, WhenScaled: whenScaled,
		}
	}
}

func (e *env) sets() appsclient.StatefulSetInterface {
	return cluster.Flotilla.AppsV1beta1().StatefulSets(e.namespace)
}

func (e *env) create(set *v1beta1.StatefulSet) *v1beta1.StatefulSet {
	e.Helper()
	created, err := e.sets().Create(e.Context(), set, metav1.CreateOptions{})
	require.NoError(e, err)
	return created
}

// edit changes the set in one write.
func (e *env) edit(edits ...edit) {
	e.Helper()
	require.NoError(e, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		set, err := e.sets().Get(e.Context(), setName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, edit := range edits {
			edit(set)
		}
		_, err = e.sets().Update(e.Context(), set, metav1.UpdateOptions{})
		return err
	}))
}

// until waits until the status has seen the spec and done holds.
func (e *env) until(what string, done func(*v1beta1.StatefulSet) bool) *v1beta1.StatefulSet {
	e.Helper()
	var last *v1beta1.StatefulSet
	harness.Eventually(e, what, harness.Patience, func(ctx context.Context) error {
		set, err := e.sets().Get(ctx, setName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		last = set
		if set.Status.ObservedGeneration != set.Generation || !done(set) {
			raw, _ := json.Marshal(set.Status)
			return fmt.Errorf("generation %d, Pods %s, status %s", set.Generation, e.state(), raw)
		}
		return nil
	})
	return last
}

// settled waits until the set is what its spec asks for, and the active Pods are those, such as "0:a 2:b".
func (e *env) settled(state string) *v1beta1.StatefulSet {
	e.Helper()
	return e.until("Pods "+state, func(set *v1beta1.StatefulSet) bool {
		status, _ := condition(set, v1beta1.StatefulSetConditionReady)
		return status == corev1.ConditionTrue && e.state() == state
	})
}

// reaches waits for these active Pods, whatever the status says.
func (e *env) reaches(state string) {
	e.Helper()
	harness.Eventually(e, "Pods "+state, harness.Patience, func(context.Context) error {
		if now := e.state(); now != state {
			return fmt.Errorf("Pods %s", now)
		}
		return nil
	})
}

// pods are those of the namespace, by ordinal.
func (e *env) pods() []corev1.Pod {
	e.Helper()
	list, err := cluster.Kube.CoreV1().Pods(e.namespace).List(e.Context(), metav1.ListOptions{})
	require.NoError(e, err)
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(ordinal(&a), ordinal(&b)) })
	return list.Items
}

// active are the Pods that neither ended nor are being deleted, by ordinal.
func (e *env) active() []corev1.Pod {
	e.Helper()
	return slices.DeleteFunc(e.pods(), func(p corev1.Pod) bool { return !localcluster.IsActive(&p) })
}

// state is such as "0:a 2:b": the active Pods by ordinal, with the tags of their images.
func (e *env) state() string {
	e.Helper()
	var out []string
	for _, p := range e.active() {
		out = append(out, fmt.Sprintf("%d:%s", ordinal(&p), tag(&p)))
	}
	return strings.Join(out, " ")
}

func (e *env) pod(ordinal int) *corev1.Pod {
	e.Helper()
	p, err := cluster.Kube.CoreV1().Pods(e.namespace).Get(e.Context(), name(ordinal), metav1.GetOptions{})
	require.NoError(e, err)
	return p
}

// patchPod is a JSON merge patch of a Pod's metadata.
func (e *env) patchPod(ordinal int, metadata string) {
	e.Helper()
	_, err := cluster.Kube.CoreV1().Pods(e.namespace).Patch(e.Context(), name(ordinal), types.MergePatchType, []byte(`{"metadata":`+metadata+`}`), metav1.PatchOptions{})
	require.NoError(e, err)
}

func (e *env) deletePod(ordinal int) {
	e.Helper()
	require.NoError(e, cluster.Kube.CoreV1().Pods(e.namespace).Delete(e.Context(), name(ordinal), metav1.DeleteOptions{}))
}

// replaced waits until a Pod of that ordinal is ready that is not the one before.
func (e *env) replaced(before *corev1.Pod) *corev1.Pod {
	e.Helper()
	var now *corev1.Pod
	harness.Eventually(e, "another Pod "+before.Name, harness.Patience, func(ctx context.Context) (err error) {
		now, err = cluster.Kube.CoreV1().Pods(e.namespace).Get(ctx, before.Name, metav1.GetOptions{})
		if err == nil && (now.UID == before.UID || !localcluster.IsReady(now)) {
			err = fmt.Errorf("it is the same, or not ready")
		}
		return err
	})
	return now
}

// watchPods checks after every change of a Pod. The Pods are by ordinal; of two of one name the younger one counts.
func (e *env) watchPods(check func(map[int]*corev1.Pod) error) {
	e.Helper()
	cluster.Observe(e, e.namespace, func(pods localcluster.Pods) error {
		byOrdinal := map[int]*corev1.Pod{}
		for _, p := range pods {
			byOrdinal[ordinal(p)] = p
		}
		return check(byOrdinal)
	})
}

func name(ordinal int) string { return fmt.Sprintf("%s-%d", setName, ordinal) }

// ordinal is -1 for a Pod of another name.
func ordinal(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Name[strings.LastIndexByte(p.Name, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}

func tag(p *corev1.Pod) string { return strings.TrimPrefix(p.Spec.Containers[0].Image, registry) }

func uids(pods []corev1.Pod) []types.UID {
	ids := make([]types.UID, 0, len(pods))
	for _, p := range pods {
		ids = append(ids, p.UID)
	}
	return ids
}

func condition(set *v1beta1.StatefulSet, kind v1beta1.StatefulSetConditionType) (status corev1.ConditionStatus, reason string) {
	for _, c := range set.Status.Conditions {
		if c.Type == kind {
			return c.Status, c.Reason
		}
	}
	return "", ""
}
