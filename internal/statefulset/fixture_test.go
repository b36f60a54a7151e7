package statefulset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

const namespace, setName = modelcluster.Namespace, modelcluster.Name

type edit = func(*v1beta1.StatefulSet)

// fixture is a model cluster with a controller of sets.
type fixture struct {
	*modelcluster.Fixture[*v1beta1.StatefulSet]
	controller *Controller
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{}
	f.Fixture = modelcluster.NewFixture[*v1beta1.StatefulSet](t, modelcluster.Kind{
		Resource:        "statefulsets",
		New:             func() modelcluster.Object { return &v1beta1.StatefulSet{} },
		MinReadySeconds: func(o modelcluster.Object) int32 { return minReadySeconds(&o.(*v1beta1.StatefulSet).Spec) },
		Build: func(env *app.Env, alarm *modelcluster.Alarm) modelcluster.Built {
			c, err := newController(env)
			must(err)
			// What the queue has started must end, or it piles up over the schedules.
			c.loop.(*kube.Loop).ShutDown() //nolint:forcetypeassert // newController has just made it.
			c.loop, c.can, c.parallel = alarm, inplace.Abilities{Resize: true}, 1
			f.controller = c
			return modelcluster.Built{Watched: c.caches.Watched, Sync: c.sync}
		},
	})
	return f
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// create makes a set of Pods at image "a".
func (f *fixture) create(replicas int32, edits ...edit) {
	f.Edit(append([]edit{func(s *v1beta1.StatefulSet) {
		labels := map[string]string{"app": "web"}
		s.Spec.Replicas = &replicas
		s.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		s.Spec.ServiceName = "nginx"
		s.Spec.Template.Labels = map[string]string{"app": "web"}
		s.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "a"}}
		s.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateStatefulSetStrategy{}
	}}, edits...)...)
}

// start creates a set and waits until it rests.
func (f *fixture) start(replicas int32, edits ...edit) {
	f.Helper()
	f.create(replicas, edits...)
	f.Rest()
	f.Watch()
}

// sync is one sync on current caches, after which nobody does anything.
func (f *fixture) sync() {
	f.Helper()
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(f, err)
}

func parallel(s *v1beta1.StatefulSet) { s.Spec.PodManagementPolicy = v1beta1.ParallelPodManagement }

func image(name string) edit {
	return func(s *v1beta1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = name }
}

func replicas(n int32) edit { return func(s *v1beta1.StatefulSet) { s.Spec.Replicas = &n } }

func start(n int32) edit {
	return func(s *v1beta1.StatefulSet) { s.Spec.Ordinals = &v1beta1.StatefulSetOrdinals{Start: n} }
}

func reserve(entries ...any) edit {
	return func(s *v1beta1.StatefulSet) {
		s.Spec.ReserveOrdinals = nil
		for _, e := range entries {
			if n, ok := e.(int); ok {
				s.Spec.ReserveOrdinals = append(s.Spec.ReserveOrdinals, intstr.FromInt32(int32(n)))
			} else {
				s.Spec.ReserveOrdinals = append(s.Spec.ReserveOrdinals, intstr.FromString(e.(string)))
			}
		}
	}
}

func rolling(e func(*v1beta1.RollingUpdateStatefulSetStrategy)) edit {
	return func(s *v1beta1.StatefulSet) {
		if s.Spec.UpdateStrategy.RollingUpdate == nil {
			s.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateStatefulSetStrategy{}
		}
		e(s.Spec.UpdateStrategy.RollingUpdate)
	}
}

func partition(n int32) edit {
	return rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) { r.Partition = &n })
}

func unavailable(v string) edit {
	return rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) { r.MaxUnavailable = ptr.To(intstr.Parse(v)) })
}

func minReady(seconds int32) edit {
	return rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) { r.MinReadySeconds = &seconds })
}

func paused(is bool) edit {
	return rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) { r.Paused = is })
}

func inPlaceOnly(s *v1beta1.StatefulSet) {
	rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) {
		r.PodUpdatePolicy = v1beta1.InPlaceOnlyPodUpdateStrategyType
	})(s)
}

