package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// BroadcastJob runs one Pod to completion on every node that fits.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
//
// +kubebuilder:validation:XValidation:rule="has(self.template.spec) && has(self.template.spec.restartPolicy) && self.template.spec.restartPolicy in ['OnFailure', 'Never']",message="must be OnFailure or Never",fieldPath=".template.spec.restartPolicy"
type BroadcastJobSpec struct {
	// Parallelism is the number of Pods that run at a time: a number, or a percentage of the nodes, rounded up. Default
	// unlimited.
	// +kubebuilder:validation:XIntOrString
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`
	// Template is the Pod to run. Its restartPolicy must be OnFailure or Never. A change concerns Pods created later.
	Template corev1.PodTemplateSpec `json:"template"`
	// CompletionPolicy says when the job is done.
	CompletionPolicy CompletionPolicy `json:"completionPolicy,omitempty"`
	// Paused starts no new Pods; running ones go on. Default false.
	Paused bool `json:"paused,omitempty"`
	// FailurePolicy says what a failed Pod does to the job.
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
}

// CompletionPolicyType says when a job is done.
type CompletionPolicyType string

// When a job is done.
const (
	// Always: when all nodes are done.
	Always CompletionPolicyType = "Always"
	// Never: it stays and serves nodes that appear later.
	Never CompletionPolicyType = "Never"
)

// CompletionPolicy says when a job is done.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.type) && self.type == 'Never') || !has(self.activeDeadlineSeconds)",message="must not be set with type Never",fieldPath=".activeDeadlineSeconds"
// +kubebuilder:validation:XValidation:rule="!(has(self.type) && self.type == 'Never') || !has(self.ttlSecondsAfterFinished)",message="must not be set with type Never",fieldPath=".ttlSecondsAfterFinished"
type CompletionPolicy struct {
	// Type is Always or Never. Default Always.
	// +kubebuilder:validation:Enum="";Always;Never
	Type CompletionPolicyType `json:"type,omitempty"`
	// ActiveDeadlineSeconds is the time in seconds after which an unfinished job fails. Not with Never. Default none.
	// +kubebuilder:validation:Minimum=0
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// TTLSecondsAfterFinished is the time in seconds after which a finished job is deleted. Not with Never. Default: kept.
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// FailurePolicyType says what a failed Pod does to the job.
type FailurePolicyType string

// What a failed Pod does to the job.
const (
	// FailurePolicyTypeContinue: nothing.
	FailurePolicyTypeContinue FailurePolicyType = "Continue"
	// FailurePolicyTypeFailFast: the job fails.
	FailurePolicyTypeFailFast FailurePolicyType = "FailFast"
	// FailurePolicyTypePause: the job pauses.
	FailurePolicyTypePause FailurePolicyType = "Pause"
)

// FailurePolicy says what a failed Pod does to the job.
type FailurePolicy struct {
	// Type is Continue, FailFast or Pause. Default FailFast.
	// +kubebuilder:validation:Enum="";Continue;FailFast;Pause
	Type FailurePolicyType `json:"type,omitempty"`
	// RestartLimit is the number of restarts after which a Pod counts as failed; only for restartPolicy OnFailure. Default 0.
	// +kubebuilder:validation:Minimum=0
	RestartLimit int32 `json:"restartLimit,omitempty"`
}

// BroadcastJobPhase is a summary of the job's state.
type BroadcastJobPhase string

// Phases.
const (
	PhaseRunning   BroadcastJobPhase = "running"
	PhasePaused    BroadcastJobPhase = "paused"
	PhaseCompleted BroadcastJobPhase = "completed"
	PhaseFailed    BroadcastJobPhase = "failed"
)

// BroadcastJobStatus is what was last seen of a BroadcastJob.
type BroadcastJobStatus struct {
	// ObservedGeneration is the generation acted upon.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Complete, Failed, Ready, Reconciling and Stalled.
	// +listType=map
	// +listMapKey=type
	Conditions []JobCondition `json:"conditions,omitempty"`
	// StartTime is when the job was first seen.
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the job completed or failed.
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Active is the number of Pods that run or are about to.
	// +optional
	Active int32 `json:"active"`
	// Succeeded is the number of nodes done with success.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// Failed is the number of nodes done with failure.
	// +optional
	Failed int32 `json:"failed"`
	// Desired is the number of nodes to run on.
	// +optional
	Desired int32 `json:"desired"`
	// Phase is running, paused, completed or failed.
	// +optional
	Phase BroadcastJobPhase `json:"phase"`
	// FinishedNodes are nodes whose outcome is known although their Pod is gone, by name.
	// +listType=map
	// +listMapKey=name
	FinishedNodes []FinishedNode `json:"finishedNodes,omitempty"`
	// AcknowledgedFailures is the number of failures that do not pause the job any more.
	AcknowledgedFailures int32 `json:"acknowledgedFailures,omitempty"`
}

// FinishedNode is the outcome of a node.
type FinishedNode struct {
	// Name of the node.
	Name string `json:"name"`
	// Result is Succeeded or Failed.
	// +kubebuilder:validation:Enum=Succeeded;Failed
	Result string `json:"result"`
	// FinishTime is when the Pod ended.
	FinishTime metav1.Time `json:"finishTime"`
}

// JobConditionType is a type of condition.
type JobConditionType string

// Types of conditions.
const (
	JobComplete    JobConditionType = "Complete"
	JobFailed      JobConditionType = "Failed"
	JobReady       JobConditionType = "Ready"
	JobReconciling JobConditionType = "Reconciling"
	JobStalled     JobConditionType = "Stalled"
)

// JobCondition is one aspect of the state of a job.
type JobCondition struct {
	// Type of the condition.
	Type JobConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// LastProbeTime is when the condition was last looked at.
	LastProbeTime metav1.Time `json:"lastProbeTime,omitempty"`
	// LastTransitionTime is when status changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is one word.
	Reason string `json:"reason,omitempty"`
	// Message is for people.
	Message string `json:"message,omitempty"`
}
