package inplace

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// IsCompleted says whether all that the latest in-place update has to change has taken effect. A Pod without one is.
func IsCompleted(p *corev1.Pod) bool {
	r := Read(p)
	if r.Grace != nil {
		return false
	}
	return r.State == nil || !hasNext(r.State) && batchesCompleted(p, r.State)
}

func hasNext(s *pub.InPlaceUpdateState) bool {
	return len(s.NextContainerImages)+len(s.NextContainerRefMetadata)+len(s.NextContainerResources) > 0
}

// batchesCompleted says whether the containers changed so far run what they are to run, with what they are to have.
func batchesCompleted(p *corev1.Pod, s *pub.InPlaceUpdateState) bool {
	return isGiven(p, s) && restartsCompleted(p, s)
}

// isGiven says whether the containers have the resources that they were to be given.
func isGiven(p *corev1.Pod, s *pub.InPlaceUpdateState) bool {
	for name := range s.ContainerResources {
		if !isResized(p, name) {
			return false
		}
	}
	return true
}

func restartsCompleted(p *corev1.Pod, s *pub.InPlaceUpdateState) bool {
	report := daemonReport(p)
	if s.UpdateEnvFromMetadata && !environmentsCompleted(p, s, report) {
		return false
	}
	if runsSpec(p, report) {
		return true
	}
	for name, before := range s.LastContainerStatuses {
		if !isContainerDone(p, s, name, before) {
			return false
		}
	}
	return true
}

// environmentsCompleted looks at the containers that no new image restarts: only a daemon can tell.
func environmentsCompleted(p *corev1.Pod, s *pub.InPlaceUpdateState, report map[string]pub.RuntimeContainerMeta) bool {
	for _, batch := range s.ContainerBatchesRecord {
		for _, name := range batch.Containers {
			_, imageChanged := s.LastContainerStatuses[name]
			_, resized := s.ContainerResources[name]
			if imageChanged || pods.ContainerStatus(p, name) == nil || resized && report == nil {
				continue
			}
			if !hasNewEnvironment(p, report, name) {
				return false
			}
		}
	}
	return true
}

func isContainerDone(p *corev1.Pod, s *pub.InPlaceUpdateState, name string, before pub.InPlaceUpdateContainerStatus) bool {
	status := pods.ContainerStatus(p, name)
	if status == nil {
		return false
	}
	if status.ImageID != before.ImageID {
		return true
	}
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name && sameImage(p.Spec.Containers[i].Image, status) {
			return true
		}
	}
	// The same digest under another tag: only the container itself is new.
	if before.ContainerID == "" || before.ContainerID == status.ContainerID {
		return false
	}
	if p.Status.ObservedGeneration > 0 {
		return p.Status.ObservedGeneration >= p.Generation
	}
	return status.State.Running != nil && status.State.Running.StartedAt.After(s.UpdateTimestamp.Time)
}

// sameImage says whether a container runs the image that its spec names.
func sameImage(image string, status *corev1.ContainerStatus) bool {
	if _, digest, ok := strings.Cut(image, "@"); ok {
		return strings.HasSuffix(status.Image, "@"+digest) || strings.HasSuffix(status.ImageID, "@"+digest) || status.ImageID == digest
	}
	return normalise(image) == normalise(status.Image)
}

// normalise spells an image reference in full: registry, repository, and tag or digest.
func normalise(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	tag := ""
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name, tag = name[:i], name[i+1:]
	}
	registry, path, found := strings.Cut(name, "/")
	if !found || !strings.ContainsAny(registry, ".:") && registry != "localhost" {
		registry, path = "docker.io", name
	}
	if registry == "index.docker.io" {
		registry = "docker.io"
	}
	if registry == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	if digest != "" {
		return registry + "/" + path + "@" + digest
	}
	if tag == "" {
		tag = "latest"
	}
	return registry + "/" + path + ":" + tag
}
