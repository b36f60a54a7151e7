package statefulset

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/ordinals"
	"github.com/flotilla-k8s/flotilla/internal/rollout"
)

// numbers are the spec's numbers, percentages and ordinals.
type numbers struct {
	replicas, partition int
	// maxUnavailable is what an update tolerates, scaleUnavailable throttles creation.
	maxUnavailable, scaleUnavailable int
	minReadySeconds                  int32
	// wanted are the ordinals that are to have a Pod. There may be more than memory holds one by one.
	wanted ordinals.List
}

// resolve computes the numbers of a spec that has its defaults. An error names the field that is wrong: then nothing is
// known, least of all which Pods are too many.
func resolve(spec *v1beta1.StatefulSetSpec) (numbers, error) {
	n := numbers{replicas: int(ptr.Deref(spec.Replicas, 1)), maxUnavailable: 1, scaleUnavailable: math.MaxInt32}
	if n.replicas < 0 {
		return n, fmt.Errorf("spec.replicas: %d: must be at least 0", n.replicas)
	}
	var reserved []ordinals.Range
	for i, entry := range spec.ReserveOrdinals {
		r, err := ordinals.Parse(entry)
		if err != nil {
			return n, fmt.Errorf("spec.reserveOrdinals[%d]: %q: %w", i, entry.String(), err)
		}
		reserved = append(reserved, r)
	}
	n.wanted = ordinals.Smallest(n.replicas, startOf(spec), reserved)
	if n.wanted.Len() < n.replicas {
		return n, fmt.Errorf("spec.reserveOrdinals: too few ordinals are left for %d replicas", n.replicas)
	}
	var err error
	if s := spec.ScaleStrategy; s != nil {
		if n.scaleUnavailable, err = budget(s.MaxUnavailable, n.replicas, n.scaleUnavailable); err != nil {
			return n, fmt.Errorf("spec.scaleStrategy.maxUnavailable: %w", err)
		}
	}
	r := spec.UpdateStrategy.RollingUpdate
	if r == nil {
		return n, nil
	}
	n.partition, n.minReadySeconds = int(ptr.Deref(r.Partition, 0)), ptr.Deref(r.MinReadySeconds, 0)
	if n.maxUnavailable, err = budget(r.MaxUnavailable, n.replicas, 1); err != nil {
		return n, fmt.Errorf("spec.updateStrategy.rollingUpdate.maxUnavailable: %w", err)
	}
	if isOrdered(spec) {
		n.maxUnavailable = 1
	}
	return n, nil
}

// budget is a number of Pods, or a percentage of replicas rounded down; at least 1.
func budget(value *intstr.IntOrString, replicas, absent int) (int, error) {
	n, err := rollout.Scaled(value, replicas, absent, rollout.Down)
	return max(n, 1), err
}

func startOf(spec *v1beta1.StatefulSetSpec) int32 {
	if spec.Ordinals == nil {
		return 0
	}
	return max(spec.Ordinals.Start, 0)
}

func isOrdered(spec *v1beta1.StatefulSetSpec) bool {
	return spec.PodManagementPolicy != v1beta1.ParallelPodManagement
}

func isPaused(spec *v1beta1.StatefulSetSpec) bool {
	return spec.UpdateStrategy.RollingUpdate != nil && spec.UpdateStrategy.RollingUpdate.Paused
}

func isOnDelete(spec *v1beta1.StatefulSetSpec) bool {
	return spec.UpdateStrategy.Type == v1beta1.OnDeleteStatefulSetStrategyType
}

func isUnordered(spec *v1beta1.StatefulSetSpec) bool {
	r := spec.UpdateStrategy.RollingUpdate
	return r != nil && r.UnorderedUpdate != nil
}
