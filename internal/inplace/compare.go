package inplace

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// ErrImpossible is what Compare wraps when the change needs a new Pod.
var ErrImpossible = errors.New("cannot be done in place")

func impossible(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrImpossible, fmt.Sprintf(format, args...))
}

// Change is what takes a Pod from one template to another.
type Change struct {
	// Images are the new images by container.
	Images map[string]string
	// References are, by container, the labels and annotations that its environment refers to and that change with it.
	References map[string]metav1.ObjectMeta
	// Resources are the cpu and memory that change, by container.
	Resources Resize
	// Metadata is a merge patch of all other metadata; nil if there is nothing to change.
	Metadata map[string]any

	// needsDaemon are the containers whose environment changes and whose image does not: the kubelet does not restart
	// them.
	needsDaemon []string
	// restarts: some container restarts.
	restarts bool
}

// IsMetadataOnly says whether no container is concerned: nothing restarts.
func (c Change) IsMetadataOnly() bool {
	return len(c.Images) == 0 && len(c.References) == 0 && len(c.Resources) == 0
}

// Abilities are what the cluster offers.
type Abilities struct {
	// Resize: the API server has the resize subresource of Pods.
	Resize bool
}

// Compare returns what takes a Pod from one template to another, or an error that says why that is impossible.
// Templates are compared with each other and never with the live Pod, which others may have changed. Both must have
// their defaults.
func Compare(from, to *corev1.PodTemplateSpec, can Abilities) (Change, error) {
	change := Change{}
	old := from.Spec.DeepCopy()
	if len(old.Containers) != len(to.Spec.Containers) {
		return Change{}, impossible("containers were added or removed")
	}
	for i := range old.Containers {
		if err := change.compareContainer(&old.Containers[i], &to.Spec.Containers[i], can); err != nil {
			return Change{}, err
		}
	}
	if !equality.Semantic.DeepEqual(old, &to.Spec) {
		return Change{}, impossible("%s changed", differingFields(*old, to.Spec))
	}
	if was, is := qosClass(&from.Spec), qosClass(&to.Spec); len(change.Resources) > 0 && was != is {
		return Change{}, impossible("the quality of service would change from %s to %s", was, is)
	}
	change.compareMetadata(from, to)
	return change, nil
}

// compareContainer takes out of the old container what can be done in place, and refuses if anything else is left.
func (c *Change) compareContainer(was, is *corev1.Container, can Abilities) error {
	if was.Name != is.Name {
		return impossible("container %s is now %s", was.Name, is.Name)
	}
	if was.Image != is.Image {
		if c.Images == nil {
			c.Images = map[string]string{}
		}
		c.Images[is.Name], c.restarts = is.Image, true
		was.Image = is.Image
	}
	if can.Resize {
		resources, err := compareResources(is.Name, &was.Resources, &is.Resources)
		if err != nil {
			return err
		}
		if len(resources.Limits)+len(resources.Requests) > 0 {
			if c.Resources == nil {
				c.Resources = Resize{}
			}
			c.Resources[is.Name] = resources
			c.restarts = c.restarts || restartsOnResize(is, resources)
		}
		was.Resources = is.Resources
	}
	if !equality.Semantic.DeepEqual(was, is) {
		return impossible("%s of container %s changed", differingFields(*was, *is), is.Name)
	}
	return nil
}

