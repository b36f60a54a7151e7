package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

const (
	defaultReplicas             = 1
	defaultRevisionHistoryLimit = 10
	defaultMaxUnavailable       = "20%"
)

// SetDefaults_CloneSet fills in what a CloneSet leaves out, templates included.
func SetDefaults_CloneSet(obj *CloneSet) {
	SetDefaults_CloneSetSpec(&obj.Spec)
	defaults.SetPodTemplate(&obj.Spec.Template)
	for i := range obj.Spec.VolumeClaimTemplates {
		defaults.SetClaimTemplate(&obj.Spec.VolumeClaimTemplates[i])
	}
}

// SetDefaults_CloneSetSpec fills in everything but the templates. Admission uses it alone for an update that leaves the
// template as it is: defaults that a new release brings must not start a rollout.
func SetDefaults_CloneSetSpec(spec *CloneSetSpec) {
	if spec.Replicas == nil {
		spec.Replicas = ptr.To(int32(defaultReplicas))
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = ptr.To(int32(defaultRevisionHistoryLimit))
	}
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = RollingUpdateCloneSetUpdateStrategyType
	}
	if spec.UpdateStrategy.Type == RollingUpdateCloneSetUpdateStrategyType && spec.UpdateStrategy.RollingUpdate == nil {
		spec.UpdateStrategy.RollingUpdate = &RollingUpdateCloneSetStrategy{}
	}
	if spec.UpdateStrategy.RollingUpdate != nil {
		setRollingUpdateCloneSet(spec.UpdateStrategy.RollingUpdate)
	}
}

func setRollingUpdateCloneSet(r *RollingUpdateCloneSetStrategy) {
	if r.PodUpdatePolicy == "" {
		r.PodUpdatePolicy = ReCreateCloneSetPodUpdatePolicyType
	}
	if r.InPlaceUpdateStrategy == nil && r.PodUpdatePolicy != ReCreateCloneSetPodUpdatePolicyType {
		r.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{}
	}
	if r.Partition == nil {
		r.Partition = ptr.To(intstr.FromInt32(0))
	}
	if r.MaxUnavailable == nil {
		r.MaxUnavailable = ptr.To(intstr.FromString(defaultMaxUnavailable))
	}
	if r.MaxSurge == nil {
		r.MaxSurge = ptr.To(intstr.FromInt32(0))
	}
}
