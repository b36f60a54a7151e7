package pub

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Annotations that record an in-place update on the Pod.
const (
	// InPlaceUpdateStateKey holds an InPlaceUpdateState: the latest in-place update, also after completion.
	InPlaceUpdateStateKey = "apps.kruise.io/inplace-update-state"
	// InPlaceUpdateGraceKey holds an InPlaceUpdateGrace: the change that waits for the end of the grace period.
	InPlaceUpdateGraceKey = "apps.kruise.io/inplace-update-grace"
	// InPlaceUpdateStateKeyOld is the former InPlaceUpdateStateKey; it is read if the present one is absent.
	InPlaceUpdateStateKeyOld = "inplace-update-state"
	// InPlaceUpdateGraceKeyOld is the former InPlaceUpdateGraceKey; it is read if the present one is absent.
	InPlaceUpdateGraceKeyOld = "inplace-update-grace"
	// RuntimeContainersMetaKey is written by a node daemon, where one is installed.
	RuntimeContainersMetaKey = "apps.kruise.io/runtime-containers-meta"
	// ContainerLaunchPriorityKey is the Pod annotation that orders the start of the containers.
	ContainerLaunchPriorityKey = "apps.kruise.io/container-launch-priority"
	// ContainerLaunchOrdered is the value of ContainerLaunchPriorityKey: start in list order.
	ContainerLaunchOrdered = "Ordered"
)

// Environment variables of containers that in-place update looks at.
const (
	ContainerPriorityEnv     = "KRUISE_CONTAINER_PRIORITY"
	ContainerBarrierEnv      = "KRUISE_CONTAINER_BARRIER"
	SidecarSetVersionEnv     = "SIDECARSET_VERSION"
	SidecarSetVersionAltEnv  = "SIDECARSET_VERSION_ALT"
	ContainerBarrierKeyStart = "p_"
)

// InPlaceUpdateStrategy holds the parameters of in-place update.
type InPlaceUpdateStrategy struct {
	// GracePeriodSeconds is the time in seconds between marking a Pod not ready and changing it. Default 0.
	// +kubebuilder:validation:Minimum=0
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`
	// ImagePreDownloadParallelism is the number of nodes that pull the new image at a time. A percentage is refused.
	// Default 1.
	ImagePreDownloadParallelism *intstr.IntOrString `json:"imagePreDownloadParallelism,omitempty"`
	// ImagePreDownloadTimeoutSeconds bounds one pull, in seconds. Default 300.
	// +kubebuilder:validation:Minimum=0
	ImagePreDownloadTimeoutSeconds *int32 `json:"imagePreDownloadTimeoutSeconds,omitempty"`
	// ImagePreDownloadMinUpdatedReadyPods is the number of ready Pods at the new revision from which on the image is
	// pulled on the other nodes. Default 0.
	// +kubebuilder:validation:Minimum=0
	ImagePreDownloadMinUpdatedReadyPods *int32 `json:"imagePreDownloadMinUpdatedReadyPods,omitempty"`
}

// InPlaceUpdateState is the value of InPlaceUpdateStateKey.
//
// +k8s:openapi-gen=false
type InPlaceUpdateState struct {
	// Revision is the name of the new revision.
	Revision string `json:"revision"`
	// UpdateTimestamp is when the update began.
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`
	// LastContainerStatuses holds what containers ran before the change, of those whose image was changed so far.
	LastContainerStatuses map[string]InPlaceUpdateContainerStatus `json:"lastContainerStatuses"`
	UpdateEnvFromMetadata bool                                    `json:"updateEnvFromMetadata,omitempty"`
	UpdateResources       bool                                    `json:"updateResources,omitempty"`
	UpdateImages          bool                                    `json:"updateImages,omitempty"`
	// NextContainerImages, NextContainerRefMetadata and NextContainerResources are still to be done, per container.
	NextContainerImages      map[string]string                      `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata map[string]metav1.ObjectMeta           `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	// PreCheckBeforeNext is what must hold before the next batch.
	PreCheckBeforeNext *InPlaceUpdatePreCheckBeforeNext `json:"preCheckBeforeNext,omitempty"`
	// ContainerBatchesRecord lists the batches that are done.
	ContainerBatchesRecord []InPlaceUpdateContainerBatch `json:"containerBatchesRecord,omitempty"`
	// ContainerResources is what the containers of the batches that are done were to be given. Other implementations do not
	// write it.
	ContainerResources map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	// PreviousRevision is the revision whose containers still run while the update waits for its grace period.
	PreviousRevision string `json:"previousRevision,omitempty"`
}

// InPlaceUpdateContainerStatus is what a container ran before its image was changed.
type InPlaceUpdateContainerStatus struct {
	ImageID     string `json:"imageID,omitempty"`
	ContainerID string `json:"containerID,omitempty"`
}

// InPlaceUpdatePreCheckBeforeNext is a condition on the next batch.
type InPlaceUpdatePreCheckBeforeNext struct {
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// InPlaceUpdateContainerBatch records one batch.
type InPlaceUpdateContainerBatch struct {
	Timestamp metav1.Time `json:"timestamp"`
	// Containers are sorted by name.
	Containers []string `json:"containers"`
}

// InPlaceUpdateGrace is the value of InPlaceUpdateGraceKey.
type InPlaceUpdateGrace struct {
	Revision             string                                 `json:"revision"`
	ContainerImages      map[string]string                      `json:"containerImages,omitempty"`
	ContainerRefMetadata map[string]metav1.ObjectMeta           `json:"containerRefMetadata,omitempty"`
	ContainerResources   map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	// MetaDataPatch is a strategic merge patch of a Pod with all other changes of metadata.
	MetaDataPatch         []byte `json:"metaDataPatch,omitempty"`
	UpdateEnvFromMetadata bool   `json:"updateEnvFromMetadata,omitempty"`
	GraceSeconds          int32  `json:"graceSeconds,omitempty"`
}

// RuntimeContainerMetaSet is the value of RuntimeContainersMetaKey.
type RuntimeContainerMetaSet struct {
	Containers []RuntimeContainerMeta `json:"containers,omitempty"`
}

// RuntimeContainerMeta is what a node daemon reports about one container.
type RuntimeContainerMeta struct {
	Name         string                 `json:"name"`
	ContainerID  string                 `json:"containerID"`
	RestartCount int32                  `json:"restartCount"`
	Hashes       RuntimeContainerHashes `json:"hashes"`
}

// RuntimeContainerHashes are hashes of what a container was started with.
type RuntimeContainerHashes struct {
	PlainHash                    uint64 `json:"plainHash"`
	PlainHashWithoutResources    uint64 `json:"plainHashWithoutResources,omitempty"`
	ExtractedEnvFromMetadataHash uint64 `json:"extractedEnvFromMetadataHash,omitempty"`
}
