package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UnitedDeployment spreads one workload over several subsets, such as zones, each with a workload of its own.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=ud,categories={all,kruise}
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:printcolumn:name="DESIRED",type="integer",JSONPath=".spec.replicas",description="Pods wanted"
// +kubebuilder:printcolumn:name="CURRENT",type="integer",JSONPath=".status.replicas",description="Pods that exist"
// +kubebuilder:printcolumn:name="UPDATED",type="integer",JSONPath=".status.updatedReplicas",description="Pods at the updated revision"
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.readyReplicas",description="Ready Pods"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 52",optionalOldSelf=true,message="must be at most 52 characters, so that the labels of Pods fit"
type UnitedDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   UnitedDeploymentSpec   `json:"spec,omitempty"`
	Status UnitedDeploymentStatus `json:"status,omitempty"`
}

// UnitedDeploymentList is a list of UnitedDeployments.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type UnitedDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []UnitedDeployment `json:"items"`
}

// UnitedDeploymentSpec is what is wanted of a UnitedDeployment.
type UnitedDeploymentSpec struct {
	// Replicas is the number of Pods over all subsets. Default 1.
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector is on all Pods of all subsets. It must not be empty, and cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed"
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty"
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is the workload of every subset. Exactly one of its members must be set.
	Template SubsetTemplate `json:"template,omitempty"`
	// Topology lists the subsets.
	Topology Topology `json:"topology,omitempty"`
	// UpdateStrategy says how a change of the template reaches the subsets.
	UpdateStrategy UnitedDeploymentUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of revisions kept. Default 10.
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// SubsetTemplate holds exactly one template.
//
// +kubebuilder:validation:XValidation:rule="[has(self.statefulSetTemplate), has(self.advancedStatefulSetTemplate), has(self.cloneSetTemplate), has(self.deploymentTemplate)].filter(x, x).size() == 1",message="exactly one template must be set"
type SubsetTemplate struct {
	// StatefulSetTemplate is for StatefulSets of apps/v1.
	StatefulSetTemplate *StatefulSetTemplateSpec `json:"statefulSetTemplate,omitempty"`
	// AdvancedStatefulSetTemplate is for StatefulSets of apps.kruise.io.
	AdvancedStatefulSetTemplate *AdvancedStatefulSetTemplateSpec `json:"advancedStatefulSetTemplate,omitempty"`
	// CloneSetTemplate is for CloneSets.
	CloneSetTemplate *CloneSetTemplateSpec `json:"cloneSetTemplate,omitempty"`
	// DeploymentTemplate is for Deployments.
	DeploymentTemplate *DeploymentTemplateSpec `json:"deploymentTemplate,omitempty"`
}

// StatefulSetTemplateSpec is a StatefulSet of apps/v1 to create.
type StatefulSetTemplateSpec struct {
	// Labels and annotations of the workload.
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec of the workload.
	Spec appsv1.StatefulSetSpec `json:"spec"`
}

// AdvancedStatefulSetTemplateSpec is a StatefulSet of apps.kruise.io to create.
type AdvancedStatefulSetTemplateSpec struct {
	// Labels and annotations of the workload.
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec of the workload.
	Spec StatefulSetSpec `json:"spec"`
}

// CloneSetTemplateSpec is a CloneSet to create.
type CloneSetTemplateSpec struct {
	// Labels and annotations of the workload.
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec of the workload.
	Spec CloneSetSpec `json:"spec"`
}

// DeploymentTemplateSpec is a Deployment to create.
type DeploymentTemplateSpec struct {
	// Labels and annotations of the workload.
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec of the workload.
	Spec appsv1.DeploymentSpec `json:"spec"`
}

// Topology lists the subsets.
type Topology struct {
	// Subsets in the order in which they are filled.
	// +listType=map
	// +listMapKey=name
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +kubebuilder:validation:MaxItems=100
	Subsets []Subset `json:"subsets,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// ScheduleStrategy says what to do with Pods that cannot be scheduled.
	ScheduleStrategy UnitedDeploymentScheduleStrategy `json:"scheduleStrategy,omitempty"`
}

// Subset is a part of the topology.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.minReplicas) && !has(self.maxReplicas)",message="must not be set together with minReplicas or maxReplicas",fieldPath=".replicas"
type Subset struct {
	// Name is a DNS label that no other subset has.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// NodeSelectorTerm is added to the Pods' required node affinity. It cannot be changed.
	NodeSelectorTerm corev1.NodeSelectorTerm `json:"nodeSelectorTerm,omitempty"`
	// Tolerations are added to those of the Pods. They cannot be changed.
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Replicas is the subset's share: a number, or a percentage of replicas.
	// +kubebuilder:validation:XIntOrString
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`
	// MinReplicas are given to the subset before any other gets more than its minimum. Default 0.
	// +kubebuilder:validation:XIntOrString
	MinReplicas *intstr.IntOrString `json:"minReplicas,omitempty"`
	// MaxReplicas is the most that the subset gets. Default unlimited.
	// +kubebuilder:validation:XIntOrString
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`
	// Patch is a strategic merge patch of the Pod template.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Patch runtime.RawExtension `json:"patch,omitempty"`
}

// UnitedDeploymentScheduleStrategyType says what to do with Pods that cannot be scheduled.
type UnitedDeploymentScheduleStrategyType string

// What to do with them.
const (
	// FixedUnitedDeploymentScheduleStrategyType leaves them where they are.
	FixedUnitedDeploymentScheduleStrategyType UnitedDeploymentScheduleStrategyType = "Fixed"
	// AdaptiveUnitedDeploymentScheduleStrategyType moves them to other subsets.
	AdaptiveUnitedDeploymentScheduleStrategyType UnitedDeploymentScheduleStrategyType = "Adaptive"
)

// UnitedDeploymentScheduleStrategy says what to do with Pods that cannot be scheduled.
type UnitedDeploymentScheduleStrategy struct {
	// Type is Fixed or Adaptive. Default Fixed.
	// +kubebuilder:validation:Enum=Adaptive;Fixed;""
	Type UnitedDeploymentScheduleStrategyType `json:"type,omitempty"`
	// Adaptive holds the parameters of type Adaptive.
	Adaptive *AdaptiveUnitedDeploymentStrategy `json:"adaptive,omitempty"`
}

// AdaptiveUnitedDeploymentStrategy holds the parameters of type Adaptive.
type AdaptiveUnitedDeploymentStrategy struct {
	// RescheduleCriticalSeconds is the time in seconds for which a Pod may be unschedulable. Default 30.
	// +kubebuilder:validation:Minimum=0
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`
	// UnschedulableDuration is the time in seconds for which a subset is left out. Default 300.
	// +kubebuilder:validation:Minimum=0
	UnschedulableDuration *int32 `json:"unschedulableDuration,omitempty"`
	// ReserveUnschedulablePods keeps the Pods that cannot be scheduled beside their replacements. Default false.
	ReserveUnschedulablePods bool `json:"reserveUnschedulablePods,omitempty"`
}

// UpdateStrategyType is a kind of update strategy.
type UpdateStrategyType string

// ManualUpdateStrategyType updates subsets by their partitions. It is the only strategy.
const ManualUpdateStrategyType UpdateStrategyType = "Manual"

// UnitedDeploymentUpdateStrategy says how a change of the template reaches the subsets.
type UnitedDeploymentUpdateStrategy struct {
	// Type is Manual. Default Manual.
	// +kubebuilder:validation:Enum=Manual;""
	Type UpdateStrategyType `json:"type,omitempty"`
	// ManualUpdate holds the parameters of type Manual.
	ManualUpdate *ManualUpdate `json:"manualUpdate,omitempty"`
}

// ManualUpdate holds the parameters of type Manual.
type ManualUpdate struct {
	// Partitions are the numbers of Pods to keep at the old revision, by subset. Default 0.
	Partitions map[string]int32 `json:"partitions,omitempty"`
}

// UnitedDeploymentStatus is what was last seen of a UnitedDeployment.
type UnitedDeploymentStatus struct {
	// ObservedGeneration is the generation acted upon.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReadyReplicas is the number of ready Pods of all subsets.
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Replicas is the number of Pods of all subsets, without reserved ones.
	// +optional
	Replicas int32 `json:"replicas"`
	// UpdatedReplicas is the number of Pods at the updated revision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// UpdatedReadyReplicas is the number of ready Pods at the updated revision.
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`
	// ReservedPods is the number of Pods that are kept although they cannot be scheduled.
	ReservedPods int32 `json:"reservedPods,omitempty"`
	// CollisionCount is part of the hash that names revisions.
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// CurrentRevision is the revision that was last rolled out completely.
	// +optional
	CurrentRevision string `json:"currentRevision"`
	// UpdatedRevision is the revision of the present template.
	UpdatedRevision string `json:"updatedRevision,omitempty"`
	// SubsetStatuses has one entry per subset.
	// +listType=atomic
	SubsetStatuses []UnitedDeploymentSubsetStatus `json:"subsetStatuses,omitempty"`
	// Conditions are SubsetProvisioned, SubsetUpdated, SubsetFailure, UnitedDeploymentUpdated, AllocationAdjusted, Ready,
	// Reconciling and Stalled.
	// +listType=map
	// +listMapKey=type
	Conditions []UnitedDeploymentCondition `json:"conditions,omitempty"`
	// LabelSelector is the selector as text, for the scale subresource.
	LabelSelector string `json:"labelSelector,omitempty"`
}

// UnitedDeploymentSubsetStatus is what is wanted of a subset.
type UnitedDeploymentSubsetStatus struct {
	// Name of the subset.
	Name string `json:"name,omitempty"`
	// Replicas wanted of it.
	Replicas int32 `json:"replicas,omitempty"`
	// ReadyReplicas it has.
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Partition wanted of it.
	Partition int32 `json:"partition,omitempty"`
	// ReservedPods it has.
	ReservedPods int32 `json:"reservedPods,omitempty"`
	// Conditions are Schedulable.
	// +listType=map
	// +listMapKey=type
	Conditions []UnitedDeploymentCondition `json:"conditions,omitempty"`
}

// UnitedDeploymentConditionType is a type of condition.
type UnitedDeploymentConditionType string

// Types of conditions.
const (
	SubsetProvisioned                    UnitedDeploymentConditionType = "SubsetProvisioned"
	SubsetUpdated                        UnitedDeploymentConditionType = "SubsetUpdated"
	SubsetFailure                        UnitedDeploymentConditionType = "SubsetFailure"
	UnitedDeploymentUpdated              UnitedDeploymentConditionType = "UnitedDeploymentUpdated"
	SubsetSchedulable                    UnitedDeploymentConditionType = "Schedulable"
	AllocationAdjusted                   UnitedDeploymentConditionType = "AllocationAdjusted"
	UnitedDeploymentConditionReady       UnitedDeploymentConditionType = "Ready"
	UnitedDeploymentConditionReconciling UnitedDeploymentConditionType = "Reconciling"
	UnitedDeploymentConditionStalled     UnitedDeploymentConditionType = "Stalled"
)

// UnitedDeploymentCondition is one aspect of the state of a UnitedDeployment or a subset.
type UnitedDeploymentCondition struct {
	// Type of the condition.
	Type UnitedDeploymentConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// ObservedGeneration is the generation that the condition is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastTransitionTime is when status changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is one word.
	Reason string `json:"reason,omitempty"`
	// Message is for people.
	Message string `json:"message,omitempty"`
}
