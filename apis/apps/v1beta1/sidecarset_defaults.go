package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
)

// SetDefaults_SidecarSet fills in what a SidecarSet leaves out. The hash of the sidecars is taken of the result, so that
// what it fills in never changes.
func SetDefaults_SidecarSet(obj *SidecarSet) {
	spec := &obj.Spec
	setSidecarSetUpdateStrategy(&spec.UpdateStrategy)
	for i := range spec.InitContainers {
		setSidecarContainer(&spec.InitContainers[i], AfterAppContainerType)
	}
	for i := range spec.Containers {
		setSidecarContainer(&spec.Containers[i], BeforeAppContainerType)
	}
	for i := range spec.Volumes {
		defaults.SetSidecarVolume(&spec.Volumes[i])
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = ptr.To(int32(defaultRevisionHistoryLimit))
	}
	for i := range spec.PatchPodMetadata {
		if spec.PatchPodMetadata[i].PatchPolicy == "" {
			spec.PatchPodMetadata[i].PatchPolicy = SidecarSetRetainPatchPolicy
		}
	}
	if r := spec.InjectionStrategy.Revision; r != nil && r.Policy == "" {
		r.Policy = AlwaysSidecarSetInjectRevisionPolicy
	}
}

func setSidecarSetUpdateStrategy(s *SidecarSetUpdateStrategy) {
	if s.Type == "" {
		s.Type = RollingUpdateSidecarSetStrategyType
	}
	if s.MaxUnavailable == nil {
		s.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	}
	if s.Partition == nil {
		s.Partition = ptr.To(intstr.FromInt32(0))
	}
}

func setSidecarContainer(c *SidecarContainer, place PodInjectPolicyType) {
	if c.PodInjectPolicy == "" {
		c.PodInjectPolicy = place
	}
	if c.UpgradeStrategy.UpgradeType == "" {
		c.UpgradeStrategy.UpgradeType = SidecarContainerColdUpgrade
	}
	if c.ShareVolumePolicy.Type == "" {
		c.ShareVolumePolicy.Type = ShareVolumePolicyDisabled
	}
	defaults.SetSidecarContainer(&c.Container)
	for i := range c.TransferEnv {
		if from := c.TransferEnv[i].SourceContainerNameFrom; from != nil && from.FieldRef != nil && from.FieldRef.APIVersion == "" {
			from.FieldRef.APIVersion = "v1"
		}
	}
}
