package subset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// PodTemplate is the template of a subset's Pods: the common one with the labels, then the subset's affinity and tolerations,
// then its patch, which has the last word. The common template is not changed.
func PodTemplate(common *corev1.PodTemplateSpec, s *v1beta1.Subset, revision string) (*corev1.PodTemplateSpec, error) {
	t := common.DeepCopy()
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	t.Labels[pub.SubsetNameKey] = s.Name
	t.Labels[pub.SubsetRevisionKey] = revision
	addTerm(&t.Spec, s.NodeSelectorTerm.DeepCopy())
	t.Spec.Tolerations = append(t.Spec.Tolerations, s.DeepCopy().Tolerations...)
	return patched(t, s.Patch.Raw)
}

// addTerm adds the demands to every way in which the affinity can be met.
func addTerm(s *corev1.PodSpec, add *corev1.NodeSelectorTerm) {
	if len(add.MatchExpressions)+len(add.MatchFields) == 0 {
		return
	}
	if s.Affinity == nil {
		s.Affinity = &corev1.Affinity{}
	}
	if s.Affinity.NodeAffinity == nil {
		s.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	node := s.Affinity.NodeAffinity
	if node.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	required := node.RequiredDuringSchedulingIgnoredDuringExecution
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = []corev1.NodeSelectorTerm{{}}
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchExpressions = append(term.MatchExpressions, add.MatchExpressions...)
		term.MatchFields = append(term.MatchFields, add.MatchFields...)
	}
}

// HasPatch tells whether a patch says anything.
func HasPatch(raw []byte) bool {
	switch text := bytes.TrimSpace(raw); string(text) {
	case "", "null", "{}":
		return false
	}
	return true
}

// SamePatch compares patches by what they say.
func SamePatch(a, b []byte) bool {
	if !HasPatch(a) || !HasPatch(b) {
		return HasPatch(a) == HasPatch(b)
	}
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	return reflect.DeepEqual(x, y)
}

func patched(t *corev1.PodTemplateSpec, patch []byte) (*corev1.PodTemplateSpec, error) {
	if !HasPatch(patch) {
		return t, nil
	}
	if !bytes.HasPrefix(bytes.TrimSpace(patch), []byte("{")) {
		return nil, errors.New("must be a JSON object")
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encoding the Pod template: %w", err)
	}
	out, err := strategicpatch.StrategicMergePatch(raw, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, fmt.Errorf("applying the patch: %w", err)
	}
	result := &corev1.PodTemplateSpec{}
	if err := json.Unmarshal(out, result); err != nil {
		return nil, fmt.Errorf("the result of the patch is no Pod template: %w", err)
	}
	return result, nil
}
