package kube

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// TrimMeta drops what no controller reads from an object's metadata.
func TrimMeta(object metav1.Object) {
	object.SetManagedFields(nil)
	delete(object.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
}

// TrimPods returns the transform of a Pod informer. Pods for which isOurs is false become stubs: they are seen, but
// take next to no memory. claims keeps the volumes that are claims.
func TrimPods(isOurs func(*corev1.Pod) bool, claims bool) cache.TransformFunc {
	return func(object any) (any, error) {
		p, ok := object.(*corev1.Pod)
		if !ok {
			return object, nil
		}
		if !isOurs(p) {
			return stub(p), nil
		}
		TrimMeta(p)
		p.GenerateName = ""
		keep := neededBy(p)
		keep.claims = claims
		if !keep.environment {
			maps.DeleteFunc(p.Annotations, func(key, _ string) bool { return !isRead(key) })
		}
		return &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: trimSpec(&p.Spec, keep), Status: trimStatus(&p.Status, keep)}, nil
	}
}

// needs are parts that are read of few Pods only.
type needs struct{ environment, resources, claims bool }

// neededBy looks at what the Pod's in-place update has to do with. A needless match costs memory and nothing else.
func neededBy(p *corev1.Pod) needs {
	record := p.Annotations[pub.InPlaceUpdateStateKey] + p.Annotations[pub.InPlaceUpdateStateKeyOld]
	_, daemon := p.Annotations[pub.RuntimeContainersMetaKey]
	return needs{
		environment: daemon || strings.Contains(record, `"updateEnvFromMetadata":true`),
		resources:   strings.Contains(record, `"updateResources":true`),
	}
}

// isRead says whether any reader looks at the annotation of a Pod.
func isRead(key string) bool {
	switch key {
	case corev1.PodDeletionCost, pub.CloneSetRecreateRevisionKey, pub.ContainerLaunchPriorityKey, pub.RuntimeContainersMetaKey,
		pub.InPlaceUpdateStateKey, pub.InPlaceUpdateGraceKey, pub.InPlaceUpdateStateKeyOld, pub.InPlaceUpdateGraceKeyOld:
		return true
	}
	return false
}

func stub(p *corev1.Pod) *corev1.Pod {
	var owners []metav1.OwnerReference
	if c := metav1.GetControllerOfNoCopy(p); c != nil {
		owners = []metav1.OwnerReference{*c}
	}
	// That it is being deleted is what its former owner may still wait to see.
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion, OwnerReferences: owners,
		DeletionTimestamp: p.DeletionTimestamp,
	}}
}

func trimSpec(s *corev1.PodSpec, keep needs) corev1.PodSpec {
	out := corev1.PodSpec{NodeName: s.NodeName, ReadinessGates: s.ReadinessGates}
	out.Containers = make([]corev1.Container, len(s.Containers))
	for i := range s.Containers {
		c := &s.Containers[i]
		out.Containers[i] = corev1.Container{Name: c.Name, Image: c.Image}
		for _, e := range c.Env {
			if e.Name == pub.ContainerBarrierEnv || e.Name == pub.ContainerPriorityEnv || keep.environment && e.ValueFrom != nil {
				out.Containers[i].Env = append(out.Containers[i].Env, e)
			}
		}
		if keep.resources {
			out.Containers[i].Resources, out.Containers[i].ResizePolicy = c.Resources, c.ResizePolicy
		}
	}
	for i := range s.Volumes {
		if v := &s.Volumes[i]; keep.claims && v.PersistentVolumeClaim != nil {
			out.Volumes = append(out.Volumes, *v)
		}
	}
	return out
}

func trimStatus(s *corev1.PodStatus, keep needs) corev1.PodStatus {
	out := corev1.PodStatus{Phase: s.Phase, ObservedGeneration: s.ObservedGeneration}
	out.Conditions = make([]corev1.PodCondition, 0, 4)
	for i := range s.Conditions {
		c := s.Conditions[i]
		switch c.Type {
		case corev1.PodReady, corev1.ContainersReady, pub.InPlaceUpdateReady:
			c.Message = ""
		case pub.KruisePodReady, corev1.PodResizePending:
			// The message is the list of those who keep the Pod from being ready, or what the node lacks.
		default:
			continue
		}
		c.LastProbeTime = metav1.Time{}
		out.Conditions = append(out.Conditions, c)
	}
	out.ContainerStatuses = make([]corev1.ContainerStatus, len(s.ContainerStatuses))
	for i := range s.ContainerStatuses {
		c := &s.ContainerStatuses[i]
		out.ContainerStatuses[i] = corev1.ContainerStatus{
			Name: c.Name, Ready: c.Ready, RestartCount: c.RestartCount, Image: c.Image, ImageID: c.ImageID, ContainerID: c.ContainerID,
		}
		if keep.resources {
			out.ContainerStatuses[i].Resources = c.Resources
		}
		if c.State.Running != nil {
			out.ContainerStatuses[i].State.Running = c.State.Running
		}
		out.ContainerStatuses[i].State.Waiting = reasonOf(c.State.Waiting)
	}
	for i := range s.InitContainerStatuses {
		// One that does not get started keeps the Pod from serving.
		if c := &s.InitContainerStatuses[i]; c.State.Waiting != nil {
			out.InitContainerStatuses = append(out.InitContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, State: corev1.ContainerState{Waiting: reasonOf(c.State.Waiting)},
			})
		}
	}
	return out
}

func reasonOf(w *corev1.ContainerStateWaiting) *corev1.ContainerStateWaiting {
	if w == nil {
		return nil
	}
	return &corev1.ContainerStateWaiting{Reason: w.Reason}
}
