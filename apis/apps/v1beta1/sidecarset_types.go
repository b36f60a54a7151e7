package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// SidecarSet injects containers into the Pods that it selects, and upgrades them apart from the application.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,categories={all,kruise}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="MATCHED",type="integer",JSONPath=".status.matchedPods",description="Pods selected"
// +kubebuilder:printcolumn:name="UPDATED",type="integer",JSONPath=".status.updatedPods",description="Pods with the latest sidecars"
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.readyPods",description="Ready Pods"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type SidecarSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SidecarSetSpec   `json:"spec,omitempty"`
	Status SidecarSetStatus `json:"status,omitempty"`
}

// SidecarSetList is a list of SidecarSets.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type SidecarSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SidecarSet `json:"items"`
}

// SidecarSetSpec is what is wanted of a SidecarSet.
//
// +kubebuilder:validation:XValidation:rule="has(self.containers) && size(self.containers) > 0 || has(self.initContainers) && size(self.initContainers) > 0",message="at least one container or init container is required",fieldPath=".containers"
// +kubebuilder:validation:XValidation:rule="has(self.selector) && (has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0 || has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0)",message="must not be empty: it would select every Pod",fieldPath=".selector"
type SidecarSetSpec struct {
	// Selector says, by label, which Pods are injected and counted. It must not be empty.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// NamespaceSelector says, by label of the Namespace, where Pods are selected. Default everywhere.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// InitContainers are injected only; running Pods keep theirs.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	InitContainers []SidecarContainer `json:"initContainers,omitempty"`
	// Containers are the sidecars.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Containers []SidecarContainer `json:"containers,omitempty"`
	// Volumes that sidecars may mount.
	// +listType=map
	// +listMapKey=name
	Volumes []corev1.Volume `json:"volumes,omitempty"`
	// UpdateStrategy says how running Pods are brought to the latest images.
	UpdateStrategy SidecarSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// InjectionStrategy says whether and in which version new Pods are injected.
	InjectionStrategy SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`
	// ImagePullSecrets are appended to those of the Pod.
	// +listType=atomic
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// RevisionHistoryLimit is the number of revisions kept, at least 1. Default 10.
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// PatchPodMetadata are annotations that Pods get at injection and upgrade.
	// +listType=atomic
	PatchPodMetadata []SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`
	// CustomVersion is the user's name for the present revision. It becomes a label of the revision.
	CustomVersion string `json:"customVersion,omitempty"`
}

// SidecarSetPatchPolicyType says how an annotation is set.
type SidecarSetPatchPolicyType string

// Ways to set an annotation.
const (
	SidecarSetRetainPatchPolicy         SidecarSetPatchPolicyType = "Retain"
	SidecarSetOverwritePatchPolicy      SidecarSetPatchPolicyType = "Overwrite"
	SidecarSetMergePatchJSONPatchPolicy SidecarSetPatchPolicyType = "MergePatchJson"
)

// SidecarSetPatchPodMetadata are annotations to set on Pods.
//
// +kubebuilder:validation:XValidation:rule="has(self.annotations) && size(self.annotations) > 0",message="must not be empty",fieldPath=".annotations"
type SidecarSetPatchPodMetadata struct {
	// Annotations to set.
	Annotations map[string]string `json:"annotations,omitempty"`
	// PatchPolicy is Retain (keep what is there), Overwrite or MergePatchJson. Default Retain.
	// +kubebuilder:validation:Enum="";Retain;Overwrite;MergePatchJson
	PatchPolicy SidecarSetPatchPolicyType `json:"patchPolicy,omitempty"`
}

// PodInjectPolicyType says where a container is put.
type PodInjectPolicyType string

// Places of a container.
const (
	// BeforeAppContainerType puts it in front of the Pod's own containers.
	BeforeAppContainerType PodInjectPolicyType = "BeforeAppContainer"
	// AfterAppContainerType puts it behind them.
	AfterAppContainerType PodInjectPolicyType = "AfterAppContainer"
)

