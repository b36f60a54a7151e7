package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// CloneSet keeps a number of interchangeable Pods and takes them from one template to the next.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || !has(self.template.spec.restartPolicy) || size(self.template.spec.restartPolicy) == 0 || self.template.spec.restartPolicy == 'Always'",message="must be Always",fieldPath=".template.spec.restartPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || !has(self.template.spec.activeDeadlineSeconds)",message="must not be set: Pods of a CloneSet run until they are deleted",fieldPath=".template.spec.activeDeadlineSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchLabels) || has(self.template.metadata) && has(self.template.metadata.labels) && self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])",message="must hold the labels of spec.selector.matchLabels",fieldPath=".template.metadata.labels"
// +kubebuilder:validation:XValidation:rule="(has(self.replicas) && self.replicas == 0) || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.maxUnavailable) || !(self.updateStrategy.rollingUpdate.maxUnavailable == 0 || self.updateStrategy.rollingUpdate.maxUnavailable == '0%') || (has(self.updateStrategy.rollingUpdate.maxSurge) && !(self.updateStrategy.rollingUpdate.maxSurge == 0 || self.updateStrategy.rollingUpdate.maxSurge == '0%'))",message="maxUnavailable and maxSurge must not both be 0: no Pod could ever be updated",fieldPath=".updateStrategy.rollingUpdate.maxUnavailable"
type CloneSetSpec struct {
	// Replicas is the number of Pods wanted. Default 1.
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector says which Pods the set keeps. It must match the labels of the template, must not be empty, and
	// cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed"
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty"
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is the Pod to stamp out. It is all that a revision holds. Its restartPolicy must be Always (the default)
	// and activeDeadlineSeconds must be absent. The default imagePullPolicy of regular containers is Always.
	Template corev1.PodTemplateSpec `json:"template"`
	// VolumeClaimTemplates are the claims of every Pod. A volume of the template with the name of a claim template is
	// replaced by the claim. They are no part of a revision: a change concerns Pods created later.
	// +listType=atomic
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
	// ProgressDeadlineSeconds is the time in seconds without progress after which a rollout counts as stuck. It must be
	// greater than minReadySeconds. Absent or 2147483647: no deadline.
	// +kubebuilder:validation:Minimum=0
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// CloneSetScaleStrategy holds the parameters of scaling.
type CloneSetScaleStrategy struct {
	// PodsToDelete names Pods to delete first. Names of Pods that are gone are removed from the list by the controller.
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	PodsToDelete []string `json:"podsToDelete,omitempty"`
	// MaxUnavailable throttles creation: Pods are created only while fewer than this many are unavailable. A number or a
	// percentage of replicas, rounded up. Default unlimited.
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// EnablePVCReuse keeps the claims of Pods that vanished and gives their identity to the next Pods. Default false.
	// +kubebuilder:default=false
	EnablePVCReuse bool `json:"enablePVCReuse,omitempty"`
	// ExcludePreparingDelete leaves Pods in state PreparingDelete out when Pods are counted for scaling. Default false.
	ExcludePreparingDelete bool `json:"excludePreparingDelete,omitempty"`
}

// CloneSetUpdateStrategyType is a kind of update strategy.
type CloneSetUpdateStrategyType string

// Update strategies.
const (
	// RollingUpdateCloneSetUpdateStrategyType updates Pods within the budget of rollingUpdate.
	RollingUpdateCloneSetUpdateStrategyType CloneSetUpdateStrategyType = "RollingUpdate"
	// OnDeleteCloneSetUpdateStrategyType replaces Pods only when somebody deletes them.
	OnDeleteCloneSetUpdateStrategyType CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy says how a change of the template reaches the Pods.
type CloneSetUpdateStrategy struct {
	// Type is RollingUpdate or OnDelete. Default RollingUpdate.
	// +kubebuilder:validation:Enum="";RollingUpdate;OnDelete
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate holds the parameters of rolling updates. With OnDelete they govern scaling only.
	RollingUpdate *RollingUpdateCloneSetStrategy `json:"rollingUpdate,omitempty"`
}

// CloneSetPodUpdatePolicyType says how one Pod is updated.
type CloneSetPodUpdatePolicyType string

// Ways to update a Pod.
const (
	// ReCreateCloneSetPodUpdatePolicyType deletes the Pod and creates another one.
	ReCreateCloneSetPodUpdatePolicyType CloneSetPodUpdatePolicyType = "ReCreate"
	// InPlaceIfPossibleCloneSetPodUpdatePolicyType keeps the Pod if the change can be made to a running one.
	InPlaceIfPossibleCloneSetPodUpdatePolicyType CloneSetPodUpdatePolicyType = "InPlaceIfPossible"
	// InPlaceOnlyCloneSetPodUpdatePolicyType refuses changes that cannot be made to a running Pod.
	InPlaceOnlyCloneSetPodUpdatePolicyType CloneSetPodUpdatePolicyType = "InPlaceOnly"
)

// RollingUpdateCloneSetStrategy holds the parameters of rolling updates.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.podUpdatePolicy) && self.podUpdatePolicy == 'InPlaceOnly') || !has(self.maxSurge) || self.maxSurge == 0 || self.maxSurge == '0%'",message="must be 0 with podUpdatePolicy InPlaceOnly",fieldPath=".maxSurge"
type RollingUpdateCloneSetStrategy struct {
	// Partition is the number of Pods to keep at the old revision: a number, or a percentage of replicas, rounded up.
	// Default 0.
	// +kubebuilder:validation:XIntOrString
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// MaxUnavailable is the number of unavailable Pods that updates and voluntary deletions tolerate: a number, or a
	// percentage of replicas, rounded up without maxSurge and down with it. Default 20%.
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is the number of Pods allowed above replicas during an update or a specified delete: a number, or a
	// percentage of replicas, rounded up. Must be 0 with InPlaceOnly. Default 0.
	// +kubebuilder:validation:XIntOrString
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// PodUpdatePolicy is ReCreate, InPlaceIfPossible or InPlaceOnly. Default ReCreate.
	// +kubebuilder:validation:Enum="";ReCreate;InPlaceIfPossible;InPlaceOnly
	PodUpdatePolicy CloneSetPodUpdatePolicyType `json:"podUpdatePolicy,omitempty"`
	// Paused takes no further Pod to the new revision. Default false.
	Paused bool `json:"paused,omitempty"`
	// PriorityStrategy says which Pods are updated first.
	PriorityStrategy *pub.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
	// ScatterStrategy spreads the Pods that match a term over the rollout.
	// +listType=map
	// +listMapKey=key
	// +listMapKey=value
	// +kubebuilder:validation:MaxItems=100
	ScatterStrategy []UpdateScatterTerm `json:"scatterStrategy,omitempty"`
	// InPlaceUpdateStrategy holds the parameters of in-place update.
	InPlaceUpdateStrategy *pub.InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
}

// UpdateScatterTerm matches Pods by one label.
type UpdateScatterTerm struct {
	// Key is the label's key.
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
	// Value is the label's value.
	Value string `json:"value"`
}

// CloneSetStatus is what was last seen of a CloneSet.
type CloneSetStatus struct {
	// ObservedGeneration is the generation acted upon.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of Pods of the set.
	// +optional
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of Pods that are Running and Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas is the number of Pods that have been ready for minReadySeconds, in lifecycle state Normal or none.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// UpdatedReplicas is the number of Pods at the update revision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// UpdatedReadyReplicas is the number of ready Pods at the update revision.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
	// UpdatedAvailableReplicas is the number of available Pods at the update revision.
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`
	// ExpectedUpdatedReplicas is the number of Pods that partition wants at the update revision.
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas,omitempty"`
	// UpdateRevision is the name of the ControllerRevision of the present template.
	UpdateRevision string `json:"updateRevision,omitempty"`
	// CurrentRevision is the name of the ControllerRevision from which Pods that partition holds back are created.
	CurrentRevision string `json:"currentRevision,omitempty"`
	// CollisionCount is part of the hash that names revisions; it rises when a name is taken by other data.
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// LabelSelector is the selector as text, for the scale subresource.
	LabelSelector string `json:"labelSelector,omitempty"`
	// Conditions are Progressing, FailedScale, FailedUpdate, Ready, Reconciling and Stalled.
	// +listType=map
	// +listMapKey=type
	Conditions []CloneSetCondition `json:"conditions,omitempty"`
}

// CloneSetConditionType is a type of condition.
type CloneSetConditionType string

// Types of conditions.
const (
	// CloneSetConditionTypeProgressing is present while progressDeadlineSeconds is set.
	CloneSetConditionTypeProgressing CloneSetConditionType = "Progressing"
	// CloneSetConditionFailedScale is True while creation or deletion fails.
	CloneSetConditionFailedScale CloneSetConditionType = "FailedScale"
	// CloneSetConditionFailedUpdate is True while updates fail.
	CloneSetConditionFailedUpdate CloneSetConditionType = "FailedUpdate"
	// CloneSetConditionReady is True when the set is as its spec says.
	CloneSetConditionReady CloneSetConditionType = "Ready"
	// CloneSetConditionReconciling is True while the controller works towards that.
	CloneSetConditionReconciling CloneSetConditionType = "Reconciling"
	// CloneSetConditionStalled is True when it cannot get there without somebody's help.
	CloneSetConditionStalled CloneSetConditionType = "Stalled"
)

// CloneSetCondition is one aspect of the state of a CloneSet.
type CloneSetCondition struct {
	// Type of the condition.
	Type CloneSetConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// LastUpdateTime is when status or reason changed, or when progress was last seen.
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`
	// LastTransitionTime is when status changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is one word.
	Reason string `json:"reason,omitempty"`
	// Message is for people.
	Message string `json:"message,omitempty"`
}
