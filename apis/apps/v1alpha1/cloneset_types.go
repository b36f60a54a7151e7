package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// CloneSet keeps a number of interchangeable Pods and takes them from one template to the next.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=clone,categories={all,kruise}
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".spec.replicas",description="Pods wanted"
// +kubebuilder:printcolumn:name="UPDATED",type="integer",JSONPath=".status.updatedReplicas",description="Pods at the update revision"
// +kubebuilder:printcolumn:name="UPDATED_READY",type="integer",JSONPath=".status.updatedReadyReplicas",description="Ready Pods at the update revision"
// +kubebuilder:printcolumn:name="UPDATED_AVAILABLE",type="integer",JSONPath=".status.updatedAvailableReplicas",description="Available Pods at the update revision"
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.readyReplicas",description="Ready Pods"
// +kubebuilder:printcolumn:name="TOTAL",type="integer",JSONPath=".status.replicas",description="Pods that exist"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="CONTAINERS",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].name"
// +kubebuilder:printcolumn:name="IMAGES",type="string",priority=1,JSONPath=".spec.template.spec.containers[*].image"
// +kubebuilder:printcolumn:name="SELECTOR",type="string",priority=1,JSONPath=".status.labelSelector"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 247",message="must be at most 247 characters, so that the names of Pods fit"
type CloneSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CloneSetSpec   `json:"spec,omitempty"`
	Status CloneSetStatus `json:"status,omitempty"`
}

// CloneSetList is a list of CloneSets.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type CloneSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CloneSet `json:"items"`
}

// CloneSetSpec is what is wanted of a CloneSet.
//
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadlineSeconds) || self.progressDeadlineSeconds == 2147483647 || self.progressDeadlineSeconds > (has(self.minReadySeconds) ? self.minReadySeconds : 0)",message="must be greater than minReadySeconds",fieldPath=".progressDeadlineSeconds"
type CloneSetSpec struct {
	// Replicas is the number of Pods wanted. Default 1.
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector says which Pods the set keeps. It must match the labels of the template, must not be empty, and cannot be
	// changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed"
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is the Pod to stamp out.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Template corev1.PodTemplateSpec `json:"template"`
	// VolumeClaimTemplates are the claims of every Pod.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	// ScaleStrategy holds the parameters of scaling.
	ScaleStrategy CloneSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// UpdateStrategy says how a change of the template reaches the Pods.
	UpdateStrategy CloneSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of revisions kept beside those in use. Default 10.
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// MinReadySeconds is the time in seconds for which a Pod must be ready to count as available. Default 0.
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// Lifecycle holds hooks of the Pod lifecycle.
	Lifecycle *pub.Lifecycle `json:"lifecycle,omitempty"`
	// ProgressDeadlineSeconds is the time in seconds without progress after which a rollout counts as stuck. Absent or
	// 2147483647: no deadline.
	// +kubebuilder:validation:Minimum=0
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// CloneSetScaleStrategy holds the parameters of scaling.
type CloneSetScaleStrategy struct {
	// PodsToDelete names Pods to delete first.
	// +kubebuilder:validation:MaxItems=10000
	// +listType=set
	PodsToDelete []string `json:"podsToDelete,omitempty"`
	// MaxUnavailable throttles creation: a number or a percentage of replicas, rounded up. Default unlimited.
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// DisablePVCReuse deletes the claims of Pods that vanished. Default false.
	// +kubebuilder:default=false
	DisablePVCReuse bool `json:"disablePVCReuse,omitempty"`
}

// CloneSetUpdateStrategyType is an update strategy and a policy in one.
type CloneSetUpdateStrategyType string

// Update strategies.
const (
	// RecreateCloneSetUpdateStrategyType deletes Pods and creates others.
	RecreateCloneSetUpdateStrategyType CloneSetUpdateStrategyType = "ReCreate"
	// InPlaceIfPossibleCloneSetUpdateStrategyType keeps Pods where the change can be made to a running one.
	InPlaceIfPossibleCloneSetUpdateStrategyType CloneSetUpdateStrategyType = "InPlaceIfPossible"
	// InPlaceOnlyCloneSetUpdateStrategyType refuses changes that cannot be made to a running Pod.
	InPlaceOnlyCloneSetUpdateStrategyType CloneSetUpdateStrategyType = "InPlaceOnly"
	// OnDeleteCloneSetUpdateStrategyType replaces Pods only when somebody deletes them.
	OnDeleteCloneSetUpdateStrategyType CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy says how a change of the template reaches the Pods.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.type) && self.type == 'InPlaceOnly') || !has(self.maxSurge) || self.maxSurge == 0 || self.maxSurge == '0%'",message="must be 0 with type InPlaceOnly",fieldPath=".maxSurge"
type CloneSetUpdateStrategy struct {
	// Type is ReCreate, InPlaceIfPossible, InPlaceOnly or OnDelete. Default ReCreate.
	// +kubebuilder:validation:Enum="";ReCreate;InPlaceIfPossible;InPlaceOnly;OnDelete
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`
	// Partition is the number of Pods to keep at the old revision: a number, or a percentage of replicas. Default 0.
	// +kubebuilder:validation:XIntOrString
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// MaxUnavailable is the number of unavailable Pods that updates tolerate: a number or a percentage. Default 20%.
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is the number of Pods allowed above replicas: a number or a percentage. Default 0.
	// +kubebuilder:validation:XIntOrString
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// Paused takes no further Pod to the new revision. Default false.
	Paused bool `json:"paused,omitempty"`
	// PriorityStrategy says which Pods are updated first.
	PriorityStrategy *pub.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
	// ScatterStrategy spreads the Pods that match a term over the rollout.
	// +listType=map
	// +listMapKey=key
	// +listMapKey=value
	// +kubebuilder:validation:MaxItems=100
	ScatterStrategy []v1beta1.UpdateScatterTerm `json:"scatterStrategy,omitempty"`
	// InPlaceUpdateStrategy holds the parameters of in-place update.
	InPlaceUpdateStrategy *pub.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
}

// CloneSetStatus is the same in all versions.
type CloneSetStatus struct {
	v1beta1.CloneSetStatus `json:",inline"`
}
