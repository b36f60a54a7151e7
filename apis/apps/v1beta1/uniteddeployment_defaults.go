package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
)

// SetDefaults_UnitedDeployment fills in what a UnitedDeployment leaves out. Of the templates only that of a StatefulSet
// is filled in; those of the other kinds are when the workload is created.
func SetDefaults_UnitedDeployment(obj *UnitedDeployment) {
	SetDefaults_UnitedDeploymentSpec(&obj.Spec)
	t := obj.Spec.Template.StatefulSetTemplate
	if t == nil {
		return
	}
	defaults.SetPodTemplate(&t.Spec.Template)
	for i := range t.Spec.VolumeClaimTemplates {
		defaults.SetClaimTemplate(&t.Spec.VolumeClaimTemplates[i])
	}
}

// SetDefaults_UnitedDeploymentSpec fills in everything but templates.
func SetDefaults_UnitedDeploymentSpec(spec *UnitedDeploymentSpec) {
	if spec.Replicas == nil {
		spec.Replicas = ptr.To(int32(defaultReplicas))
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = ptr.To(int32(defaultRevisionHistoryLimit))
	}
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = ManualUpdateStrategyType
	}
	if spec.UpdateStrategy.Type == ManualUpdateStrategyType && spec.UpdateStrategy.ManualUpdate == nil {
		spec.UpdateStrategy.ManualUpdate = &ManualUpdate{}
	}
	setMinReplicas(spec.Topology.Subsets)
}

// setMinReplicas applies where subsets are given by bounds. Where bounds and shares are mixed nothing is set: validation
// refuses that.
func setMinReplicas(subsets []Subset) {
	bounded := false
	for i := range subsets {
		if subsets[i].Replicas != nil {
			return
		}
		bounded = bounded || subsets[i].MinReplicas != nil || subsets[i].MaxReplicas != nil
	}
	for i := range subsets {
		if bounded && subsets[i].MinReplicas == nil {
			subsets[i].MinReplicas = ptr.To(intstr.FromInt32(0))
		}
	}
}
