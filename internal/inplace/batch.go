package inplace

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// pending is what is still to be done, by container.
type pending struct {
	images     map[string]string
	references map[string]metav1.ObjectMeta
	resources  Resize
}

// newPending is nothing, to be added to.
func newPending() pending {
	return pending{images: map[string]string{}, references: map[string]metav1.ObjectMeta{}, resources: Resize{}}
}

// add adds what is to be done; what is there already of the same entry gives way.
func (w pending) add(images map[string]string, references map[string]metav1.ObjectMeta, resources Resize) pending {
	maps.Copy(w.images, images)
	for name, more := range references {
		had := w.references[name]
		w.references[name] = metav1.ObjectMeta{Labels: joined(had.Labels, more.Labels), Annotations: joined(had.Annotations, more.Annotations)}
	}
	for name, more := range resources {
		had := w.resources[name]
		w.resources[name] = corev1.ResourceRequirements{Limits: joined(had.Limits, more.Limits), Requests: joined(had.Requests, more.Requests)}
	}
	return w
}

// joined has the entries of both maps, those of the second first of all; nil without any map.
func joined[M ~map[K]V, K comparable, V any](a, b M) M {
	if a == nil {
		return maps.Clone(b)
	}
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// restarts says whether containers restart for it.
func (w pending) restarts(p *corev1.Pod) bool {
	return len(w.images)+len(w.references) > 0 || w.resources.restarts(p)
}

// containers are the names of those concerned that the Pod has, sorted.
func (w pending) containers(p *corev1.Pod) []string {
	var names []string
	for i := range p.Spec.Containers {
		name := p.Spec.Containers[i].Name
		_, image := w.images[name]
		_, reference := w.references[name]
		_, resources := w.resources[name]
		if image || reference || resources {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// batch are the containers to change first: those without priority, those of the highest priority, and those that share
// metadata with one of them.
func (w pending) batch(p *corev1.Pod) []string {
	concerned := w.containers(p)
	priorities := launchPriorities(p)
	highest, found := 0, false
	for _, c := range concerned {
		if n, ok := priorities[c]; ok && (!found || n > highest) {
			highest, found = n, true
		}
	}
	chosen := map[string]bool{}
	for _, c := range concerned {
		if n, ok := priorities[c]; !ok || n == highest {
			chosen[c] = true
		}
	}
	for again := true; again; {
		again = false
		for _, c := range concerned {
			if !chosen[c] && w.sharesMetadata(c, chosen) {
				chosen[c], again = true, true
			}
		}
	}
	return slices.Sorted(maps.Keys(chosen))
}

func (w pending) sharesMetadata(container string, chosen map[string]bool) bool {
	own := w.references[container]
	for c := range chosen {
		other := w.references[c]
		if sharesKey(own.Labels, other.Labels) || sharesKey(own.Annotations, other.Annotations) {
			return true
		}
	}
	return false
}

func sharesKey(a, b map[string]string) bool {
	for k := range a {
		if _, ok := b[k]; ok {
			return true
		}
	}
	return false
}

// apply adds the next batch to the patch and moves it from what is pending into the state. What the batch's containers are
// to be given stays in the state, so that a process that dies before the resize leaves it to the next one.
func (w pending) apply(o *patch.Object, p *corev1.Pod, state *pub.InPlaceUpdateState, now time.Time) {
	batch := w.batch(p)
	rest := newPending()
	for _, c := range w.containers(p) {
		if slices.Contains(batch, c) {
			w.applyContainer(o, p, c, state)
			continue
		}
		if image, ok := w.images[c]; ok {
			rest.images[c] = image
		}
		if reference, ok := w.references[c]; ok {
			rest.references[c] = reference
		}
		if resources, ok := w.resources[c]; ok {
			rest.resources[c] = resources
		}
	}
	rest.keep(state)
	state.PreCheckBeforeNext = nil
	if len(rest.containers(p)) > 0 {
		state.PreCheckBeforeNext = &pub.InPlaceUpdatePreCheckBeforeNext{ContainersRequiredReady: batch}
	}
	state.ContainerBatchesRecord = append(state.ContainerBatchesRecord,
		pub.InPlaceUpdateContainerBatch{Timestamp: metav1.NewTime(now), Containers: batch})
}

// keep leaves all for a next batch.
func (w pending) keep(state *pub.InPlaceUpdateState) {
	state.NextContainerImages, state.NextContainerRefMetadata, state.NextContainerResources = w.images, w.references, w.resources
}

// waits says whether a former batch has to become ready before any of it, and is not itself changed by it.
func (w pending) waits(old Record, p *corev1.Pod) bool {
	if old.State == nil || old.Grace != nil || old.State.PreCheckBeforeNext == nil || !hasNext(old.State) {
		return false
	}
	concerned := w.containers(p)
	return slices.ContainsFunc(old.State.PreCheckBeforeNext.ContainersRequiredReady, func(name string) bool {
		s := pods.ContainerStatus(p, name)
		return s != nil && !s.Ready && !slices.Contains(concerned, name)
	})
}

func (w pending) applyContainer(o *patch.Object, p *corev1.Pod, name string, state *pub.InPlaceUpdateState) {
	if image, ok := w.images[name]; ok {
		o.Image(name, image)
		if s := pods.ContainerStatus(p, name); s != nil {
			if state.LastContainerStatuses == nil {
				state.LastContainerStatuses = map[string]pub.InPlaceUpdateContainerStatus{}
			}
			state.LastContainerStatuses[name] = pub.InPlaceUpdateContainerStatus{ImageID: s.ImageID, ContainerID: s.ContainerID}
		}
	}
	if resources, ok := w.resources[name]; ok {
		if state.ContainerResources == nil {
			state.ContainerResources = map[string]corev1.ResourceRequirements{}
		}
		state.ContainerResources[name] = resources
	}
	reference := w.references[name]
	for k, v := range reference.Labels {
		o.Label(k, v)
	}
	for k, v := range reference.Annotations {
		o.Annotation(k, v)
	}
}

// launchPriorities are the priorities of the containers that have one: by the barrier that starts them in order if
// there is any, else by what the user asked for. Larger ones go first. Beside a container with a wish, one without has the
// wish 0.
func launchPriorities(p *corev1.Pod) map[string]int {
	barriers, wishes, silent := map[string]int{}, map[string]int{}, []string{}
	ordered := p.Annotations[pub.ContainerLaunchPriorityKey] == pub.ContainerLaunchOrdered
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		switch {
		case ordered:
			wishes[c.Name] = -i
		case !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == pub.ContainerPriorityEnv }):
			silent = append(silent, c.Name)
		}
		for _, e := range c.Env {
			switch e.Name {
			case pub.ContainerBarrierEnv:
				if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
					text, ok := strings.CutPrefix(e.ValueFrom.ConfigMapKeyRef.Key, pub.ContainerBarrierKeyStart)
					setNumber(barriers, c.Name, text, ok)
				}
			case pub.ContainerPriorityEnv:
				setNumber(wishes, c.Name, e.Value, !ordered)
			}
		}
	}
	if len(barriers) > 0 {
		return barriers
	}
	if len(wishes) > 0 {
		for _, name := range silent {
			wishes[name] = 0
		}
	}
	return wishes
}

func setNumber(into map[string]int, name, text string, ok bool) {
	if n, err := strconv.Atoi(text); ok && err == nil {
		into[name] = n
	}
}
