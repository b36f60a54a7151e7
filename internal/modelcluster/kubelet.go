package modelcluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// Unschedulable is the label of Pods that no node takes.
const Unschedulable = "unschedulable"

// Images whose names contain these do not work: they cannot be pulled, run but are not ready, end as soon as they start.
const (
	Broken  = "broken"
	Unready = "unready"
	Crashes = "crashes"
)

// Why containers wait.
const (
	reasonPull  = "ImagePullBackOff"
	reasonCrash = "CrashLoopBackOff"
)

// Tick lets scheduler and kubelet do the next thing they have to do with a Pod, and says whether there was any.
func (m *Cluster) Tick(p *corev1.Pod) bool {
	switch {
	case p.DeletionTimestamp != nil:
		if len(p.Finalizers) > 0 {
			return false
		}
		m.Remove(Pods, p.Namespace+"/"+p.Name)
		return true
	case p.Labels[Unschedulable] != "" || pods.IsTerminal(p):
		return false
	case p.Spec.NodeName == "":
		m.EditPod(p.Name, func(p *corev1.Pod) {
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
	if fresh.Status.ContainerStatuses == nil {
		m.expandFor(fresh)
	}
	m.run(fresh)
	m.Put(Pods, fresh)
	return true
}

// Settle lets everybody but the controller finish what they have to do.
func (m *Cluster) Settle() {
	m.SettleWith(func(*corev1.Pod) bool { return false })
}

// SettleWith lets somebody else take part, who says whether there was anything to do with the Pod.
func (m *Cluster) SettleWith(more func(*corev1.Pod) bool) {
	for again := true; again; {
		again = false
		for _, p := range m.Pods() {
			again = m.Tick(p) || more(p) || again
		}
		for _, c := range m.unsettledClaims() {
			again = m.TickClaim(c) || again
		}
	}
}

// isSteady says whether running the Pod changes nothing.
func isSteady(p *corev1.Pod) bool {
	if p.Status.ObservedGeneration != p.Generation {
		return false
	}
	ready := true
	for _, c := range p.Spec.Containers {
		s := pods.ContainerStatus(p, c.Name)
		if s == nil || !isRunning(s, c) || !IsInfeasible(c) && !equality.Semantic.DeepEqual(s.Resources, &c.Resources) {
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
	return p.Status.Phase == phase(p) && pods.Condition(p, corev1.PodReady) != nil && pods.IsConditionTrue(p, corev1.PodReady) == ready
}

// isRunning says whether the container has come as far as it can.
func isRunning(s *corev1.ContainerStatus, c corev1.Container) bool {
	if !canStart(c) {
		return s.State.Waiting != nil && s.State.Waiting.Reason == reasonPull
	}
	return s.Image == c.Image && s.Ready == Works(c) && isWaiting(s) == crashes(c)
}

// IsInfeasible says whether no node can give the container what it asks for, once it runs: more than 100 CPUs.
func IsInfeasible(c corev1.Container) bool { return c.Resources.Limits.Cpu().Cmp(manyCPUs) > 0 }

var manyCPUs = resource.MustParse("100")

func canStart(c corev1.Container) bool { return !strings.Contains(c.Image, Broken) }

func crashes(c corev1.Container) bool { return strings.Contains(c.Image, Crashes) }

// Works says whether the container becomes ready once it runs.
func Works(c corev1.Container) bool {
	return canStart(c) && !crashes(c) && !strings.Contains(c.Image, Unready)
}

func isWaiting(s *corev1.ContainerStatus) bool { return s.State.Waiting != nil }

func (m *Cluster) run(p *corev1.Pod) {
	p.Status.ObservedGeneration = p.Generation
	ready := true
	for _, c := range p.Spec.Containers {
		s := pods.ContainerStatus(p, c.Name)
		if s == nil {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name})
			s = &p.Status.ContainerStatuses[len(p.Status.ContainerStatuses)-1]
		}
		m.runContainer(s, c)
		ready = ready && s.Ready
	}
	p.Status.Phase = phase(p)
	m.resizePending(p)
	m.condition(p, corev1.ContainersReady, ready)
	for _, g := range p.Spec.ReadinessGates {
		ready = ready && pods.IsConditionTrue(p, g.ConditionType)
	}
	m.condition(p, corev1.PodReady, ready)
}

func (m *Cluster) runContainer(s *corev1.ContainerStatus, c corev1.Container) {
	s.Ready = Works(c)
	if !IsInfeasible(c) {
		s.Resources = c.Resources.DeepCopy()
	}
	if !canStart(c) {
		// What ran before has ended, and is what the status tells of.
		if s.ContainerID != "" {
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{}
		} else {
			s.Image = c.Image
		}
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonPull}}
		return
	}
	if s.Image != c.Image || s.ImageID == "" || isWaiting(s) && !crashes(c) {
		if s.ContainerID != "" {
			s.RestartCount++
		}
		s.Image, s.ImageID = c.Image, "sha256:"+c.Image
		s.ContainerID = fmt.Sprintf("container-%d", m.version)
	}
	s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	if crashes(c) {
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonCrash}}
	}
}

// phase is Pending as long as a container has never started.
func phase(p *corev1.Pod) corev1.PodPhase {
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; isWaiting(s) && s.LastTerminationState.Terminated == nil {
			return corev1.PodPending
		}
	}
	return corev1.PodRunning
}

// resizePending is what the kubelet says of a resize that it cannot carry out.
func (m *Cluster) resizePending(p *corev1.Pod) {
	p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	if slices.ContainsFunc(p.Spec.Containers, IsInfeasible) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: "not enough cpu",
			ObservedGeneration: p.Generation,
		})
	}
}

func (m *Cluster) condition(p *corev1.Pod, t corev1.PodConditionType, is bool) {
	status := workload.Truth(is)
	now := metav1.NewTime(m.Clock.Now())
	if c := pods.Condition(p, t); c == nil {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: status, LastTransitionTime: now})
	} else if c.Status != status {
		c.Status, c.LastTransitionTime = status, now
	}
}
