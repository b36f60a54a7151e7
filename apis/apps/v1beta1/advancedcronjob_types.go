package v1beta1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// AdvancedCronJob creates Jobs or BroadcastJobs by a schedule.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=acj,categories={all,kruise}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Schedule",type="string",JSONPath=".spec.schedule"
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".status.type"
// +kubebuilder:printcolumn:name="LastScheduleTime",type="date",JSONPath=".status.lastScheduleTime"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 52",optionalOldSelf=true,message="must be at most 52 characters, so that the names of jobs fit"
type AdvancedCronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AdvancedCronJobSpec   `json:"spec,omitempty"`
	Status AdvancedCronJobStatus `json:"status,omitempty"`
}

// AdvancedCronJobList is a list of AdvancedCronJobs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type AdvancedCronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AdvancedCronJob `json:"items"`
}

// ConcurrencyPolicy says what to do when a run is due and an earlier one is not done.
type ConcurrencyPolicy string

// What to do then.
const (
	// AllowConcurrent starts it.
	AllowConcurrent ConcurrencyPolicy = "Allow"
	// ForbidConcurrent leaves it out.
	ForbidConcurrent ConcurrencyPolicy = "Forbid"
	// ReplaceConcurrent ends the earlier one and starts it.
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// AdvancedCronJobSpec is what is wanted of an AdvancedCronJob.
type AdvancedCronJobSpec struct {
	// Schedule is a cron expression.
	// +kubebuilder:validation:MinLength=0
	Schedule string `json:"schedule"`
	// TimeZone is the IANA name of the zone that the schedule is read in. Default: the zone of the controller's process.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="size(self) > 0 && self.lowerAscii() != 'local'",message="must be the name of a time zone, and not Local"
	TimeZone *string `json:"timeZone,omitempty"`
	// StartingDeadlineSeconds is how many seconds late a run may start. Default: no limit.
	// +kubebuilder:validation:Minimum=0
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// ConcurrencyPolicy is Allow, Forbid or Replace. Default Allow; Replace for imageListPullJobTemplate.
	// +kubebuilder:validation:Enum=Allow;Forbid;Replace
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// Paused starts no runs. Default false.
	Paused *bool `json:"paused,omitempty"`
	// SuccessfulJobsHistoryLimit is the number of successful runs kept. Default 3.
	// +kubebuilder:validation:Minimum=0
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`
	// FailedJobsHistoryLimit is the number of failed runs kept. Default 1.
	// +kubebuilder:validation:Minimum=0
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
	// Template is what to create. Exactly one of its members must be set, and which one cannot be changed.
	Template CronJobTemplate `json:"template"`
}

// CronJobTemplate holds exactly one template.
//
// +kubebuilder:validation:XValidation:rule="[has(self.jobTemplate), has(self.broadcastJobTemplate), has(self.imageListPullJobTemplate)].filter(x, x).size() == 1",message="exactly one template must be set"
// +kubebuilder:validation:XValidation:rule="has(self.jobTemplate) == has(oldSelf.jobTemplate) && has(self.broadcastJobTemplate) == has(oldSelf.broadcastJobTemplate) && has(self.imageListPullJobTemplate) == has(oldSelf.imageListPullJobTemplate)",message="the kind of template cannot be changed"
type CronJobTemplate struct {
	// JobTemplate is for Jobs.
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate,omitempty"`
	// BroadcastJobTemplate is for BroadcastJobs.
	BroadcastJobTemplate *BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`
	// ImageListPullJobTemplate is for ImageListPullJobs, where another component provides that kind.
	ImageListPullJobTemplate *ImageListPullJobTemplateSpec `json:"imageListPullJobTemplate,omitempty"`
}

// BroadcastJobTemplateSpec is a BroadcastJob to create.
type BroadcastJobTemplateSpec struct {
	// Labels and annotations of the job.
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec of the job.
	Spec BroadcastJobSpec `json:"spec,omitempty"`
}

// ImageListPullJobTemplateSpec is an ImageListPullJob to create.
type ImageListPullJobTemplateSpec struct {
	// Labels and annotations of the job.
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec of the job.
	Spec ImageListPullJobSpec `json:"spec,omitempty"`
}

// ImageListPullJobSpec says which images are pulled on which nodes.
type ImageListPullJobSpec struct {
	// Images to pull: 1 to 255, each once.
	// +listType=atomic
	Images []string `json:"images"`
	// PullSecrets are names of Secrets of type docker-registry.
	// +listType=atomic
	PullSecrets []string `json:"pullSecrets,omitempty"`
	// Selector selects nodes. Default all.
	Selector *ImagePullJobNodeSelector `json:"selector,omitempty"`
	// PodSelector selects the nodes of Pods. Not together with selector.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// Parallelism is the number of nodes that pull at a time. Default 1.
	// +kubebuilder:validation:XIntOrString
	Parallelism *intstr.IntOrString `json:"parallelism,omitempty"`
	// PullPolicy bounds one pull.
	PullPolicy *PullPolicy `json:"pullPolicy,omitempty"`
	// CompletionPolicy says when the job is done.
	CompletionPolicy CompletionPolicy `json:"completionPolicy"`
	// SandboxConfig is handed to the container runtime.
	SandboxConfig *SandboxConfig `json:"sandboxConfig,omitempty"`
	// ImagePullPolicy is Always or IfNotPresent. Default IfNotPresent.
	ImagePullPolicy string `json:"imagePullPolicy,omitempty"`
}

// ImagePullJobNodeSelector selects nodes by name or by label.
type ImagePullJobNodeSelector struct {
	// Names of nodes. Not together with labels.
	// +listType=atomic
	Names                []string `json:"names,omitempty"`
	metav1.LabelSelector `json:",inline"`
}

// PullPolicy bounds one pull.
type PullPolicy struct {
	// TimeoutSeconds of one pull. Default 600.
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// BackoffLimit is the number of retries. Default 3.
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
}

// SandboxConfig is handed to the container runtime.
type SandboxConfig struct {
	// Labels of the sandbox.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the sandbox.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// TemplateKind names the kind of what an AdvancedCronJob creates.
type TemplateKind string

// Kinds of what an AdvancedCronJob creates.
const (
	JobTemplate              TemplateKind = "Job"
	BroadcastJobTemplate     TemplateKind = "BroadcastJob"
	ImageListPullJobTemplate TemplateKind = "ImageListPullJob"
)

// AdvancedCronJobStatus is what was last seen of an AdvancedCronJob.
type AdvancedCronJobStatus struct {
	// ObservedGeneration is the generation acted upon.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Type is the kind of what is created.
	Type TemplateKind `json:"type,omitempty"`
	// Active are the runs that are not done.
	// +listType=atomic
	Active []corev1.ObjectReference `json:"active,omitempty"`
	// LastScheduleTime is when the latest run was due.
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// LastSuccessfulTime is when the latest successful run was done.
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`
	// ObservedSchedule is the schedule acted upon.
	ObservedSchedule *ObservedSchedule `json:"observedSchedule,omitempty"`
	// Conditions are Ready and Stalled.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ObservedSchedule is a schedule and since when it holds.
type ObservedSchedule struct {
	// Schedule is the cron expression.
	Schedule string `json:"schedule,omitempty"`
	// TimeZone it is read in.
	TimeZone string `json:"timeZone,omitempty"`
	// Since when it holds.
	Since *metav1.Time `json:"since,omitempty"`
}
