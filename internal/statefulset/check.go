package statefulset

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// ownLabels are those that the controller gives a Pod values of, and changes.
var ownLabels = []string{pub.ControllerRevisionHashKey, pub.LifecycleStateKey, appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel}

// check finds what neither schema nor admission may have held back: both can be older than the object, or off. The spec
// has its defaults. The selector is nil if it cannot be used.
func check(spec *v1beta1.StatefulSetSpec) (labels.Selector, *workload.Problem) {
	selector, problem := workload.Selector(spec.Selector, &spec.Template)
	if problem == nil {
		problem = workload.CheckOwnLabels(selector, &spec.Template, ownLabels)
	}
	if problem != nil {
		return selector, problem
	}
	invalid := func(format string, args ...any) (labels.Selector, *workload.Problem) {
		return selector, &workload.Problem{Reason: workload.ReasonInvalidSpec, Message: fmt.Sprintf(format, args...)}
	}
	switch m := spec.PodManagementPolicy; m {
	case v1beta1.OrderedReadyPodManagement, v1beta1.ParallelPodManagement:
	default:
		return invalid("spec.podManagementPolicy: %q is unknown: must be OrderedReady or Parallel", m)
	}
	switch t := spec.UpdateStrategy.Type; t {
	case v1beta1.RollingUpdateStatefulSetStrategyType, v1beta1.OnDeleteStatefulSetStrategyType:
	default:
		return invalid("spec.updateStrategy.type: %q is unknown: must be RollingUpdate or OnDelete", t)
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil {
		switch r.PodUpdatePolicy {
		case v1beta1.RecreatePodUpdateStrategyType, v1beta1.InPlaceIfPossiblePodUpdateStrategyType, v1beta1.InPlaceOnlyPodUpdateStrategyType, "":
		default:
			return invalid("spec.updateStrategy.rollingUpdate.podUpdatePolicy: %q is unknown: must be ReCreate, InPlaceIfPossible or InPlaceOnly", r.PodUpdatePolicy)
		}
	}
	if _, err := resolve(spec); err != nil {
		return invalid("%v", err)
	}
	return selector, nil
}