// differingFields names the members of two structs that differ, for people.
func differingFields[T any](a, b T) string {
	var names []string
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		if !equality.Semantic.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			name, _, _ := strings.Cut(va.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// ours are the labels and annotations by which we know Pods. Templates may carry them, copied from a Pod; ours count.
func ours() []string {
	return append(pods.OfOne(),
		pub.ControllerRevisionHashKey, pub.PodTemplateHashKey, pub.CloneSetInstanceIDKey, pub.LifecycleStateKey, pub.LifecycleTimestampKey)
}

func (c *Change) compareMetadata(from, to *corev1.PodTemplateSpec) {
	labels := compareMaps(from.Labels, to.Labels)
	annotations := compareMaps(from.Annotations, to.Annotations)
	for _, key := range ours() {
		delete(labels, key)
		delete(annotations, key)
	}
	for i := range to.Spec.Containers {
		c.takeReferences(&to.Spec.Containers[i], labels, annotations)
	}
	// What a container refers to arrives with the container's batch.
	for _, r := range c.References {
		removeKeys(labels, r.Labels)
		removeKeys(annotations, r.Annotations)
	}
	metadata := map[string]any{}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	compareFinalizers(metadata, from.Finalizers, to.Finalizers)
	if len(metadata) > 0 {
		c.Metadata = map[string]any{"metadata": metadata}
	}
}

// reference is an entry of a container's environment that comes from a label or an annotation.
type reference struct {
	env, key string
	label    bool
}

func references(container *corev1.Container) []reference {
	var out []reference
	for i := range container.Env {
		e := &container.Env[i]
		if e.Value != "" || e.ValueFrom == nil || e.ValueFrom.FieldRef == nil ||
			e.Name == pub.SidecarSetVersionEnv || e.Name == pub.SidecarSetVersionAltEnv {
			continue
		}
		if key, ok := fieldKey(e.ValueFrom.FieldRef.FieldPath, "labels"); ok {
			out = append(out, reference{e.Name, key, true})
		}
		if key, ok := fieldKey(e.ValueFrom.FieldRef.FieldPath, "annotations"); ok {
			out = append(out, reference{e.Name, key, false})
		}
	}
	return out
}

// takeReferences moves into c.References what the container's environment refers to. The kubelet restarts a container
// for its image, not for metadata: without a new image it would go on with the old environment, unless a daemon restarts
// it.
func (c *Change) takeReferences(container *corev1.Container, labels, annotations map[string]any) {
	ref := metav1.ObjectMeta{}
	for _, r := range references(container) {
		if r.label {
			ref.Labels = takeReference(ref.Labels, labels, r.key)
		} else {
			ref.Annotations = takeReference(ref.Annotations, annotations, r.key)
		}
	}
	if ref.Labels == nil && ref.Annotations == nil {
		return
	}
	if _, restarts := c.Images[container.Name]; !restarts {
		c.needsDaemon = append(c.needsDaemon, container.Name)
	}
	if c.References == nil {
		c.References = map[string]metav1.ObjectMeta{}
	}
	c.References[container.Name] = ref
	c.restarts = true
}

// takeReference notes the new value of a changed key. A key that was removed stays in the common patch: its container
// restarts for its image, and then finds it gone.
func takeReference(into map[string]string, changed map[string]any, key string) map[string]string {
	value, ok := changed[key].(string)
	if !ok {
		if _, removed := changed[key]; removed && into == nil {
			return map[string]string{}
		}
		return into
	}
	if into == nil {
		into = map[string]string{}
	}
	into[key] = value
	return into
}

// fieldKey is k of metadata.<member>['k'].
func fieldKey(path, member string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "metadata."+member+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

// compareMaps is the merge patch from one map to the other.
func compareMaps(from, to map[string]string) map[string]any {
	diff := map[string]any{}
	for k, v := range to {
		if old, ok := from[k]; !ok || old != v {
			diff[k] = v
		}
	}
	for k := range from {
		if _, ok := to[k]; !ok {
			diff[k] = nil
		}
	}
	return diff
}

func compareFinalizers(metadata map[string]any, from, to []string) {
	missing := func(list, other []string) []any {
		var out []any
		for _, f := range list {
			if !slices.Contains(other, f) {
				out = append(out, f)
			}
		}
		return out
	}
	if added := missing(to, from); len(added) > 0 {
		metadata["finalizers"] = added
	}
	if removed := missing(from, to); len(removed) > 0 {
		metadata["$deleteFromPrimitiveList/finalizers"] = removed
	}
}

func removeKeys(from map[string]any, keys map[string]string) {
	maps.DeleteFunc(from, func(k string, _ any) bool {
		_, ok := keys[k]
		return ok
	})
}