// SidecarContainer is a container and how it is injected and upgraded.
type SidecarContainer struct {
	corev1.Container `json:",inline"`

	// PodInjectPolicy is BeforeAppContainer or AfterAppContainer. Default BeforeAppContainer, for init containers
	// AfterAppContainer.
	// +kubebuilder:validation:Enum="";BeforeAppContainer;AfterAppContainer
	PodInjectPolicy PodInjectPolicyType `json:"podInjectPolicy,omitempty"`
	// UpgradeStrategy says how the container of a running Pod is upgraded. It cannot be changed.
	UpgradeStrategy SidecarContainerUpgradeStrategy `json:"upgradeStrategy,omitempty"`
	// ShareVolumePolicy mounts what the application's containers mount. Default disabled.
	ShareVolumePolicy ShareVolumePolicy `json:"shareVolumePolicy,omitempty"`
	// ShareVolumeDevicePolicy is the same for raw block devices. Default disabled.
	ShareVolumeDevicePolicy *ShareVolumePolicy `json:"shareVolumeDevicePolicy,omitempty"`
	// TransferEnv copies environment variables from containers of the Pod.
	// +listType=atomic
	TransferEnv []TransferEnvVar `json:"transferEnv,omitempty"`
	// ResourcesPolicy computes the resources from those of the application's containers. Not together with resources.
	ResourcesPolicy *ResourcesPolicy `json:"resourcesPolicy,omitempty"`
}

// ShareVolumePolicyType switches sharing.
type ShareVolumePolicyType string

// Switches.
const (
	ShareVolumePolicyEnabled  ShareVolumePolicyType = "enabled"
	ShareVolumePolicyDisabled ShareVolumePolicyType = "disabled"
)

// ShareVolumePolicy switches sharing.
type ShareVolumePolicy struct {
	// Type is enabled or disabled.
	Type ShareVolumePolicyType `json:"type,omitempty"`
}

// TransferEnvVar names environment variables of a container of the Pod.
type TransferEnvVar struct {
	// SourceContainerName names the container.
	SourceContainerName string `json:"sourceContainerName,omitempty"`
	// SourceContainerNameFrom names a label or annotation of the Pod that names the container. It takes precedence.
	SourceContainerNameFrom *SourceContainerNameSource `json:"sourceContainerNameFrom,omitempty"`
	// EnvName is one variable.
	EnvName string `json:"envName,omitempty"`
	// EnvNames are more variables.
	// +listType=atomic
	EnvNames []string `json:"envNames,omitempty"`
}

// SourceContainerNameSource names a label or annotation.
type SourceContainerNameSource struct {
	// FieldRef is metadata.labels['KEY'] or metadata.annotations['KEY'].
	FieldRef *corev1.ObjectFieldSelector `json:"fieldRef,omitempty"`
}

// SidecarContainerUpgradeType says how a container is upgraded.
type SidecarContainerUpgradeType string

// Ways to upgrade.
const (
	// SidecarContainerColdUpgrade changes the image of the container.
	SidecarContainerColdUpgrade SidecarContainerUpgradeType = "ColdUpgrade"
	// SidecarContainerHotUpgrade starts the new version in a second container before the old one ends.
	SidecarContainerHotUpgrade SidecarContainerUpgradeType = "HotUpgrade"
)

// SidecarContainerUpgradeStrategy says how a container is upgraded.
type SidecarContainerUpgradeStrategy struct {
	// UpgradeType is ColdUpgrade or HotUpgrade. Default ColdUpgrade.
	UpgradeType SidecarContainerUpgradeType `json:"upgradeType,omitempty"`
	// HotUpgradeEmptyImage is the image of the idle one of the two containers.
	HotUpgradeEmptyImage string `json:"hotUpgradeEmptyImage,omitempty"`
}

// TargetContainersModeType says how resources of several containers are aggregated.
type TargetContainersModeType string

// Ways to aggregate.
const (
	TargetContainersModeSum TargetContainersModeType = "sum"
	TargetContainersModeMax TargetContainersModeType = "max"
)

// ResourcesPolicy computes resources.
type ResourcesPolicy struct {
	// TargetContainersMode is sum or max.
	// +kubebuilder:validation:Enum=sum;max
	TargetContainersMode TargetContainersModeType `json:"targetContainersMode"`
	// TargetContainersNameRegex selects containers by name, unanchored. Default ".*".
	// +kubebuilder:default=".*"
	// +kubebuilder:validation:MinLength=1
	TargetContainersNameRegex string `json:"targetContainersNameRegex,omitempty"`
	// ResourcesExpr are the expressions.
	ResourcesExpr ResourcesExpr `json:"resourcesExpr"`
}

// ResourcesExpr are expressions for limits and requests.
//
// +kubebuilder:validation:XValidation:rule="has(self.limits) || has(self.requests)",message="at least one of limits and requests is required"
type ResourcesExpr struct {
	// Limits of the sidecar.
	Limits *ResourceExprLimits `json:"limits,omitempty"`
	// Requests of the sidecar.
	Requests *ResourceExprRequests `json:"requests,omitempty"`
}

