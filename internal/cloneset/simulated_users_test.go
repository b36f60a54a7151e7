package cloneset

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// The hooks of simulated sets: two that the template puts on and a user's controller takes off, and one that it adds.
const (
	hookDelete = "hook/delete"
	hookUpdate = "hook/update"
	hookNormal = "hook/normal"
)

// setUp is what a set keeps through all its specs.
func (s *simulation) setUp() edit {
	claims, reuse, deadline := s.chance(3), s.chance(2), s.chance(3)
	hooks := [3]bool{s.chance(4), s.chance(4), s.chance(6)}
	markNotReady := s.chance(2)
	exclude, prioritised, batches := s.chance(4), s.chance(4), s.chance(2)
	return func(set *v1beta1.CloneSet) {
		if claims {
			claimTemplate(set)
			// Different volumes of one name would need an API server that refuses them.
			set.Spec.Template.Spec.Volumes = nil
			set.Spec.ScaleStrategy.EnablePVCReuse = reuse
		}
		if deadline {
			set.Spec.ProgressDeadlineSeconds = ptr.To(int32(30))
		}
		set.Spec.ScaleStrategy.ExcludePreparingDelete = exclude
		set.Spec.Template.Labels = map[string]string{"app": "web", "v": "0"}
		set.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		}
		set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers, corev1.Container{Name: "side", Image: "s1"})
		if batches {
			set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: pub.ContainerPriorityEnv, Value: "0"}}
			set.Spec.Template.Spec.Containers[1].Env = []corev1.EnvVar{{Name: pub.ContainerPriorityEnv, Value: "10"}}
		}
		s.putHooks(set, hooks, markNotReady)
		if prioritised {
			set.Spec.UpdateStrategy.RollingUpdate.PriorityStrategy = &pub.UpdatePriorityStrategy{
				OrderPriority: []pub.UpdatePriorityOrderTerm{{OrderedKey: "v"}},
			}
		}
		s.randomStrategy()(set)
	}
}

func (s *simulation) putHooks(set *v1beta1.CloneSet, hooks [3]bool, markNotReady bool) {
	if hooks == [3]bool{} {
		return
	}
	set.Spec.Lifecycle = &pub.Lifecycle{}
	if hooks[0] {
		set.Spec.Template.Labels[hookDelete] = "on"
		set.Spec.Lifecycle.PreDelete = &pub.LifecycleHook{LabelsHandler: map[string]string{hookDelete: "on"}, MarkPodNotReady: markNotReady}
	}
	if hooks[1] {
		set.Spec.Template.Labels[hookUpdate] = "on"
		set.Spec.Lifecycle.InPlaceUpdate = &pub.LifecycleHook{LabelsHandler: map[string]string{hookUpdate: "on"}, MarkPodNotReady: markNotReady}
	}
	if hooks[2] {
		set.Spec.Lifecycle.PreNormal = &pub.LifecycleHook{LabelsHandler: map[string]string{hookNormal: "on"}}
	}
}

// randomEdit is one change by a user. The last one leaves a spec that can be fulfilled.
func (s *simulation) randomEdit(last bool) edit {
	images := []string{"a", "b", "c", "broken"}
	if last {
		images = images[:3]
	}
	image := images[s.random.IntN(len(images))]
	switch {
	case !last && s.chance(3), last && s.chance(5):
		image = ""
	}
	newImage, newLabel, newStrategy := image != "", s.chance(5), s.chance(2)
	replicas, named := int32(s.random.IntN(9)), s.names()
	strategy := s.randomStrategy()
	label := fmt.Sprint(s.random.IntN(3))
	scales := s.chance(2)
	specifies := s.chance(6)
	resizes, cpu := s.chance(6), 1+int64(s.random.IntN(3))
	sides, side := s.chance(2), fmt.Sprintf("s%d", 1+s.random.IntN(3))
	return func(set *v1beta1.CloneSet) {
		template := &set.Spec.Template
		if newImage || last && template.Spec.Containers[0].Image == "broken" {
			template.Spec.Containers[0].Image = images[s.random.IntN(len(images))]
		}
		if sides {
			template.Spec.Containers[1].Image = side
		}
		if resizes {
			template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpu, resource.DecimalSI)}
		}
		if newLabel {
			template.Labels["v"] = label
		}
		if scales {
			set.Spec.Replicas = &replicas
		}
		if newStrategy {
			strategy(set)
		}
		if specifies && len(named) > 0 {
			set.Spec.ScaleStrategy.PodsToDelete = slices.Clone(named[:1+s.random.IntN(len(named))])
		}
	}
}

