package pods

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// OfOne are the labels and annotations that say how far the work on one Pod is. They get into a template by being copied from a
// Pod, and are true of no other.
func OfOne() []string {
	return []string{
		pub.SpecifiedDeleteKey, pub.CloneSetRecreateRevisionKey,
		pub.InPlaceUpdateStateKey, pub.InPlaceUpdateGraceKey, pub.InPlaceUpdateStateKeyOld, pub.InPlaceUpdateGraceKeyOld,
	}
}

// FromTemplate copies the labels and annotations that a new Pod gets from its template.
func FromTemplate(t *corev1.PodTemplateSpec) (labels, annotations map[string]string) {
	labels, annotations = map[string]string{}, map[string]string{}
	maps.Copy(labels, t.Labels)
	maps.Copy(annotations, t.Annotations)
	for _, key := range OfOne() {
		delete(labels, key)
		delete(annotations, key)
	}
	return labels, annotations
}
