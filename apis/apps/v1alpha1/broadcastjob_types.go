package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// BroadcastJob runs one Pod to completion on every node that fits.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=bcj,categories={all,kruise}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Desired",type="integer",JSONPath=".status.desired",description="Nodes to run on"
// +kubebuilder:printcolumn:name="Active",type="integer",JSONPath=".status.active",description="Pods that run"
// +kubebuilder:printcolumn:name="Succeeded",type="integer",JSONPath=".status.succeeded",description="Nodes done with success"
// +kubebuilder:printcolumn:name="Failed",type="integer",JSONPath=".status.failed",description="Nodes done with failure"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="must be at most 63 characters: it is the value of a label"
type BroadcastJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BroadcastJobSpec   `json:"spec,omitempty"`
	Status BroadcastJobStatus `json:"status,omitempty"`
}

// BroadcastJobList is a list of BroadcastJobs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type BroadcastJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BroadcastJob `json:"items"`
}

// BroadcastJobSpec is what is wanted of a BroadcastJob.
type BroadcastJobSpec struct {
	// Parallelism is the number of Pods that run at a time: a number, or a percentage of the nodes, rounded up. Default
	// unlimited.
	// +kubebuilder:validation:XIntOrString
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`
	// Template is the Pod to run. Its restartPolicy must be OnFailure or Never.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Template corev1.PodTemplateSpec `json:"template"`
	// CompletionPolicy says when the job is done.
	CompletionPolicy v1beta1.CompletionPolicy `json:"completionPolicy,omitempty"`
	// Paused starts no new Pods; running ones go on. Default false.
	Paused bool `json:"paused,omitempty"`
	// FailurePolicy says what a failed Pod does to the job.
	FailurePolicy v1beta1.FailurePolicy `json:"failurePolicy,omitempty"`
}

// BroadcastJobStatus is the same in all versions.
type BroadcastJobStatus struct {
	v1beta1.BroadcastJobStatus `json:",inline"`
}