// randomStrategy replaces everything that says how the set is updated.
func (s *simulation) randomStrategy() edit {
	values := []string{"0", "0", "1", "2", "3", "20%", "50%", "100%"}
	pick := func() *intstr.IntOrString { return ptr.To(intstr.Parse(values[s.random.IntN(len(values))])) }
	u, g, p := pick(), pick(), pick()
	if u.String() == "0" && g.String() == "0" {
		u = ptr.To(intstr.FromInt32(1))
	}
	policies := []v1beta1.CloneSetPodUpdatePolicyType{
		v1beta1.ReCreateCloneSetPodUpdatePolicyType, v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType, v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType,
	}
	policy := policies[s.random.IntN(len(policies))]
	onDelete, paused, grace, minReady, throttle := s.chance(12), s.chance(10), s.chance(3), s.chance(5), s.chance(6)
	return func(set *v1beta1.CloneSet) {
		old := set.Spec.UpdateStrategy.RollingUpdate
		r := &v1beta1.RollingUpdateCloneSetStrategy{
			MaxUnavailable: u, MaxSurge: g, Partition: p, PodUpdatePolicy: policy, Paused: paused, PriorityStrategy: old.PriorityStrategy,
		}
		if grace {
			r.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{GracePeriodSeconds: 2}
		}
		set.Spec.UpdateStrategy.RollingUpdate = r
		set.Spec.UpdateStrategy.Type = v1beta1.RollingUpdateCloneSetUpdateStrategyType
		if onDelete {
			// The surge of an update that waits for a user stays.
			r.MaxUnavailable, r.MaxSurge = ptr.To(intstr.FromInt32(1)), nil
			set.Spec.UpdateStrategy.Type = v1beta1.OnDeleteCloneSetUpdateStrategyType
		}
		set.Spec.MinReadySeconds = 0
		if minReady {
			set.Spec.MinReadySeconds = 3
		}
		set.Spec.ScaleStrategy.MaxUnavailable = nil
		if throttle {
			set.Spec.ScaleStrategy.MaxUnavailable = ptr.To(intstr.FromInt32(1 + int32(s.random.IntN(3))))
		}
	}
}

// answerHook is the user's controller: it lets a Pod go that waits for it, and says whether it had anything to do.
func (s *simulation) answerHook(p *corev1.Pod) bool {
	label, want := "", ""
	switch pub.LifecycleStateType(p.Labels[pub.LifecycleStateKey]) {
	case pub.LifecycleStatePreparingDelete:
		label, want = hookDelete, "off"
	case pub.LifecycleStatePreparingUpdate:
		label, want = hookUpdate, "off"
	case pub.LifecycleStateUpdated:
		label, want = hookUpdate, "on"
	case pub.LifecycleStatePreparingNormal:
		label, want = hookNormal, "on"
	}
	if label == "" || p.Labels[label] == want || p.DeletionTimestamp != nil || s.set().Spec.Lifecycle == nil {
		return false
	}
	if label == hookUpdate && s.set().Spec.Lifecycle.InPlaceUpdate == nil || label == hookNormal && s.set().Spec.Lifecycle.PreNormal == nil ||
		label == hookDelete && s.set().Spec.Lifecycle.PreDelete == nil {
		return false
	}
	s.model.edit(p.Name, func(p *corev1.Pod) { p.Labels[label] = want })
	return true
}

// interfere is what people and clusters do to Pods. What budgets hold for even in a friendly cluster comes first.
func (s *simulation) interfere() {
	list := s.active()
	if len(list) == 0 || !s.faults {
		return
	}
	name := list[s.random.IntN(len(list))].Name
	n := 1
	if s.hostile {
		n = 8
	}
	kind := s.random.IntN(n)
	s.tellf("interference %d with %s", kind, name)
	switch kind {
	case 0:
		if s.chance(3) {
			s.markDelete(name)
		}
	case 1:
		s.deletePod(name)
	case 2:
		s.remove(resourcePods, namespace+"/"+name)
	case 3:
		s.model.edit(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	case 4:
		s.model.edit(name, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
	case 5:
		s.relabelBack()
	case 6:
		s.model.edit(name, func(p *corev1.Pod) { delete(p.Labels, pub.CloneSetInstanceIDKey) })
	case 7:
		s.model.edit(name, func(p *corev1.Pod) { p.Labels[pub.LifecycleStateKey] = "garbage" })
	}
}

// relabelBack gives every Pod that was taken out of the set its label again.
func (s *simulation) relabelBack() {
	for _, p := range s.podList() {
		if p.Labels["app"] == "debug" {
			s.model.edit(p.Name, func(p *corev1.Pod) { p.Labels["app"] = "web" })
		}
	}
}
