package v1beta1

import (
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
)

// SetDefaults_BroadcastJob fills in what a BroadcastJob leaves out, the template included.
func SetDefaults_BroadcastJob(obj *BroadcastJob) {
	SetDefaults_BroadcastJobSpec(&obj.Spec)
	defaults.SetPodTemplate(&obj.Spec.Template)
}

// SetDefaults_BroadcastJobSpec fills in everything but the template.
func SetDefaults_BroadcastJobSpec(spec *BroadcastJobSpec) {
	if spec.CompletionPolicy.Type == "" {
		spec.CompletionPolicy.Type = Always
	}
	if spec.Parallelism == nil {
		spec.Parallelism = ptr.To(intstr.FromInt32(math.MaxInt32))
	}
	if spec.FailurePolicy.Type == "" {
		spec.FailurePolicy.Type = FailurePolicyTypeFailFast
	}
}

const (
	defaultSuccessfulJobsHistoryLimit = 3
	defaultFailedJobsHistoryLimit     = 1
	defaultPullTimeoutSeconds         = 600
	defaultPullBackoffLimit           = 3
)

// SetDefaults_AdvancedCronJob fills in what an AdvancedCronJob leaves out, Pod templates included. What else is missing
// from a job is filled in when the job is created.
func SetDefaults_AdvancedCronJob(obj *AdvancedCronJob) {
	SetDefaults_AdvancedCronJobSpec(&obj.Spec)
	if t := obj.Spec.Template.JobTemplate; t != nil {
		defaults.SetPodTemplate(&t.Spec.Template)
	}
	if t := obj.Spec.Template.BroadcastJobTemplate; t != nil {
		defaults.SetPodTemplate(&t.Spec.Template)
	}
}

// SetDefaults_AdvancedCronJobSpec fills in everything but Pod templates.
func SetDefaults_AdvancedCronJobSpec(spec *AdvancedCronJobSpec) {
	if spec.ConcurrencyPolicy == "" {
		spec.ConcurrencyPolicy = AllowConcurrent
		if spec.Template.ImageListPullJobTemplate != nil {
			spec.ConcurrencyPolicy = ReplaceConcurrent
		}
	}
	if spec.Paused == nil {
		spec.Paused = ptr.To(false)
	}
	if spec.SuccessfulJobsHistoryLimit == nil {
		spec.SuccessfulJobsHistoryLimit = ptr.To(int32(defaultSuccessfulJobsHistoryLimit))
	}
	if spec.FailedJobsHistoryLimit == nil {
		spec.FailedJobsHistoryLimit = ptr.To(int32(defaultFailedJobsHistoryLimit))
	}
	if t := spec.Template.ImageListPullJobTemplate; t != nil {
		setImageListPullJob(&t.Spec)
	}
}

func setImageListPullJob(spec *ImageListPullJobSpec) {
	if spec.CompletionPolicy.Type == "" {
		spec.CompletionPolicy.Type = Always
	}
	if spec.PullPolicy == nil {
		spec.PullPolicy = &PullPolicy{}
	}
	if spec.PullPolicy.TimeoutSeconds == nil {
		spec.PullPolicy.TimeoutSeconds = ptr.To(int32(defaultPullTimeoutSeconds))
	}
	if spec.PullPolicy.BackoffLimit == nil {
		spec.PullPolicy.BackoffLimit = ptr.To(int32(defaultPullBackoffLimit))
	}
	if spec.ImagePullPolicy == "" {
		spec.ImagePullPolicy = "IfNotPresent"
	}
}