func inPlace(s *v1beta1.StatefulSet) {
	rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) {
		r.PodUpdatePolicy = v1beta1.InPlaceIfPossiblePodUpdateStrategyType
	})(s)
	s.Spec.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: pub.InPlaceUpdateReady}}
}

func unordered(strategy *pub.UpdatePriorityStrategy) edit {
	return rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) {
		r.UnorderedUpdate = &v1beta1.UnorderedUpdateStrategy{PriorityStrategy: strategy}
	})
}

func onDelete(s *v1beta1.StatefulSet) {
	s.Spec.UpdateStrategy = v1beta1.StatefulSetUpdateStrategy{Type: v1beta1.OnDeleteStatefulSetStrategyType}
}

func scaleUnavailable(v string) edit {
	return func(s *v1beta1.StatefulSet) {
		s.Spec.ScaleStrategy = &v1beta1.StatefulSetScaleStrategy{MaxUnavailable: ptr.To(intstr.Parse(v))}
	}
}

func claimTemplate(name, size string) edit {
	return func(s *v1beta1.StatefulSet) {
		for i := range s.Spec.VolumeClaimTemplates {
			if t := &s.Spec.VolumeClaimTemplates[i]; t.Name == name {
				t.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
				return
			}
		}
		s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"x": "1"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("fast"),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			},
		})
	}
}

func retain(whenDeleted, whenScaled v1beta1.PersistentVolumeClaimRetentionPolicyType) edit {
	return func(s *v1beta1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &v1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: whenDeleted, WhenScaled: whenScaled,
		}
	}
}

func sorted(list []*corev1.Pod) []*corev1.Pod {
	slices.SortFunc(list, func(a, b *corev1.Pod) int {
		_, x, _ := parentAndOrdinal(a.Name)
		_, y, _ := parentAndOrdinal(b.Name)
		return cmp.Compare(x, y)
	})
	return list
}

// state is such as "0:a 2:b": the active Pods by ordinal, with their images.
func (f *fixture) state() string {
	var out []string
	for _, p := range sorted(f.Active()) {
		out = append(out, strings.TrimPrefix(p.Name, setName+"-")+":"+strings.TrimSuffix(p.Spec.Containers[0].Image, unreadySuffix))
	}
	return strings.Join(out, " ")
}

// ordinals are those of the active Pods, such as "0 2".
func (f *fixture) ordinals() string {
	var out []string
	for _, p := range sorted(f.Active()) {
		out = append(out, strings.TrimPrefix(p.Name, setName+"-"))
	}
	return strings.Join(out, " ")
}

func name(ordinal int) string { return fmt.Sprintf("%s-%d", setName, ordinal) }

const unreadySuffix = "-unready"

// unready makes Pods run without being ready, until ready.
func (f *fixture) unready(ordinals ...int) { f.suffix(unreadySuffix, ordinals...) }

func (f *fixture) ready(ordinals ...int) { f.suffix("", ordinals...) }

func (f *fixture) suffix(suffix string, ordinals ...int) {
	for _, o := range ordinals {
		f.EditPod(name(o), func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			c.Image = strings.TrimSuffix(c.Image, unreadySuffix) + suffix
		})
	}
	f.Settle()
}

func (f *fixture) label(ordinal int, key, value string) {
	f.EditPod(name(ordinal), func(p *corev1.Pod) { p.Labels[key] = value })
}

func (f *fixture) markDelete(ordinals ...int) {
	for _, o := range ordinals {
		f.label(o, pub.SpecifiedDeleteKey, "false")
	}
}

func (f *fixture) stateOf(ordinal int) pub.LifecycleStateType {
	return pods.LifecycleState(f.Pod(name(ordinal)))
}

func (f *fixture) conditionOf(t v1beta1.StatefulSetConditionType) v1beta1.StatefulSetCondition {
	for _, c := range f.Set().Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return v1beta1.StatefulSetCondition{}
}

// terminating are the ordinals of Pods that wait for their end.
func (f *fixture) terminating() string {
	var out []string
	for _, p := range sorted(f.Pods()) {
		if p.DeletionTimestamp != nil {
			out = append(out, strings.TrimPrefix(p.Name, setName+"-"))
		}
	}
	return strings.Join(out, " ")
}
