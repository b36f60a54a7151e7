package cloneset

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

const (
	resourcePods      = modelcluster.Pods
	resourceClaims    = modelcluster.Claims
	resourceRevisions = modelcluster.Revisions
	resourceSets      = "clonesets"

	namespace, setName = modelcluster.Namespace, modelcluster.Name
)

type object = modelcluster.Object

// fixture is a model cluster with a controller of sets.
type fixture struct {
	*modelcluster.Fixture[*v1beta1.CloneSet]
	options    Options
	controller *Controller
}

func newFixture(t *testing.T) *fixture { return fixtureOf(t, Options{}, modelcluster.Pseudorandom()) }

func fixtureOf(t *testing.T, options Options, random func(int) int) *fixture {
	f := &fixture{options: options}
	f.Fixture = modelcluster.NewFixture[*v1beta1.CloneSet](t, modelcluster.Kind{
		Resource:        resourceSets,
		New:             func() object { return &v1beta1.CloneSet{} },
		MinReadySeconds: func(o object) int32 { return o.(*v1beta1.CloneSet).Spec.MinReadySeconds },
		Build: func(env *app.Env, alarm *modelcluster.Alarm) modelcluster.Built {
			c, err := newController(env, f.options)
			must(err)
			// What the queue has started must end, or it piles up over the schedules.
			c.loop.(*kube.Loop).ShutDown()
			c.loop, c.can, c.random, c.parallel = alarm, inplace.Abilities{Resize: true}, random, 1
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

type edit = func(*v1beta1.CloneSet)

// start creates a set of Pods at image "a" and waits until it rests.
func (f *fixture) start(replicas int32, edits ...edit) {
	f.Helper()
	f.create(replicas, edits...)
	f.Rest()
	f.Watch()
}

func (f *fixture) create(replicas int32, edits ...edit) {
	labels := map[string]string{"app": "web"}
	f.Edit(append([]edit{func(set *v1beta1.CloneSet) {
		set.Spec.Replicas = &replicas
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		set.Spec.Template.Labels = maps.Clone(labels)
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "a"}}
		set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{}
	}}, edits...)...)
}

func image(name string) edit {
	return func(s *v1beta1.CloneSet) { s.Spec.Template.Spec.Containers[0].Image = name }
}

func replicas(n int32) edit { return func(s *v1beta1.CloneSet) { s.Spec.Replicas = &n } }

func rolling(e func(*v1beta1.RollingUpdateCloneSetStrategy)) edit {
	return func(s *v1beta1.CloneSet) { e(s.Spec.UpdateStrategy.RollingUpdate) }
}

func unavailable(v string) edit {
	return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.MaxUnavailable = ptr.To(intstr.Parse(v)) })
}

func surge(v string) edit {
	return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.MaxSurge = ptr.To(intstr.Parse(v)) })
}

func partition(v string) edit {
	return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Partition = ptr.To(intstr.Parse(v)) })
}

func paused(is bool) edit {
	return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.Paused = is })
}

func inPlace(s *v1beta1.CloneSet) {
	s.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType
}

func (f *fixture) conditionOf(t v1beta1.CloneSetConditionType) v1beta1.CloneSetCondition {
	for _, c := range f.Set().Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return v1beta1.CloneSetCondition{}
}
