package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// StatefulSet keeps Pods of stable identity, numbered by ordinals of which some can be reserved.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName={sts,asts},categories={all,kruise}
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".spec.replicas",description="Pods wanted"
// +kubebuilder:printcolumn:name="CURRENT",type="integer",JSONPath=".status.replicas",description="Pods that exist"
// +kubebuilder:printcolumn:name="UPDATED",type="integer",JSONPath=".status.updatedReplicas",description="Pods at the update revision"
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.readyReplicas",description="Ready Pods"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="CONTAINERS",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].name"
// +kubebuilder:printcolumn:name="IMAGES",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].image"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 52",optionalOldSelf=true,message="must be at most 52 characters, so that the labels of Pods fit"
type StatefulSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   StatefulSetSpec   `json:"spec,omitempty"`
	Status StatefulSetStatus `json:"status,omitempty"`
}

// StatefulSetList is a list of StatefulSets.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type StatefulSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []StatefulSet `json:"items"`
}

// PodManagementPolicyType is the order in which Pods are created and deleted.
type PodManagementPolicyType string

// Orders.
const (
	// OrderedReadyPodManagement handles one Pod after the other and waits for each.
	OrderedReadyPodManagement PodManagementPolicyType = "OrderedReady"
	// ParallelPodManagement handles all Pods at once.
	ParallelPodManagement PodManagementPolicyType = "Parallel"
)

