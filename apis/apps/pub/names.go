package pub

import corev1 "k8s.io/api/core/v1"

// GroupName is the API group of every kind.
const GroupName = "apps.kruise.io"

// Labels and annotations of Pods, claims and revisions.
const (
	// CloneSetInstanceIDKey is the label that ties a Pod of a CloneSet to its claims; its value ends the Pod's name.
	CloneSetInstanceIDKey = "apps.kruise.io/cloneset-instance-id"
	// SpecifiedDeleteKey is the label by which a user asks for a Pod to be deleted (and replaced, unless the
	// workload shrinks). Any value counts.
	SpecifiedDeleteKey = "apps.kruise.io/specified-delete"
	// ControllerRevisionHashKey is the Pod label that names the revision a Pod is at.
	ControllerRevisionHashKey = "controller-revision-hash"
	// PodTemplateHashKey is the Pod label that holds the short hash of the revision a Pod is at.
	PodTemplateHashKey = "pod-template-hash"
	// ControllerHashKey is the ControllerRevision label that holds the hash of its data.
	ControllerHashKey = "controller.kubernetes.io/hash"
	// CloneSetVolumeClaimTemplateHashKey is the ControllerRevision annotation that holds the hash of the claim
	// templates that were in force when the revision last became the update revision; empty without any.
	CloneSetVolumeClaimTemplateHashKey = "kruise.io/cloneset-volumeclaimtemplate-hash"
	// CloneSetVolumeClaimTemplatesKey is the annotation of a ControllerRevision with the volumeClaimTemplates that the
	// CloneSet had then, as JSON: Pods that are made from it later may need some that are gone by then. Other
	// implementations neither write nor read it.
	CloneSetVolumeClaimTemplatesKey = "apps.kruise.io/cloneset-volume-claim-templates"
	// CloneSetRecreateRevisionKey is the annotation of a Pod that drains before it is recreated: the revision that
	// it has to make room for. It tells our own specified-delete label from a user's.
	CloneSetRecreateRevisionKey = "apps.kruise.io/cloneset-recreate-revision"
	// CloneSetScalingExcludePreparingDeleteKey is the label that stands for
	// spec.scaleStrategy.excludePreparingDelete in v1alpha1.
	CloneSetScalingExcludePreparingDeleteKey = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"
	// OwnedByStatefulSetKey is an annotation of claims that were resized for a StatefulSet: its name.
	OwnedByStatefulSetKey = "apps.kruise.io/owned-by-asts"
	// DeleteProtectionKey is the label that protects an object against deletion: Always or Cascading.
	DeleteProtectionKey = "policy.kruise.io/delete-protection"
)

// Annotations of a CloneSet that stand for pre-download fields in v1alpha1.
const (
	ImagePreDownloadParallelismKey         = "apps.kruise.io/image-predownload-parallelism"
	ImagePreDownloadTimeoutSecondsKey      = "apps.kruise.io/image-predownload-timeout-seconds"
	ImagePreDownloadMinUpdatedReadyPodsKey = "apps.kruise.io/image-predownload-min-updated-ready-pods"
)

// Readiness gates.
const (
	// InPlaceUpdateReady is the gate that is False while an in-place update of the Pod runs.
	InPlaceUpdateReady corev1.PodConditionType = "InPlaceUpdateReady"
	// KruisePodReady is the gate that is False while anybody holds a not-ready key on the Pod. The condition's
	// message is the JSON list of keys.
	KruisePodReady corev1.PodConditionType = "KruisePodReady"
)

// ReasonStartInPlaceUpdate is the reason of a False InPlaceUpdateReady condition.
const ReasonStartInPlaceUpdate = "StartInPlaceUpdate"
