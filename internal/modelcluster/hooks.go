package modelcluster

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// The hooks of simulated workloads: two that the template puts on and a user's controller takes off, and one that it adds.
const (
	hookDelete = "hook/delete"
	hookUpdate = "hook/update"
	hookNormal = "hook/normal"
)

// Hooks chooses which hooks a workload has.
type Hooks struct{ PreDelete, InPlaceUpdate, PreNormal, MarkPodNotReady bool }

// RandomHooks are mostly none.
func (s *Simulation) RandomHooks() Hooks {
	return Hooks{PreDelete: s.Chance(4), InPlaceUpdate: s.Chance(4), PreNormal: s.Chance(6), MarkPodNotReady: s.Chance(2)}
}

// Put adds the hooks to the labels of a template and returns them; nil without any.
func (h Hooks) Put(labels map[string]string) *pub.Lifecycle {
	if !h.PreDelete && !h.InPlaceUpdate && !h.PreNormal {
		return nil
	}
	l := &pub.Lifecycle{}
	if h.PreDelete {
		labels[hookDelete] = "on"
		l.PreDelete = &pub.LifecycleHook{LabelsHandler: map[string]string{hookDelete: "on"}, MarkPodNotReady: h.MarkPodNotReady}
	}
	if h.InPlaceUpdate {
		labels[hookUpdate] = "on"
		l.InPlaceUpdate = &pub.LifecycleHook{LabelsHandler: map[string]string{hookUpdate: "on"}, MarkPodNotReady: h.MarkPodNotReady}
	}
	if h.PreNormal {
		l.PreNormal = &pub.LifecycleHook{LabelsHandler: map[string]string{hookNormal: "on"}}
	}
	return l
}

// AnswerHook is the user's controller: it lets a Pod go that waits for it, and says whether it had anything to do.
func (m *Cluster) AnswerHook(p *corev1.Pod, l *pub.Lifecycle) bool {
	if l == nil || p.DeletionTimestamp != nil {
		return false
	}
	label, want, hook := "", "", (*pub.LifecycleHook)(nil)
	switch pub.LifecycleStateType(p.Labels[pub.LifecycleStateKey]) {
	case pub.LifecycleStatePreparingDelete:
		label, want, hook = hookDelete, "off", l.PreDelete
	case pub.LifecycleStatePreparingUpdate:
		label, want, hook = hookUpdate, "off", l.InPlaceUpdate
	case pub.LifecycleStateUpdated:
		label, want, hook = hookUpdate, "on", l.InPlaceUpdate
	case pub.LifecycleStatePreparingNormal:
		label, want, hook = hookNormal, "on", l.PreNormal
	}
	if hook == nil || p.Labels[label] == want {
		return false
	}
	m.EditPod(p.Name, func(p *corev1.Pod) { p.Labels[label] = want })
	return true
}
