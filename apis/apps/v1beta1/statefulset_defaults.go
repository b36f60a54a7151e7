package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
)

// SetDefaults_StatefulSet fills in what a StatefulSet leaves out, templates included.
func SetDefaults_StatefulSet(obj *StatefulSet) {
	SetDefaults_StatefulSetSpec(&obj.Spec)
	defaults.SetPodTemplate(&obj.Spec.Template)
	for i := range obj.Spec.VolumeClaimTemplates {
		defaults.SetClaimTemplate(&obj.Spec.VolumeClaimTemplates[i])
	}
}

// SetDefaults_StatefulSetSpec fills in everything but the templates.
func SetDefaults_StatefulSetSpec(spec *StatefulSetSpec) {
	if spec.PodManagementPolicy == "" {
		spec.PodManagementPolicy = OrderedReadyPodManagement
	}
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = RollingUpdateStatefulSetStrategyType
	}
	if spec.UpdateStrategy.Type == RollingUpdateStatefulSetStrategyType {
		if spec.UpdateStrategy.RollingUpdate == nil {
			spec.UpdateStrategy.RollingUpdate = &RollingUpdateStatefulSetStrategy{}
		}
		setRollingUpdateStatefulSet(spec.UpdateStrategy.RollingUpdate)
	}
	if spec.PersistentVolumeClaimRetentionPolicy == nil {
		spec.PersistentVolumeClaimRetentionPolicy = &StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	if spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted == "" {
		spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = RetainPersistentVolumeClaimRetentionPolicyType
	}
	if spec.PersistentVolumeClaimRetentionPolicy.WhenScaled == "" {
		spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = RetainPersistentVolumeClaimRetentionPolicyType
	}
	if spec.VolumeClaimUpdateStrategy.Type == "" {
		spec.VolumeClaimUpdateStrategy.Type = OnDeleteVolumeClaimUpdateStrategyType
	}
	if spec.Replicas == nil {
		spec.Replicas = ptr.To(int32(defaultReplicas))
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = ptr.To(int32(defaultRevisionHistoryLimit))
	}
}

func setRollingUpdateStatefulSet(r *RollingUpdateStatefulSetStrategy) {
	if r.Partition == nil {
		r.Partition = ptr.To(int32(0))
	}
	if r.MaxUnavailable == nil {
		r.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	}
	if r.PodUpdatePolicy == "" {
		r.PodUpdatePolicy = RecreatePodUpdateStrategyType
	}
	if r.MinReadySeconds == nil {
		r.MinReadySeconds = ptr.To(int32(0))
	}
}
