package cloneset

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// Reasons of the Stalled condition that stem from the spec.
const (
	ReasonInvalidSelector = "InvalidSelector"
	ReasonInvalidSpec     = "InvalidSpec"
)

// preDownloadIgnored is why the fields of pre-download do nothing.
const preDownloadIgnored = "images are not pulled ahead of an update: that takes an agent on the nodes, which there is none of; the update itself is not affected"

// wantsPreDownload says whether the set asks for its images to be pulled before they are needed.
func wantsPreDownload(set *v1beta1.CloneSet) bool {
	for _, key := range []string{pub.ImagePreDownloadParallelismKey, pub.ImagePreDownloadTimeoutSecondsKey, pub.ImagePreDownloadMinUpdatedReadyPodsKey} {
		if _, ok := set.Annotations[key]; ok {
			return true
		}
	}
	r := set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.InPlaceUpdateStrategy == nil {
		return false
	}
	s := r.InPlaceUpdateStrategy
	return s.ImagePreDownloadParallelism != nil || s.ImagePreDownloadTimeoutSeconds != nil || s.ImagePreDownloadMinUpdatedReadyPods != nil
}

// check finds what neither schema nor admission may have held back: both can be older than the object, or off. The spec
// has its defaults. The selector is nil if it cannot be used.
func check(spec *v1beta1.CloneSetSpec) (labels.Selector, *workload.Problem) {
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return nil, &workload.Problem{Reason: ReasonInvalidSelector, Message: fmt.Sprintf("spec.selector: %v", err)}
	}
	if selector.Empty() || spec.Selector == nil {
		return nil, &workload.Problem{Reason: ReasonInvalidSelector, Message: "spec.selector: must not be empty: it would select every Pod"}
	}
	if !selector.Matches(labels.Set(spec.Template.Labels)) {
		return selector, &workload.Problem{Reason: ReasonInvalidSelector, Message: "spec.template.metadata.labels: must match spec.selector"}
	}
	if len(spec.Template.Spec.Containers) == 0 {
		return selector, &workload.Problem{Reason: ReasonInvalidSpec, Message: "spec.template.spec.containers: at least one is required"}
	}
	switch t := spec.UpdateStrategy.Type; t {
	case v1beta1.RollingUpdateCloneSetUpdateStrategyType, v1beta1.OnDeleteCloneSetUpdateStrategyType:
	default:
		return selector, &workload.Problem{Reason: ReasonInvalidSpec, Message: fmt.Sprintf("spec.updateStrategy.type: %q is unknown: must be RollingUpdate or OnDelete", t)}
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil {
		switch r.PodUpdatePolicy {
		case v1beta1.ReCreateCloneSetPodUpdatePolicyType, v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType, v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType:
		default:
			return selector, &workload.Problem{Reason: ReasonInvalidSpec, Message: fmt.Sprintf(
				"spec.updateStrategy.rollingUpdate.podUpdatePolicy: %q is unknown: must be ReCreate, InPlaceIfPossible or InPlaceOnly", r.PodUpdatePolicy)}
		}
	}
	if _, err := resolve(spec); err != nil {
		return selector, &workload.Problem{Reason: ReasonInvalidSpec, Message: err.Error()}
	}
	return selector, nil
}
