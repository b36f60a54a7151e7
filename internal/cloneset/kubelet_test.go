package cloneset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// tick lets scheduler and kubelet do the next thing they have to do with a Pod, and says whether there was any. An image
// whose name contains "broken" never becomes ready.
func (m *model) tick(p *corev1.Pod) bool {
	switch {
	case p.DeletionTimestamp != nil:
		if len(p.Finalizers) > 0 {
			return false
		}
		m.remove(resourcePods, p.Namespace+"/"+p.Name)
		return true
	case p.Labels["unschedulable"] != "" || pods.IsTerminal(p):
		return false
	case p.Spec.NodeName == "":
		m.edit(p.Name, func(p *corev1.Pod) {
			p.Spec.NodeName = fmt.Sprintf("node-%d", m.version%3)
			m.condition(p, corev1.PodScheduled, true)
		})
		return true
	}
	if m.steady[p.UID] == p.ResourceVersion {
		return false
	}
	if isSteady(p) {
		m.steady[p.UID] = p.ResourceVersion
		return false
	}
	fresh := p.DeepCopy()
	m.run(fresh)
	m.put(resourcePods, fresh)
	return true
}

// isSteady says whether running the Pod changes nothing.
func isSteady(p *corev1.Pod) bool {
	if p.Status.Phase != corev1.PodRunning || p.Status.ObservedGeneration != p.Generation {
		return false
	}
	ready := true
	for _, c := range p.Spec.Containers {
		s := pods.ContainerStatus(p, c.Name)
		if s == nil || s.Image != c.Image || s.Ready != works(c) || !isInfeasible(c) && !equality.Semantic.DeepEqual(s.Resources, &c.Resources) {
			return false
		}
		ready = ready && s.Ready
	}
	if pods.Condition(p, corev1.ContainersReady) == nil || pods.IsConditionTrue(p, corev1.ContainersReady) != ready {
		return false
	}
	for _, g := range p.Spec.ReadinessGates {
		ready = ready && pods.IsConditionTrue(p, g.ConditionType)
	}
	return pods.Condition(p, corev1.PodReady) != nil && pods.IsConditionTrue(p, corev1.PodReady) == ready
}

// isInfeasible says whether no node can give the container what it asks for, once it runs.
func isInfeasible(c corev1.Container) bool {
	return c.Resources.Limits.Cpu().Cmp(resource.MustParse("100")) > 0
}

func works(c corev1.Container) bool { return !strings.Contains(c.Image, "broken") }

func (m *model) run(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.ObservedGeneration = p.Generation
	ready := true
	for _, c := range p.Spec.Containers {
		s := pods.ContainerStatus(p, c.Name)
		if s == nil {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, RestartCount: -1})
			s = &p.Status.ContainerStatuses[len(p.Status.ContainerStatuses)-1]
		}
		if s.Image != c.Image {
			s.Image, s.ImageID = c.Image, "sha256:"+c.Image
			s.ContainerID = fmt.Sprintf("container-%d", m.version)
			s.RestartCount++
		}
		if !isInfeasible(c) {
			s.Resources = c.Resources.DeepCopy()
		}
		s.Ready = works(c)
		ready = ready && s.Ready
	}
	m.resizePending(p)
	m.condition(p, corev1.ContainersReady, ready)
	for _, g := range p.Spec.ReadinessGates {
		ready = ready && pods.IsConditionTrue(p, g.ConditionType)
	}
	m.condition(p, corev1.PodReady, ready)
}

// resizePending is what the kubelet says of a resize that it cannot carry out.
func (m *model) resizePending(p *corev1.Pod) {
	p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	if slices.ContainsFunc(p.Spec.Containers, isInfeasible) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: "not enough cpu",
		})
	}
}

func (m *model) condition(p *corev1.Pod, t corev1.PodConditionType, is bool) {
	status := workload.Truth(is)
	if c := pods.Condition(p, t); c != nil {
		if c.Status != status {
			c.Status, c.LastTransitionTime = status, metav1.NewTime(m.clock.Now())
		}
		return
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: status, LastTransitionTime: metav1.NewTime(m.clock.Now())})
}