// StatefulSetSpec is what is wanted of a StatefulSet.
//
// +kubebuilder:validation:XValidation:rule="has(self.serviceName) == has(oldSelf.serviceName) && (!has(self.serviceName) || self.serviceName == oldSelf.serviceName)",message="cannot be changed",fieldPath=".serviceName"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.podManagementPolicy) || has(self.podManagementPolicy) && self.podManagementPolicy == oldSelf.podManagementPolicy",message="cannot be changed",fieldPath=".podManagementPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || !has(self.template.spec.restartPolicy) || size(self.template.spec.restartPolicy) == 0 || self.template.spec.restartPolicy == 'Always'",message="must be Always",fieldPath=".template.spec.restartPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || !has(self.template.spec.activeDeadlineSeconds)",message="must not be set: Pods of a StatefulSet run until they are deleted",fieldPath=".template.spec.activeDeadlineSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchLabels) || has(self.template.metadata) && has(self.template.metadata.labels) && self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])",message="must hold the labels of spec.selector.matchLabels",fieldPath=".template.metadata.labels"
// +kubebuilder:validation:XValidation:rule="has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel' || !has(self.scaleStrategy) || !has(self.scaleStrategy.maxUnavailable) || self.scaleStrategy.maxUnavailable == 1",message="must be 1 unless podManagementPolicy is Parallel",fieldPath=".scaleStrategy.maxUnavailable"
// +kubebuilder:validation:XValidation:rule="has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel' || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.maxUnavailable) || self.updateStrategy.rollingUpdate.maxUnavailable == 1",message="must be 1 unless podManagementPolicy is Parallel",fieldPath=".updateStrategy.rollingUpdate.maxUnavailable"
// +kubebuilder:validation:XValidation:rule="has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel' || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.unorderedUpdate)",message="may be set only if podManagementPolicy is Parallel",fieldPath=".updateStrategy.rollingUpdate.unorderedUpdate"
type StatefulSetSpec struct {
	// Replicas is the number of Pods wanted, reserved ordinals not counted. Default 1.
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector says which Pods and revisions belong to the set. It must match the labels of the template, must not be
	// empty, and cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed"
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty"
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is the Pod to stamp out. It is all that a revision holds.
	Template corev1.PodTemplateSpec `json:"template"`
	// VolumeClaimTemplates are the claims of every Pod. They are no part of a revision.
	// +listType=atomic
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// VolumeClaimUpdateStrategy says how a change of the claim templates reaches claims that exist.
	VolumeClaimUpdateStrategy VolumeClaimUpdateStrategy `json:"volumeClaimUpdateStrategy,omitempty"`
	// ServiceName names the Service that governs the Pods' host names. It cannot be changed.
	// +kubebuilder:validation:MaxLength=253
	ServiceName string `json:"serviceName,omitempty"`
	// PodManagementPolicy is OrderedReady or Parallel. It cannot be changed. Default OrderedReady.
	// +kubebuilder:validation:Enum="";OrderedReady;Parallel
	PodManagementPolicy PodManagementPolicyType `json:"podManagementPolicy,omitempty"`
	// UpdateStrategy says how a change of the template reaches the Pods.
	UpdateStrategy StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of revisions kept beside those in use. Default 10.
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// ReserveOrdinals are ordinals that must have no Pod: numbers, or ranges such as "5-9".
	// +kubebuilder:validation:MaxItems=10000
	// +listType=atomic
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`
	// Lifecycle holds hooks of the Pod lifecycle.
	Lifecycle *pub.Lifecycle `json:"lifecycle,omitempty"`
	// ScaleStrategy holds the parameters of scaling.
	ScaleStrategy *StatefulSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// PersistentVolumeClaimRetentionPolicy says when claims are deleted. Default never.
	PersistentVolumeClaimRetentionPolicy *StatefulSetPersistentVolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
	// Ordinals says where the numbering begins.
	Ordinals *StatefulSetOrdinals `json:"ordinals,omitempty"`
}

// VolumeClaimUpdateStrategyType says how a change of claim templates reaches claims that exist.
type VolumeClaimUpdateStrategyType string

// Ways to update claims.
const (
	// OnPodRollingUpdateVolumeClaimUpdateStrategyType updates a Pod's claims with the Pod.
	OnPodRollingUpdateVolumeClaimUpdateStrategyType VolumeClaimUpdateStrategyType = "OnPodRollingUpdate"
	// OnDeleteVolumeClaimUpdateStrategyType leaves claims alone until somebody deletes them.
	OnDeleteVolumeClaimUpdateStrategyType VolumeClaimUpdateStrategyType = "OnDelete"
)

// VolumeClaimUpdateStrategy says how a change of claim templates reaches claims that exist.
type VolumeClaimUpdateStrategy struct {
	// Type is OnPodRollingUpdate or OnDelete. Default OnDelete.
	// +kubebuilder:validation:Enum="";OnPodRollingUpdate;OnDelete
	Type VolumeClaimUpdateStrategyType `json:"type,omitempty"`
}

// StatefulSetScaleStrategy holds the parameters of scaling.
type StatefulSetScaleStrategy struct {
	// MaxUnavailable throttles creation: at least 1, a number or a percentage of replicas. It must be 1 unless
	// podManagementPolicy is Parallel. Default unlimited.
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// PersistentVolumeClaimRetentionPolicyType says what becomes of claims.
type PersistentVolumeClaimRetentionPolicyType string

// What becomes of claims.
const (
	RetainPersistentVolumeClaimRetentionPolicyType PersistentVolumeClaimRetentionPolicyType = "Retain"
	DeletePersistentVolumeClaimRetentionPolicyType PersistentVolumeClaimRetentionPolicyType = "Delete"
)

// StatefulSetPersistentVolumeClaimRetentionPolicy says when claims are deleted.
type StatefulSetPersistentVolumeClaimRetentionPolicy struct {
	// WhenDeleted is for the deletion of the set: Retain or Delete. Default Retain.
	// +kubebuilder:validation:Enum="";Retain;Delete
	WhenDeleted PersistentVolumeClaimRetentionPolicyType `json:"whenDeleted,omitempty"`
	// WhenScaled is for an ordinal that is wanted no more: Retain or Delete. Default Retain.
	// +kubebuilder:validation:Enum="";Retain;Delete
	WhenScaled PersistentVolumeClaimRetentionPolicyType `json:"whenScaled,omitempty"`
}

// StatefulSetOrdinals says where the numbering begins.
type StatefulSetOrdinals struct {
	// Start is the first ordinal. Default 0.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Start int32 `json:"start"`
}

// StatefulSetUpdateStrategyType is a kind of update strategy.
type StatefulSetUpdateStrategyType string

// Update strategies.
const (
	// RollingUpdateStatefulSetStrategyType updates Pods within the budget of rollingUpdate.
	RollingUpdateStatefulSetStrategyType StatefulSetUpdateStrategyType = "RollingUpdate"
	// OnDeleteStatefulSetStrategyType replaces Pods only when somebody deletes them.
	OnDeleteStatefulSetStrategyType StatefulSetUpdateStrategyType = "OnDelete"
)

// StatefulSetUpdateStrategy says how a change of the template reaches the Pods.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.type) && self.type == 'OnDelete') || !has(self.rollingUpdate)",message="must not be set with type OnDelete",fieldPath=".rollingUpdate"
type StatefulSetUpdateStrategy struct {
	// Type is RollingUpdate or OnDelete. Default RollingUpdate.
	// +kubebuilder:validation:Enum="";RollingUpdate;OnDelete
	Type StatefulSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate holds the parameters of rolling updates. It must be absent with OnDelete.
	RollingUpdate *RollingUpdateStatefulSetStrategy `json:"rollingUpdate,omitempty"`
}

// StatefulSetPodUpdatePolicyType says how one Pod is updated.
type StatefulSetPodUpdatePolicyType string

// Ways to update a Pod.
const (
	// RecreatePodUpdateStrategyType deletes the Pod and creates it anew.
	RecreatePodUpdateStrategyType StatefulSetPodUpdatePolicyType = "ReCreate"
	// InPlaceIfPossiblePodUpdateStrategyType keeps the Pod if the change can be made to a running one.
	InPlaceIfPossiblePodUpdateStrategyType StatefulSetPodUpdatePolicyType = "InPlaceIfPossible"
	// InPlaceOnlyPodUpdateStrategyType refuses changes that cannot be made to a running Pod.
	InPlaceOnlyPodUpdateStrategyType StatefulSetPodUpdatePolicyType = "InPlaceOnly"
)

// RollingUpdateStatefulSetStrategy holds the parameters of rolling updates.
type RollingUpdateStatefulSetStrategy struct {
	// Partition is the number of Pods to keep at the old revision. Default 0.
	// +kubebuilder:validation:Minimum=0
	Partition *int32 `json:"partition,omitempty"`
	// MaxUnavailable is the number of unavailable Pods that an update tolerates: at least 1, a number or a percentage of
	// replicas rounded down. It must be 1 unless podManagementPolicy is Parallel. Default 1.
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// PodUpdatePolicy is ReCreate, InPlaceIfPossible or InPlaceOnly. The in-place policies need readiness gate
	// InPlaceUpdateReady in the template. Default ReCreate.
	// +kubebuilder:validation:Enum="";ReCreate;InPlaceIfPossible;InPlaceOnly
	PodUpdatePolicy StatefulSetPodUpdatePolicyType `json:"podUpdatePolicy,omitempty"`
	// Paused takes no further Pod to the new revision. Default false.
	Paused bool `json:"paused,omitempty"`
	// UnorderedUpdate updates Pods by priority instead of by descending ordinal. Only with Parallel.
	UnorderedUpdate *UnorderedUpdateStrategy `json:"unorderedUpdate,omitempty"`
	// InPlaceUpdateStrategy holds the parameters of in-place update.
	InPlaceUpdateStrategy *pub.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
	// MinReadySeconds is the time in seconds, 0 to 300, for which a Pod must be ready to count as available. Default 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// UnorderedUpdateStrategy updates Pods by priority.
type UnorderedUpdateStrategy struct {
	// PriorityStrategy says which Pods are updated first.
	PriorityStrategy *pub.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
}

// StatefulSetStatus is what was last seen of a StatefulSet.
type StatefulSetStatus struct {
	// ObservedGeneration is the generation acted upon.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of Pods that exist, terminating ones included.
	// +optional
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of Pods that are Running and Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas is the number of available Pods.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// CurrentReplicas is the number of Pods at the current revision.
	// +optional
	CurrentReplicas int32 `json:"currentReplicas"`
	// UpdatedReplicas is the number of Pods at the update revision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// UpdatedReadyReplicas is the number of ready Pods at the update revision.
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`
	// UpdatedAvailableReplicas is the number of available Pods at the update revision.
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`
	// CurrentRevision is the name of the ControllerRevision from which Pods that partition holds back are created.
	CurrentRevision string `json:"currentRevision,omitempty"`
	// UpdateRevision is the name of the ControllerRevision of the present template.
	UpdateRevision string `json:"updateRevision,omitempty"`
	// CollisionCount is part of the hash that names revisions.
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// Conditions are FailedCreatePod, FailedUpdatePod, Ready, Reconciling and Stalled.
	// +listType=map
	// +listMapKey=type
	Conditions []StatefulSetCondition `json:"conditions,omitempty"`
	// LabelSelector is the selector as text, for the scale subresource.
	LabelSelector string `json:"labelSelector,omitempty"`
	// VolumeClaims has one entry per claim template, in the same order.
	// +listType=atomic
	VolumeClaims []VolumeClaimStatus `json:"volumeClaims,omitempty"`
}

// StatefulSetConditionType is a type of condition.
type StatefulSetConditionType string

// Types of conditions.
const (
	FailedCreatePod                 StatefulSetConditionType = "FailedCreatePod"
	FailedUpdatePod                 StatefulSetConditionType = "FailedUpdatePod"
	StatefulSetConditionReady       StatefulSetConditionType = "Ready"
	StatefulSetConditionReconciling StatefulSetConditionType = "Reconciling"
	StatefulSetConditionStalled     StatefulSetConditionType = "Stalled"
)

// StatefulSetCondition is one aspect of the state of a StatefulSet.
type StatefulSetCondition struct {
	// Type of the condition.
	Type StatefulSetConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// LastTransitionTime is when status changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is one word.
	Reason string `json:"reason,omitempty"`
	// Message is for people.
	Message string `json:"message,omitempty"`
}

// VolumeClaimStatus says how many claims are as their template says.
type VolumeClaimStatus struct {
	// VolumeClaimName is the name of the claim template.
	VolumeClaimName string `json:"volumeClaimName"`
	// CompatibleReplicas is the number of Pods whose claim is as the template says.
	CompatibleReplicas int32 `json:"compatibleReplicas"`
	// CompatibleReadyReplicas is the number of those whose claim has been resized already.
	CompatibleReadyReplicas int32 `json:"compatibleReadyReplicas"`
}
