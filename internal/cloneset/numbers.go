package cloneset

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/rollout"
)

// numbers are the spec's numbers and percentages as numbers of Pods.
type numbers struct {
	replicas, partition, maxUnavailable int
	// maxSurge is 0 while paused; configuredSurge is not.
	maxSurge, configuredSurge int
	// scaleUnavailable throttles creation.
	scaleUnavailable int
}

const unlimited = math.MaxInt32

// onDeleteUnavailable is the budget of a set that has no rollingUpdate.
const onDeleteUnavailable = "20%"

// resolve computes the numbers. An error names the field that is wrong.
func resolve(spec *v1beta1.CloneSetSpec) (numbers, error) {
	n := numbers{replicas: int(ptr.Deref(spec.Replicas, 1))}
	var err error
	scaled := func(field string, value *intstr.IntOrString, absent int, rounding rollout.Rounding) int {
		result, e := rollout.Scaled(value, n.replicas, absent, rounding)
		if e != nil && err == nil {
			err = fmt.Errorf("spec.%s: %w", field, e)
		}
		return result
	}
	n.scaleUnavailable = scaled("scaleStrategy.maxUnavailable", spec.ScaleStrategy.MaxUnavailable, unlimited, rollout.Up)
	r := spec.UpdateStrategy.RollingUpdate
	if r == nil {
		n.maxUnavailable = max(1, scaled("updateStrategy", ptr.To(intstr.FromString(onDeleteUnavailable)), 0, rollout.Up))
		return n, err
	}
	n.configuredSurge = scaled("updateStrategy.rollingUpdate.maxSurge", r.MaxSurge, 0, rollout.Up)
	if !r.Paused {
		n.maxSurge = n.configuredSurge
	}
	rounding := rollout.Up
	if n.maxSurge > 0 {
		rounding = rollout.Down
	}
	n.maxUnavailable = scaled("updateStrategy.rollingUpdate.maxUnavailable", r.MaxUnavailable, 0, rounding)
	var partitionErr error
	if n.partition, partitionErr = rollout.Partition(r.Partition, n.replicas); partitionErr != nil && err == nil {
		err = fmt.Errorf("spec.updateStrategy.rollingUpdate.partition: %w", partitionErr)
	}
	return n, err
}

func isPaused(spec *v1beta1.CloneSetSpec) bool {
	return spec.UpdateStrategy.RollingUpdate != nil && spec.UpdateStrategy.RollingUpdate.Paused
}

func isOnDelete(spec *v1beta1.CloneSetSpec) bool {
	return spec.UpdateStrategy.Type == v1beta1.OnDeleteCloneSetUpdateStrategyType
}
