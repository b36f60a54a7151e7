package revision

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
)

// Encode is the data of the revision of a template: a patch that replaces the template, as JSON with sorted keys.
// The template is encoded as it is; default it first.
func Encode(template *corev1.PodTemplateSpec) ([]byte, error) {
	raw, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("encoding the template: %w", err)
	}
	tree := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	// A float would lose digits of large integers.
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("encoding the template: %w", err)
	}
	tree["$patch"] = "replace"
	// Libraries of former years wrote this member, and it is part of the hash.
	metadata, ok := tree["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		tree["metadata"] = metadata
	}
	if _, ok := metadata["creationTimestamp"]; !ok {
		metadata["creationTimestamp"] = nil
	}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": tree}})
	if err != nil {
		return nil, fmt.Errorf("encoding the template: %w", err)
	}
	return data, nil
}

// Decode is the template in a revision's data, with defaults filled in.
func Decode(data []byte) (*corev1.PodTemplateSpec, error) {
	var patch struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, fmt.Errorf("decoding the revision's template: %w", err)
	}
	defaults.SetPodTemplate(&patch.Spec.Template)
	return &patch.Spec.Template, nil
}

// Equal says whether two revisions' data mean the same template. Key order, empty members, the spelling of quantities
// and members that a default fills in make no difference.
func Equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	ta, errA := Decode(a)
	tb, errB := Decode(b)
	return errA == nil && errB == nil && equality.Semantic.DeepEqual(ta, tb)
}
