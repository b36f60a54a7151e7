package inplace

import (
	"maps"
	"slices"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// resizable are the resources that a running container can be given more or less of.
func resizable(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory
}

// effective fills in the requests that the API server takes from limits.
func effective(r *corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := *r.DeepCopy()
	for name, limit := range out.Limits {
		if _, ok := out.Requests[name]; !ok {
			if out.Requests == nil {
				out.Requests = corev1.ResourceList{}
			}
			out.Requests[name] = limit
		}
	}
	return out
}

// compareResources returns the entries of cpu and memory that differ. What else differs, or is removed, is impossible.
func compareResources(container string, from, to *corev1.ResourceRequirements) (corev1.ResourceRequirements, error) {
	was, is := effective(from), effective(to)
	limits, err := compareList(container, "limit", was.Limits, is.Limits)
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	requests, err := compareList(container, "request", was.Requests, is.Requests)
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	if !equality.Semantic.DeepEqual(from.Claims, to.Claims) {
		return corev1.ResourceRequirements{}, impossible("resource claims of container %s changed", container)
	}
	return corev1.ResourceRequirements{Limits: limits, Requests: requests}, nil
}

func compareList(container, kind string, from, to corev1.ResourceList) (corev1.ResourceList, error) {
	var out corev1.ResourceList
	names := maps.Clone(from)
	if names == nil {
		names = corev1.ResourceList{}
	}
	maps.Copy(names, to)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := from[name]
		is, has := to[name]
		switch {
		case had && has && was.Cmp(is) == 0:
			continue
		case !resizable(name):
			return nil, impossible("the %s of %s of container %s changed; only cpu and memory can be resized", kind, name, container)
		case !has:
			return nil, impossible("the %s of %s of container %s was removed", kind, name, container)
		}
		if out == nil {
			out = corev1.ResourceList{}
		}
		out[name] = is
	}
	return out, nil
}

// qosClass is the quality of service that the API server gives Pods of the spec: it never changes on a running Pod.
func qosClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	guaranteed, some := true, false
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			r := effective(&list[i].Resources)
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				limit, request := r.Limits[name], r.Requests[name]
				some = some || !limit.IsZero() || !request.IsZero()
				guaranteed = guaranteed && !limit.IsZero() && limit.Cmp(request) == 0
			}
		}
	}
	switch {
	case !some:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// restartsOnResize says whether the container's policy is to restart for any of the changes.
func restartsOnResize(c *corev1.Container, change corev1.ResourceRequirements) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		_, limit := change.Limits[p.ResourceName]
		_, request := change.Requests[p.ResourceName]
		return p.RestartPolicy == corev1.RestartContainer && (limit || request)
	})
}

// Resize is what containers are to be given, by container.
type Resize map[string]corev1.ResourceRequirements

// Patch is the write that gives the Pod's containers what they do not have yet, and false if there is nothing. It is of
// the resize subresource, which the API server decides on apart from all else.
func (r Resize) Patch(p *corev1.Pod) (patch.Patch, bool) {
	o := patch.New(p)
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if missing, ok := lacking(c.Resources, r[c.Name]); ok {
			o.Resources(c.Name, missing)
		}
	}
	return o.BuildResize(), !o.Empty()
}

// restarts says whether a container restarts to be given what it does not have yet.
func (r Resize) restarts(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		missing, ok := lacking(c.Resources, r[c.Name])
		return ok && restartsOnResize(&c, missing)
	})
}

// lacking are the entries that differ from what there is.
func lacking(have, want corev1.ResourceRequirements) (corev1.ResourceRequirements, bool) {
	differing := func(have, want corev1.ResourceList) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, q := range want {
			if h, ok := have[name]; !ok || h.Cmp(q) != 0 {
				out[name] = q
			}
		}
		return out
	}
	out := corev1.ResourceRequirements{Limits: differing(have.Limits, want.Limits), Requests: differing(have.Requests, want.Requests)}
	return out, len(out.Limits)+len(out.Requests) > 0
}

// isResized says whether the container has been given what its spec says.
func isResized(p *corev1.Pod, name string) bool {
	status := pods.ContainerStatus(p, name)
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name != name {
			continue
		}
		// A container that never started gets its resources when it does.
		if status == nil {
			return true
		}
		has := corev1.ResourceRequirements{}
		if status.Resources != nil {
			has = *status.Resources
		}
		return sameResizable(p.Spec.Containers[i].Resources.Limits, has.Limits) && sameResizable(p.Spec.Containers[i].Resources.Requests, has.Requests)
	}
	return true
}

func sameResizable(spec, status corev1.ResourceList) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		want, wanted := spec[name]
		has, there := status[name]
		if wanted && (!there || !sameQuantity(want, has)) {
			return false
		}
	}
	return true
}

func sameQuantity(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }

// isInfeasible says whether the Pod's node has said that it can never give the containers what they were to be given, and
// why.
func isInfeasible(p *corev1.Pod) (string, bool) {
	c := pods.Condition(p, corev1.PodResizePending)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason != corev1.PodReasonInfeasible {
		return "", false
	}
	if c.Message == "" {
		return "the node cannot satisfy the new resources", true
	}
	return c.Message, true
}

// Refusal is why the node will never give the containers what their latest update was to give them. What others have asked for
// is no matter of ours, nor what an earlier update has.
func Refusal(p *corev1.Pod) (why string, refused bool) {
	if why, refused = isInfeasible(p); !refused {
		return "", false
	}
	r := Read(p)
	switch {
	case r.State == nil:
		return why, pods.LifecycleState(p) == pub.LifecycleStateUpdating
	case r.Grace != nil:
		return why, false
	}
	return why, isRefusalOf(p, r.State)
}

// isRefusalOf says whether it is this update that the node has refused. What an earlier one asked for in vain is no matter of one that
// asks for something else, or has not asked yet.
func isRefusalOf(p *corev1.Pod, s *pub.InPlaceUpdateState) bool {
	if seen := pods.Condition(p, corev1.PodResizePending).ObservedGeneration; seen > 0 && seen < p.Generation {
		return false
	}
	for name := range s.ContainerResources {
		if !isResized(p, name) {
			return true
		}
	}
	// Others do not record what they have asked for.
	return pods.LifecycleState(p) == pub.LifecycleStateUpdating && s.UpdateResources && len(s.ContainerResources) == 0 && !hasNext(s)
}
