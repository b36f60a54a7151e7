package cloneset

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// ownLabels are those that the controller gives a Pod values of, and changes.
var ownLabels = []string{pub.ControllerRevisionHashKey, pub.PodTemplateHashKey, pub.CloneSetInstanceIDKey, pub.LifecycleStateKey}

// check finds what neither schema nor admission may have held back: both can be older than the object, or off. The spec
// has its defaults. The selector is nil if it cannot be used.
func check(spec *v1beta1.CloneSetSpec) (labels.Selector, *workload.Problem) {
	selector, problem := workload.Selector(spec.Selector, &spec.Template)
	if problem == nil {
		problem = workload.CheckOwnLabels(selector, &spec.Template, ownLabels)
	}
	if problem != nil {
		return selector, problem
	}
	switch t := spec.UpdateStrategy.Type; t {
	case v1beta1.RollingUpdateCloneSetUpdateStrategyType, v1beta1.OnDeleteCloneSetUpdateStrategyType:
	default:
		return selector, &workload.Problem{Reason: workload.ReasonInvalidSpec, Message: fmt.Sprintf("spec.updateStrategy.type: %q is unknown: must be RollingUpdate or OnDelete", t)}
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil {
		switch r.PodUpdatePolicy {
		case v1beta1.ReCreateCloneSetPodUpdatePolicyType, v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType, v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType:
		default:
			return selector, &workload.Problem{Reason: workload.ReasonInvalidSpec, Message: fmt.Sprintf(
				"spec.updateStrategy.rollingUpdate.podUpdatePolicy: %q is unknown: must be ReCreate, InPlaceIfPossible or InPlaceOnly", r.PodUpdatePolicy)}
		}
	}
	if _, err := resolve(spec); err != nil {
		return selector, &workload.Problem{Reason: workload.ReasonInvalidSpec, Message: err.Error()}
	}
	return selector, nil
}
