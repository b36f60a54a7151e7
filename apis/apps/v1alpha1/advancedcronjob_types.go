package v1alpha1

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// AdvancedCronJob creates Jobs or BroadcastJobs by a schedule.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
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

// AdvancedCronJobSpec is what is wanted of an AdvancedCronJob.
type AdvancedCronJobSpec struct {
	// Schedule is a cron expression.
	// +kubebuilder:validation:MinLength=0
	Schedule string `json:"schedule"`
	// TimeZone is the IANA name of the zone that the schedule is read in. Default: the zone of the controller's process.
	// +kubebuilder:validation:MaxLength=255
	TimeZone *string `json:"timeZone,omitempty"`
	// StartingDeadlineSeconds is how many seconds late a run may start. Default: no limit.
	// +kubebuilder:validation:Minimum=0
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// ConcurrencyPolicy is Allow, Forbid or Replace. Default Allow.
	// +kubebuilder:validation:Enum=Allow;Forbid;Replace
	ConcurrencyPolicy v1beta1.ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// Paused starts no runs. Default false.
	Paused *bool `json:"paused,omitempty"`
	// SuccessfulJobsHistoryLimit is the number of successful runs kept. Default 3.
	// +kubebuilder:validation:Minimum=0
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`
	// FailedJobsHistoryLimit is the number of failed runs kept. Default 1.
	// +kubebuilder:validation:Minimum=0
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
	// Template is what to create. An object whose template only v1beta1 knows has none here; an annotation carries it.
	Template CronJobTemplate `json:"template"`
}

// CronJobTemplate holds at most one template.
type CronJobTemplate struct {
	// JobTemplate is for Jobs.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	JobTemplate *batchv1.JobTemplateSpec `json:"jobTemplate,omitempty"`
	// BroadcastJobTemplate is for BroadcastJobs.
	BroadcastJobTemplate *BroadcastJobTemplateSpec `json:"broadcastJobTemplate,omitempty"`
}

// BroadcastJobTemplateSpec is a BroadcastJob to create.
type BroadcastJobTemplateSpec struct {
	// Labels and annotations of the job.
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec of the job.
	Spec BroadcastJobSpec `json:"spec,omitempty"`
}

// AdvancedCronJobStatus is the same in all versions.
type AdvancedCronJobStatus struct {
	v1beta1.AdvancedCronJobStatus `json:",inline"`
}
