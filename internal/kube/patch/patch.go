// Package patch builds patches of just the fields that a controller owns. A patch is data: building one is pure, and
// whoever sends it decides when.
package patch

import (
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Patch is one write to one object.
type Patch struct {
	// Subresource is empty for the object itself.
	Subresource string
	Type        types.PatchType
	Body        []byte
}

// Subresources is the subresource as a client takes it.
func (p Patch) Subresources() []string {
	if p.Subresource == "" {
		return nil
	}
	return []string{p.Subresource}
}

// Object collects changes of one object. The zero value is not usable; see New.
type Object struct {
	tree map[string]any
	size int
}

// New begins a patch that applies to no other object than this one: a namesake that was created since is left alone.
func New(meta metav1.Object) *Object {
	o := &Object{tree: map[string]any{}}
	o.metadata()["uid"] = meta.GetUID()
	return o
}

// IfUnchanged makes the patch apply only to exactly this version of the object; otherwise it is a conflict.
func (o *Object) IfUnchanged(meta metav1.Object) *Object {
	o.metadata()["resourceVersion"] = meta.GetResourceVersion()
	return o
}

// Label sets a label.
func (o *Object) Label(key, value string) *Object { return o.set("labels", key, value) }

// RemoveLabel removes a label.
func (o *Object) RemoveLabel(key string) *Object { return o.set("labels", key, nil) }

// Annotation sets an annotation.
func (o *Object) Annotation(key, value string) *Object { return o.set("annotations", key, value) }

// RemoveAnnotation removes an annotation.
func (o *Object) RemoveAnnotation(key string) *Object { return o.set("annotations", key, nil) }

func (o *Object) set(member, key string, value any) *Object {
	child(o.metadata(), member)[key] = value
	o.size++
	return o
}

// AddFinalizers adds finalizers; those that are there already stay once.
func (o *Object) AddFinalizers(names ...string) *Object {
	return o.appendTo("finalizers", names)
}

// RemoveFinalizers removes finalizers.
func (o *Object) RemoveFinalizers(names ...string) *Object {
	return o.appendTo("$deleteFromPrimitiveList/finalizers", names)
}

func (o *Object) appendTo(member string, names []string) *Object {
	if len(names) == 0 {
		return o
	}
	list, _ := o.metadata()[member].([]string)
	o.metadata()[member] = append(list, names...)
	o.size++
	return o
}

// Image sets the image of a container of a Pod.
func (o *Object) Image(container, image string) *Object {
	o.container(container)["image"] = image
	o.size++
	return o
}

// Resources sets entries of a container's resources; entries that are not named stay.
func (o *Object) Resources(container string, resources corev1.ResourceRequirements) *Object {
	target := child(o.container(container), "resources")
	for member, list := range map[string]corev1.ResourceList{"limits": resources.Limits, "requests": resources.Requests} {
		for name, quantity := range list {
			child(target, member)[string(name)] = quantity.String()
			o.size++
		}
	}
	return o
}

func (o *Object) container(name string) map[string]any {
	spec := child(o.tree, "spec")
	list, _ := spec["containers"].([]map[string]any)
	for _, c := range list {
		if c["name"] == name {
			return c
		}
	}
	c := map[string]any{"name": name}
	spec["containers"] = append(list, c)
	return c
}

// Condition sets a condition of a Pod. Conditions of other types stay. An empty reason or message is written as such: the
// one of before would otherwise stay.
func (o *Object) Condition(c corev1.PodCondition) *Object {
	status := child(o.tree, "status")
	list, _ := status["conditions"].([]map[string]any)
	condition := map[string]any{
		"type": c.Type, "status": c.Status, "lastTransitionTime": c.LastTransitionTime, "reason": nil, "message": nil,
	}
	if c.Reason != "" {
		condition["reason"] = c.Reason
	}
	if c.Message != "" {
		condition["message"] = c.Message
	}
	status["conditions"] = append(list, condition)
	o.size++
	return o
}

// Merge adds another patch of the same object, such as one that was stored.
func (o *Object) Merge(tree map[string]any) *Object {
	if len(tree) > 0 {
		merge(o.tree, tree)
		o.size++
	}
	return o
}

// OwnerReferences replaces the list of owner references. The version of the object should be a precondition.
func (o *Object) OwnerReferences(list []metav1.OwnerReference) *Object {
	items := make([]any, 0, len(list)+1)
	// Strategic merge would merge by UID and keep what is to go.
	items = append(items, map[string]any{"$patch": "replace"})
	for i := range list {
		items = append(items, list[i])
	}
	o.metadata()["ownerReferences"] = items
	o.size++
	return o
}

// Empty says whether nothing but preconditions was set.
func (o *Object) Empty() bool { return o.size == 0 }

// Build is the patch of the object itself.
func (o *Object) Build() Patch { return o.build("") }

// BuildStatus is the patch of the status subresource. It may carry labels and annotations as well.
func (o *Object) BuildStatus() Patch { return o.build("status") }

// BuildResize is the patch of a Pod's resize subresource.
func (o *Object) BuildResize() Patch { return o.build("resize") }

func (o *Object) build(subresource string) Patch {
	body, err := json.Marshal(o.tree)
	if err != nil {
		// The tree holds nothing but strings, conditions, references and what came out of JSON.
		panic(err)
	}
	return Patch{Subresource: subresource, Type: types.StrategicMergePatchType, Body: body}
}

func (o *Object) metadata() map[string]any { return child(o.tree, "metadata") }

func child(tree map[string]any, name string) map[string]any {
	c, ok := tree[name].(map[string]any)
	if !ok {
		c = map[string]any{}
		tree[name] = c
	}
	return c
}

func merge(into, from map[string]any) {
	for k, v := range from {
		sub, isMap := v.(map[string]any)
		if old, ok := into[k].(map[string]any); ok && isMap {
			merge(old, sub)
			continue
		}
		if isMap {
			v = maps.Clone(sub)
		}
		into[k] = v
	}
}