// settle lets everybody but the controller finish what they have to do.
func (m *model) settle() {
	for again := true; again; {
		again = false
		for _, p := range m.podList() {
			again = m.tick(p) || again
		}
	}
}

// active are the Pods that count.
func (m *model) active() []*corev1.Pod {
	return slices.DeleteFunc(m.podList(), func(p *corev1.Pod) bool { return !pods.IsActive(p) || !m.owned(p) })
}

func (m *model) owned(p *corev1.Pod) bool { return metav1.IsControlledBy(p, m.set()) }

func (m *model) available() int { return m.availableAfter(m.set().Spec.MinReadySeconds) }

func (m *model) availableAfter(minReadySeconds int32) int {
	n := 0
	for _, p := range m.active() {
		if pods.IsAvailable(p, minReadySeconds, m.clock.Now()) {
			n++
		}
	}
	return n
}

// images is such as "3a2b".
func (m *model) images() string {
	count := map[string]int{}
	for _, p := range m.active() {
		count[p.Spec.Containers[0].Image]++
	}
	out := ""
	for _, image := range slices.Sorted(maps.Keys(count)) {
		out += fmt.Sprint(count[image], image)
	}
	return out
}

// fixture is a model with what tests ask of it.
type fixture struct {
	*testing.T
	*model
	// fewest and most are the numbers of available and of active Pods after every pass since watch.
	fewest, most int
	counts       []int
}

func newFixture(t *testing.T) *fixture {
	n := 0
	f := &fixture{T: t, model: newModel(Options{}, func(below int) int { n = (n*1103515245 + 12345) & 0x7fffffff; return (n >> 8) % below })}
	f.watch()
	return f
}

func (f *fixture) watch() { f.fewest, f.most, f.counts = 1<<30, 0, nil }

// pass is one sync on current caches, after which everybody else does what they have to do.
func (f *fixture) pass() {
	f.Helper()
	f.show(len(f.history))
	_, err := f.sync()
	require.NoError(f, err)
	f.observe()
	f.settle()
}

func (f *fixture) observe() {
	f.fewest, f.most = min(f.fewest, f.available()), max(f.most, len(f.active()))
	if n := len(f.active()); len(f.counts) == 0 || f.counts[len(f.counts)-1] != n {
		f.counts = append(f.counts, n)
	}
}

// rest passes until nothing happens any more.
func (f *fixture) rest() {
	f.Helper()
	for range 300 {
		before := len(f.history)
		f.pass()
		if len(f.history) == before {
			return
		}
	}
	f.Fatalf("no rest: %s, events %v", f.images(), f.events)
}

type edit = func(*v1beta1.CloneSet)

// start creates a set of Pods at image "a" and waits until it rests.
func (f *fixture) start(replicas int32, edits ...edit) {
	f.Helper()
	f.create(replicas, edits...)
	f.rest()
	f.watch()
}

func (f *fixture) create(replicas int32, edits ...edit) {
	f.apply(func(set *v1beta1.CloneSet) {
		labels := map[string]string{"app": "web"}
		set.Spec.Replicas = &replicas
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		set.Spec.Template.Labels = labels
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "a"}}
		set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{}
		for _, e := range edits {
			e(set)
		}
	})
}

func (f *fixture) edit(edits ...edit) {
	f.apply(func(set *v1beta1.CloneSet) {
		for _, e := range edits {
			e(set)
		}
	})
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

func (f *fixture) names() []string {
	var names []string
	for _, p := range f.active() {
		names = append(names, p.Name)
	}
	return names
}

// withImage is the name of a Pod with that image.
func (f *fixture) withImage(image string) string {
	for _, p := range f.active() {
		if p.Spec.Containers[0].Image == image {
			return p.Name
		}
	}
	f.Fatalf("no Pod at %s", image)
	return ""
}

// deletePod is kubectl delete pod.
func (f *fixture) deletePod(name string) {
	f.model.edit(name, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: f.clock.Now()} })
}

func (f *fixture) conditionOf(t v1beta1.CloneSetConditionType) v1beta1.CloneSetCondition {
	for _, c := range f.set().Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return v1beta1.CloneSetCondition{}
}

func (f *fixture) wait(d time.Duration) { f.clock.Step(d) }
