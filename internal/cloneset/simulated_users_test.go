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
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

// setUp is what a set keeps through all its specs.
func (s *simulation) setUp() edit {
	claims, reuse, deadline := s.Chance(3), s.Chance(2), s.Chance(3)
	hooks := s.RandomHooks()
	exclude, prioritised, batches := s.Chance(4), s.Chance(4), s.Chance(2)
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
		set.Spec.Lifecycle = hooks.Put(set.Spec.Template.Labels)
		if prioritised {
			set.Spec.UpdateStrategy.RollingUpdate.PriorityStrategy = &pub.UpdatePriorityStrategy{
				OrderPriority: []pub.UpdatePriorityOrderTerm{{OrderedKey: "v"}},
			}
		}
		s.randomStrategy()(set)
	}
}

// randomEdit is one change by a user. The last one leaves a spec that can be fulfilled.
func (s *simulation) randomEdit(last bool) edit {
	images := []string{"a", "b", "c", modelcluster.Broken, modelcluster.Unready}
	if last {
		images = images[:3]
	}
	image := images[s.Random.IntN(len(images))]
	switch {
	case !last && s.Chance(3), last && s.Chance(5):
		image = ""
	}
	newImage, newLabel, newStrategy := image != "", s.Chance(5), s.Chance(2)
	replicas, named := int32(s.Random.IntN(9)), s.Names()
	strategy := s.randomStrategy()
	label := fmt.Sprint(s.Random.IntN(3))
	scales := s.Chance(2)
	specifies := s.Chance(6)
	resizes, cpu := s.Chance(6), 1+int64(s.Random.IntN(3))
	sides, side := s.Chance(2), fmt.Sprintf("s%d", 1+s.Random.IntN(3))
	return func(set *v1beta1.CloneSet) {
		template := &set.Spec.Template
		if newImage || last && !modelcluster.Works(template.Spec.Containers[0]) {
			template.Spec.Containers[0].Image = images[s.Random.IntN(len(images))]
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
			set.Spec.ScaleStrategy.PodsToDelete = slices.Clone(named[:1+s.Random.IntN(len(named))])
		}
	}
}

// randomStrategy replaces everything that says how the set is updated.
func (s *simulation) randomStrategy() edit {
	values := []string{"0", "0", "1", "2", "3", "20%", "50%", "100%"}
	pick := func() *intstr.IntOrString { return ptr.To(intstr.Parse(values[s.Random.IntN(len(values))])) }
	u, g, p := pick(), pick(), pick()
	if u.String() == "0" && g.String() == "0" {
		u = ptr.To(intstr.FromInt32(1))
	}
	policies := []v1beta1.CloneSetPodUpdatePolicyType{
		v1beta1.ReCreateCloneSetPodUpdatePolicyType, v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType, v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType,
	}
	policy := policies[s.Random.IntN(len(policies))]
	onDelete, paused, grace, minReady, throttle := s.Chance(12), s.Chance(10), s.Chance(3), s.Chance(5), s.Chance(6)
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
			set.Spec.ScaleStrategy.MaxUnavailable = ptr.To(intstr.FromInt32(1 + int32(s.Random.IntN(3))))
		}
	}
}

func (s *simulation) answerHook(p *corev1.Pod) bool { return s.AnswerHook(p, s.Set().Spec.Lifecycle) }

// interfere is what people and clusters do to Pods. What budgets hold for even in a friendly cluster comes first.
func (s *simulation) interfere() {
	list := s.Active()
	if len(list) == 0 || !s.Faults {
		return
	}
	name := list[s.Random.IntN(len(list))].Name
	n := 1
	if s.hostile {
		n = 8
	}
	kind := s.Random.IntN(n)
	s.Tellf("interference %d with %s", kind, name)
	switch kind {
	case 0:
		if s.Chance(3) {
			s.markDelete(name)
		}
	case 1:
		s.DeletePod(name)
	case 2:
		s.Remove(resourcePods, namespace+"/"+name)
	case 3:
		s.EditPod(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	case 4:
		s.EditPod(name, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
	case 5:
		s.relabelBack()
	case 6:
		s.EditPod(name, func(p *corev1.Pod) { delete(p.Labels, pub.CloneSetInstanceIDKey) })
	case 7:
		labels := []string{"garbage", "garbage", string(pub.LifecycleStateNormal), string(pub.LifecycleStateUpdating)}
		label := labels[s.Random.IntN(len(labels))]
		s.EditPod(name, func(p *corev1.Pod) { p.Labels[pub.LifecycleStateKey] = label })
	}
}

// relabelBack gives every Pod that was taken out of the set its label again.
func (s *simulation) relabelBack() {
	for _, p := range s.Pods() {
		if p.Labels["app"] == "debug" {
			s.EditPod(p.Name, func(p *corev1.Pod) { p.Labels["app"] = "web" })
		}
	}
}