// ResourceExprLimits are expressions for limits.
type ResourceExprLimits struct {
	// CPU is an expression.
	CPU string `json:"cpu,omitempty"`
	// Memory is an expression.
	Memory string `json:"memory,omitempty"`
}

// ResourceExprRequests are expressions for requests.
type ResourceExprRequests struct {
	// CPU is an expression.
	CPU string `json:"cpu,omitempty"`
	// Memory is an expression.
	Memory string `json:"memory,omitempty"`
}

// SidecarSetInjectionStrategy says whether and in which version new Pods are injected.
type SidecarSetInjectionStrategy struct {
	// Paused injects nothing into new Pods. Default false.
	Paused bool `json:"paused,omitempty"`
	// Revision injects an older revision. Default the latest.
	Revision *SidecarSetInjectRevision `json:"revision,omitempty"`
}

// SidecarSetInjectRevisionPolicy says which Pods get the older revision.
type SidecarSetInjectRevisionPolicy string

// Which Pods get the older revision.
const (
	AlwaysSidecarSetInjectRevisionPolicy  SidecarSetInjectRevisionPolicy = "Always"
	PartialSidecarSetInjectRevisionPolicy SidecarSetInjectRevisionPolicy = "Partial"
)

// SidecarSetInjectRevision names a revision.
type SidecarSetInjectRevision struct {
	// CustomVersion names it by the user's name.
	CustomVersion *string `json:"customVersion,omitempty"`
	// RevisionName names it by the name of the ControllerRevision.
	RevisionName *string `json:"revisionName,omitempty"`
	// Policy is Always, or Partial for as many Pods as the update strategy keeps back. Default Always.
	// +kubebuilder:default=Always
	// +kubebuilder:validation:Enum=Always;Partial
	Policy SidecarSetInjectRevisionPolicy `json:"policy,omitempty"`
}

// SidecarSetUpdateStrategyType is a kind of update strategy.
type SidecarSetUpdateStrategyType string

// Update strategies.
const (
	// NotUpdateSidecarSetStrategyType leaves running Pods alone.
	NotUpdateSidecarSetStrategyType SidecarSetUpdateStrategyType = "NotUpdate"
	// RollingUpdateSidecarSetStrategyType upgrades them within the budget.
	RollingUpdateSidecarSetStrategyType SidecarSetUpdateStrategyType = "RollingUpdate"
)

// SidecarSetUpdateStrategy says how running Pods are brought to the latest images.
//
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.partition) || self.partition == 0 || self.partition == '0%'",message="only one of selector and partition may be given"
type SidecarSetUpdateStrategy struct {
	// Type is NotUpdate or RollingUpdate. Default RollingUpdate.
	// +kubebuilder:validation:Enum="";NotUpdate;RollingUpdate
	Type SidecarSetUpdateStrategyType `json:"type,omitempty"`
	// Paused upgrades no further Pod. Default false.
	Paused bool `json:"paused,omitempty"`
	// Selector restricts upgrades to Pods of these labels. Not together with partition.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Partition is the number of Pods to keep back: a number or a percentage. Default 0.
	// +kubebuilder:validation:XIntOrString
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// MaxUnavailable is the number of unavailable Pods that upgrades tolerate: a number or a percentage. Default 1.
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// PriorityStrategy says which Pods are upgraded first.
	PriorityStrategy *pub.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
	// ScatterStrategy spreads the Pods that match a term over the rollout.
	// +listType=map
	// +listMapKey=key
	// +listMapKey=value
	// +kubebuilder:validation:MaxItems=100
	ScatterStrategy []UpdateScatterTerm `json:"scatterStrategy,omitempty"`
}

// SidecarSetStatus is what was last seen of a SidecarSet.
type SidecarSetStatus struct {
	// ObservedGeneration is the generation acted upon.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// MatchedPods is the number of injected Pods that are selected.
	// +optional
	MatchedPods int32 `json:"matchedPods"`
	// UpdatedPods is the number of those with the latest sidecars.
	// +optional
	UpdatedPods int32 `json:"updatedPods"`
	// ReadyPods is the number of those that are ready.
	// +optional
	ReadyPods int32 `json:"readyPods"`
	// UpdatedReadyPods is the number of ready Pods with the latest sidecars.
	UpdatedReadyPods int32 `json:"updatedReadyPods,omitempty"`
	// LatestRevision is the name of the ControllerRevision of the present spec.
	LatestRevision string `json:"latestRevision,omitempty"`
	// CollisionCount is part of the hash that names revisions.
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// Conditions are Ready, Reconciling and Stalled.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
