package statefulset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

// setUp is what a set keeps through all its specs.
func (s *simulation) setUp() edit {
	ordered, claims, hooks := s.Chance(2), s.Chance(2), s.RandomHooks()
	policies := []v1beta1.PersistentVolumeClaimRetentionPolicyType{"Retain", "Delete"}
	whenDeleted, whenScaled := policies[s.Random.IntN(2)], policies[s.Random.IntN(2)]
	follows, batches := s.Chance(2), s.Chance(2)
	return func(set *v1beta1.StatefulSet) {
		if !ordered {
			parallel(set)
		}
		set.Spec.Template.Labels["v"] = "0"
		set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers, corev1.Container{Name: "side", Image: "s1"})
		cpu("2")(set)
		if batches {
			set.Spec.Template.Spec.Containers[1].Env = []corev1.EnvVar{{Name: pub.ContainerPriorityEnv, Value: "10"}}
		}
		set.Spec.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: pub.InPlaceUpdateReady}}
		if claims {
			s.class(ptr.To(true))
			claimTemplate("data", "1Gi")(set)
			retain(whenDeleted, whenScaled)(set)
			if follows {
				follow(set)
			}
		}
		set.Spec.Lifecycle = hooks.Put(set.Spec.Template.Labels)
		s.randomStrategy(ordered)(set)
	}
}

// randomEdit is one change by a user. The last one leaves a spec that can be fulfilled.
func (s *simulation) randomEdit(last bool) edit {
	images := []string{"a", "b", "c", modelcluster.Broken, modelcluster.Crashes, modelcluster.Unready}
	cpus := []string{"2", "3", "4", "200"}
	if last {
		images, cpus = images[:3], cpus[:3]
	}
	cpus, resizes := cpus[s.Random.IntN(len(cpus)):], s.Chance(3) || last
	image, label, side := images[s.Random.IntN(len(images))], fmt.Sprint(s.Random.IntN(3)), fmt.Sprintf("s%d", 1+s.Random.IntN(3))
	newImage, newLabel, newSide, newStrategy := !s.Chance(3), s.Chance(5), s.Chance(3), s.Chance(2)
	replicas, scales, reserves, begins := int32(s.Random.IntN(7)), s.Chance(2), s.Chance(3), s.Chance(8)
	var reserved []any
	for range s.Random.IntN(4) {
		first := s.Random.IntN(6)
		reserved = append(reserved, fmt.Sprintf("%d-%d", first, first+s.Random.IntN(2)))
	}
	first := int32(s.Random.IntN(3))
	size, grows := fmt.Sprintf("%dGi", 1+s.Random.IntN(4)), s.Chance(4)
	ordered := isOrdered(&s.Set().Spec)
	strategy, changesClaims := s.randomStrategy(ordered), s.Chance(6)
	return func(set *v1beta1.StatefulSet) {
		template := &set.Spec.Template
		if newImage || last && !modelcluster.Works(template.Spec.Containers[0]) {
			template.Spec.Containers[0].Image = image
		}
		if resizes {
			cpu(cpus[0])(set)
		}
		if newSide {
			template.Spec.Containers[1].Image = side
		}
		if newLabel {
			template.Labels["v"] = label
		}
		if scales {
			set.Spec.Replicas = &replicas
		}
		if reserves {
			reserve(reserved...)(set)
		}
		if begins {
			start(first)(set)
		}
		if grows && len(set.Spec.VolumeClaimTemplates) > 0 {
			claimTemplate("data", size)(set)
		}
		if changesClaims {
			addOrRemoveClaim(set)
		}
		if newStrategy {
			strategy(set)
		}
	}
}

// addOrRemoveClaim changes which claims Pods have, where that is allowed.
func addOrRemoveClaim(set *v1beta1.StatefulSet) {
	templates := set.Spec.VolumeClaimTemplates
	switch {
	case len(templates) == 0 || set.Spec.VolumeClaimUpdateStrategy.Type == v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType:
	case len(templates) == 1:
		claimTemplate("logs", "1Gi")(set)
	default:
		set.Spec.VolumeClaimTemplates = templates[:1]
	}
}

