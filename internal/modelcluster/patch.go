package modelcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clienttesting "k8s.io/client-go/testing"
)

// patch applies preconditions as the API server does, and keeps a write to a subresource away from the rest.
func (m *Cluster) patch(old Object, a clienttesting.PatchAction) (Object, error) {
	var body struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(a.GetPatch(), &body); err != nil {
		return nil, fmt.Errorf("reading a patch: %w", err)
	}
	if v := body.Metadata; v.UID != "" && v.UID != old.GetUID() || v.ResourceVersion != "" && v.ResourceVersion != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(a.GetResource().GroupResource(), a.GetName(), errors.New("changed"))
	}
	if a.GetResource().Resource == m.kind.Resource && a.GetSubresource() == "status" {
		return patchStatus(old, a.GetPatch())
	}
	out, err := merge(old, a)
	if err != nil {
		return nil, fmt.Errorf("applying a patch: %w", err)
	}
	separate(old, out, a.GetSubresource())
	if claim, ok := out.(*corev1.PersistentVolumeClaim); ok {
		return out, m.checkClaim(old.(*corev1.PersistentVolumeClaim), claim)
	}
	return out, nil
}

func merge(old Object, a clienttesting.PatchAction) (Object, error) {
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	// What is decoded into must be empty, or something is left behind.
	out := reflect.New(reflect.TypeOf(old).Elem()).Interface().(Object)
	var after []byte
	if a.GetPatchType() == types.MergePatchType {
		after, err = jsonpatch.MergePatch(before, a.GetPatch())
	} else {
		after, err = strategicpatch.StrategicMergePatch(before, a.GetPatch(), out)
	}
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(after, out)
}

// patchStatus is the way of merge patches of an owner's status, which are written often: no more is decoded than what the
// patch names. Values are numbers, texts and lists, which replace the old ones; null leaves zero.
func patchStatus(old Object, body []byte) (Object, error) {
	var fresh struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(body, &fresh); err != nil {
		return nil, fmt.Errorf("reading a patch of a status: %w", err)
	}
	out := copyOf(old)
	status := field(out, "Status")
	for i := range status.NumField() {
		name, _, _ := strings.Cut(status.Type().Field(i).Tag.Get("json"), ",")
		value, is := fresh.Status[name]
		if !is {
			continue
		}
		f := status.Field(i)
		if f.Kind() == reflect.Map || f.Kind() == reflect.Struct || f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct {
			return nil, fmt.Errorf("the model does not merge status.%s", name)
		}
		f.SetZero()
		if err := json.Unmarshal(value, f.Addr().Interface()); err != nil {
			return nil, fmt.Errorf("status.%s: %w", name, err)
		}
	}
	return out, nil
}

// field is a field of an object's struct; not valid if there is none.
func field(o Object, name string) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName(name) }

// separate takes back what a write to the subresource, or to none, does not change.
func separate(old, fresh Object, subresource string) {
	if p, ok := fresh.(*corev1.Pod); ok {
		separatePod(old.(*corev1.Pod), p, subresource)
		return
	}
	if !field(old, "Status").IsValid() {
		return
	}
	if subresource == "status" {
		field(fresh, "Spec").Set(field(old, "Spec"))
		return
	}
	field(fresh, "Status").Set(field(old, "Status"))
	if fresh.GetGeneration() > 0 && !equality.Semantic.DeepEqual(field(old, "Spec").Interface(), field(fresh, "Spec").Interface()) {
		fresh.SetGeneration(fresh.GetGeneration() + 1)
	}
}

func separatePod(old, fresh *corev1.Pod, subresource string) {
	switch subresource {
	case "status":
		fresh.Spec = old.Spec
	case "resize":
		resized := fresh.Spec.Containers
		fresh.Spec, fresh.Status = *old.Spec.DeepCopy(), old.Status
		for i := range fresh.Spec.Containers {
			fresh.Spec.Containers[i].Resources = resized[i].Resources
		}
		fresh.Generation++
	default:
		fresh.Status = old.Status
		if !equality.Semantic.DeepEqual(fresh.Spec, old.Spec) {
			fresh.Generation++
		}
	}
}
