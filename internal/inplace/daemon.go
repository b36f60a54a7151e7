package inplace

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// A node daemon of other suites may run in the cluster. It restarts containers whose environment changes with the Pod's
// metadata, and reports what it sees in an annotation. Ours has none, but makes use of one that is there.

// daemonReport is what a daemon says about the Pod's containers, by name; nil without one.
func daemonReport(p *corev1.Pod) map[string]pub.RuntimeContainerMeta {
	text, ok := p.Annotations[pub.RuntimeContainersMetaKey]
	if !ok {
		return nil
	}
	var set pub.RuntimeContainerMetaSet
	if json.Unmarshal([]byte(text), &set) != nil {
		return nil
	}
	report := make(map[string]pub.RuntimeContainerMeta, len(set.Containers))
	for _, c := range set.Containers {
		report[c.Name] = c
	}
	return report
}

// CheckServed says why the change cannot be made to this Pod although the templates allow it: containers that only a
// daemon would restart, and no daemon that reports them.
func (c Change) CheckServed(p *corev1.Pod) error {
	if len(c.needsDaemon) == 0 {
		return nil
	}
	report := daemonReport(p)
	for _, name := range c.needsDaemon {
		if _, ok := report[name]; !ok {
			return impossible("the environment of container %s refers to metadata that changed", name)
		}
	}
	return nil
}

// hasNewEnvironment says whether the daemon has seen the container run with the environment that the Pod's metadata makes.
func hasNewEnvironment(p *corev1.Pod, report map[string]pub.RuntimeContainerMeta, name string) bool {
	status, seen := pods.ContainerStatus(p, name), report[name]
	if status == nil || seen.ContainerID != status.ContainerID {
		return false
	}
	return seen.Hashes.ExtractedEnvFromMetadataHash == environmentHash(p, name)
}

// runsSpec says whether the daemon has seen every container run what its spec says.
func runsSpec(p *corev1.Pod, report map[string]pub.RuntimeContainerMeta) bool {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		status, seen := pods.ContainerStatus(p, c.Name), report[c.Name]
		if status == nil || seen.ContainerID == "" || seen.ContainerID != status.ContainerID || seen.Hashes.PlainHash != plainHash(c) {
			return false
		}
	}
	return len(report) > 0
}

// plainHash is the kubelet's hash of a container: of its name and image since Kubernetes 1.31.
func plainHash(c *corev1.Container) uint64 {
	return dumpHash(map[string]string{"image": c.Image, "name": c.Name})
}

type environmentEntry struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// environmentHash is the hash of the entries of a container's environment that come from labels and annotations.
func environmentHash(p *corev1.Pod, name string) uint64 {
	var entries []environmentEntry
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name != name {
			continue
		}
		for _, r := range references(&p.Spec.Containers[i]) {
			value := p.Labels[r.key]
			if !r.label {
				value = p.Annotations[r.key]
			}
			entries = append(entries, environmentEntry{r.env, value})
		}
	}
	slices.SortFunc(entries, func(a, b environmentEntry) int { return strings.Compare(a.Name, b.Name) })
	return dumpHash(entries)
}

// dumpHash is FNV-1a of the dump of the JSON, as Kubernetes hashes what it compares.
func dumpHash(value any) uint64 {
	// Strings always encode.
	raw, _ := json.Marshal(value)
	h := fnv.New32a()
	// A hash takes everything.
	_, _ = h.Write([]byte(dump.ForHash(raw)))
	return uint64(h.Sum32())
}
