package workload

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// Reasons of the Stalled condition that stem from the spec.
const (
	ReasonInvalidSelector = "InvalidSelector"
	ReasonInvalidSpec     = "InvalidSpec"
)

// Selector is the selector of a workload, and what is wrong with it or with the template that it has to match. It is nil
// if it cannot be used.
func Selector(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) (labels.Selector, *Problem) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, &Problem{ReasonInvalidSelector, fmt.Sprintf("spec.selector: %v", err)}
	}
	if selector == nil || parsed.Empty() {
		return nil, &Problem{ReasonInvalidSelector, "spec.selector: must not be empty: it would select every Pod"}
	}
	if !parsed.Matches(labels.Set(template.Labels)) {
		return parsed, &Problem{ReasonInvalidSelector, "spec.template.metadata.labels: must match spec.selector"}
	}
	if len(template.Spec.Containers) == 0 {
		return parsed, &Problem{ReasonInvalidSpec, "spec.template.spec.containers: at least one is required"}
	}
	return parsed, nil
}

// CheckOwnLabels says what is wrong with a selector that asks for values of labels which a controller chooses itself: its Pods
// would not match, so that it would let them go as soon as they are made.
func CheckOwnLabels(selector labels.Selector, template *corev1.PodTemplateSpec, own []string) *Problem {
	made := labels.Set{}
	maps.Copy(made, template.Labels)
	for _, key := range own {
		before := made[key]
		// No label can have this value, so that no selector can ask for it.
		made[key] = "-"
		if !selector.Matches(made) {
			return &Problem{ReasonInvalidSelector, fmt.Sprintf("spec.selector: must not ask for %s=%q: the controller sets this label of its Pods", key, before)}
		}
	}
	return nil
}

// PreDownloadIgnored is why the fields of image pre-download do nothing.
const PreDownloadIgnored = "images are not pulled ahead of an update: that takes an agent on the nodes, which there is none of; the update itself is not affected"

// WantsPreDownload says whether a workload asks for its images to be pulled before they are needed.
func WantsPreDownload(workload metav1.Object, s *pub.InPlaceUpdateStrategy) bool {
	for _, key := range []string{pub.ImagePreDownloadParallelismKey, pub.ImagePreDownloadTimeoutSecondsKey, pub.ImagePreDownloadMinUpdatedReadyPodsKey} {
		if _, ok := workload.GetAnnotations()[key]; ok {
			return true
		}
	}
	return s != nil && (s.ImagePreDownloadParallelism != nil || s.ImagePreDownloadTimeoutSeconds != nil || s.ImagePreDownloadMinUpdatedReadyPods != nil)
}