// randomStrategy replaces everything that says how the set is updated.
func (s *simulation) randomStrategy(ordered bool) edit {
	values := []string{"1", "1", "2", "3", "20%", "50%", "100%"}
	pick := func() *intstr.IntOrString { return ptr.To(intstr.Parse(values[s.Random.IntN(len(values))])) }
	u, m, p := pick(), pick(), int32(max(0, s.Random.IntN(8)-3))
	policies := []v1beta1.StatefulSetPodUpdatePolicyType{
		v1beta1.RecreatePodUpdateStrategyType, v1beta1.InPlaceIfPossiblePodUpdateStrategyType, v1beta1.InPlaceOnlyPodUpdateStrategyType,
	}
	policy := policies[s.Random.IntN(len(policies))]
	deletes, paused, grace, minReady, throttle, prioritised := s.Chance(12), s.Chance(10), s.Chance(3), s.Chance(5), s.Chance(4), s.Chance(4)
	return func(set *v1beta1.StatefulSet) {
		if deletes {
			onDelete(set)
			return
		}
		r := &v1beta1.RollingUpdateStatefulSetStrategy{Partition: &p, PodUpdatePolicy: policy, Paused: paused, MinReadySeconds: ptr.To(int32(0))}
		set.Spec.UpdateStrategy = v1beta1.StatefulSetUpdateStrategy{Type: v1beta1.RollingUpdateStatefulSetStrategyType, RollingUpdate: r}
		if grace {
			r.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{GracePeriodSeconds: 2}
		}
		if minReady {
			r.MinReadySeconds = ptr.To(int32(3))
		}
		set.Spec.ScaleStrategy = nil
		if ordered {
			return
		}
		r.MaxUnavailable = u
		if throttle {
			set.Spec.ScaleStrategy = &v1beta1.StatefulSetScaleStrategy{MaxUnavailable: m}
		}
		if prioritised {
			unordered(&pub.UpdatePriorityStrategy{OrderPriority: []pub.UpdatePriorityOrderTerm{{OrderedKey: "v"}}})(set)
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
		n = 12
	}
	kind := s.Random.IntN(n)
	s.Tellf("interference %d with %s", kind, name)
	switch kind {
	case 0:
		if s.Chance(3) {
			s.EditPod(name, func(p *corev1.Pod) { p.Labels[pub.SpecifiedDeleteKey] = "" })
		}
	case 1:
		s.DeletePod(name)
	case 2:
		s.Remove(modelcluster.Pods, namespace+"/"+name)
	case 3:
		s.EditPod(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	case 4:
		s.EditPod(name, func(p *corev1.Pod) { p.OwnerReferences = nil })
	case 5:
		s.EditPod(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	case 6:
		s.EditPod(name, func(p *corev1.Pod) { delete(p.Labels, "statefulset.kubernetes.io/pod-name") })
	case 7:
		labels := []string{"garbage", "garbage", string(pub.LifecycleStateNormal), string(pub.LifecycleStateUpdating)}
		label := labels[s.Random.IntN(len(labels))]
		s.EditPod(name, func(p *corev1.Pod) { p.Labels[pub.LifecycleStateKey] = label })
	case 8:
		s.EditPod(name, func(p *corev1.Pod) { p.Labels["app"] = "other" })
	case 9:
		for _, p := range s.Pods() {
			if p.Labels["app"] == "other" {
				s.EditPod(p.Name, func(p *corev1.Pod) { p.Labels["app"] = "web" })
			}
		}
	case 10:
		s.occupy(name)
	case 11:
		// An autoscaler.
		s.EditPod(name, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5")}
			p.Generation++
		})
	}
}

// stranger is who holds names that the set wants.
const stranger types.UID = "stranger"

// occupy gives one of the names that the set may want to somebody else, if it is free.
func (s *simulation) occupy(like string) {
	taken := name(s.Random.IntN(9))
	if s.Pod(taken) != nil {
		return
	}
	p := s.Pod(like).DeepCopy()
	p.Name, p.UID = taken, types.UID("of a stranger: "+fmt.Sprint(s.Changes()))
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: stranger, Controller: ptr.To(true)}}
	s.Put(modelcluster.Pods, p)
}

// comeBack gives the set its names back, and the Pods that it has lost by their labels.
func (s *simulation) comeBack() {
	for _, p := range s.Pods() {
		switch c := metav1.GetControllerOf(p); {
		case c != nil && c.UID == stranger:
			s.Remove(modelcluster.Pods, namespace+"/"+p.Name)
		case p.Labels["app"] != "web":
			s.EditPod(p.Name, func(p *corev1.Pod) { p.Labels["app"] = "web" })
		}
	}
}
