package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// UnitedDeployment spreads one workload over several subsets, such as zones, each with a workload of its own.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
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
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is the workload of every subset. Exactly one of its members must be set.
	Template SubsetTemplate `json:"template,omitempty"`
	// Topology lists the subsets.
	Topology v1beta1.Topology `json:"topology,omitempty"`
	// UpdateStrategy says how a change of the template reaches the subsets.
	UpdateStrategy v1beta1.UnitedDeploymentUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of revisions kept. Default 10.
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// SubsetTemplate holds exactly one template. The spec of a CloneSet may be in the form of either version.
type SubsetTemplate struct {
	// StatefulSetTemplate is for StatefulSets of apps/v1.
	StatefulSetTemplate *WorkloadTemplate `json:"statefulSetTemplate,omitempty"`
	// AdvancedStatefulSetTemplate is for StatefulSets of apps.kruise.io.
	AdvancedStatefulSetTemplate *WorkloadTemplate `json:"advancedStatefulSetTemplate,omitempty"`
	// CloneSetTemplate is for CloneSets.
	CloneSetTemplate *WorkloadTemplate `json:"cloneSetTemplate,omitempty"`
	// DeploymentTemplate is for Deployments.
	DeploymentTemplate *WorkloadTemplate `json:"deploymentTemplate,omitempty"`
}

// WorkloadTemplate is a workload to create.
type WorkloadTemplate struct {
	// Labels and annotations of the workload.
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec of the workload.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec"`
}

// UnitedDeploymentStatus is what was last seen of a UnitedDeployment.
type UnitedDeploymentStatus struct {
	v1beta1.UnitedDeploymentStatus `json:",inline"`
	// SubsetReplicas are the Pods wanted, by subset.
	SubsetReplicas map[string]int32 `json:"subsetReplicas,omitempty"`
	// UpdateStatus is the state of the rollout.
	UpdateStatus *UpdateStatus `json:"updateStatus,omitempty"`
}

// UpdateStatus is the state of a rollout.
type UpdateStatus struct {
	// UpdatedRevision is the revision of the present template.
	UpdatedRevision string `json:"updatedRevision,omitempty"`
	// CurrentPartitions are the Pods to keep at the old revision, by subset.
	CurrentPartitions map[string]int32 `json:"currentPartitions,omitempty"`
}
