package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// SidecarSet injects containers into the Pods that it selects, and upgrades them apart from the application.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories={all,kruise}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="MATCHED",type="integer",JSONPath=".status.matchedPods",description="Pods selected"
// +kubebuilder:printcolumn:name="UPDATED",type="integer",JSONPath=".status.updatedPods",description="Pods with the latest sidecars"
// +kubebuilder:printcolumn:name="READY",type="integer",JSONPath=".status.readyPods",description="Ready Pods"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type SidecarSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SidecarSetSpec   `json:"spec,omitempty"`
	Status SidecarSetStatus `json:"status,omitempty"`
}

// SidecarSetList is a list of SidecarSets.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type SidecarSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SidecarSet `json:"items"`
}

// SidecarSetSpec is what is wanted of a SidecarSet.
type SidecarSetSpec struct {
	// Selector says, by label, which Pods are injected and counted. It must not be empty.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Namespace is the only one where Pods are selected. Default everywhere.
	Namespace string `json:"namespace,omitempty"`
	// NamespaceSelector says, by label of the Namespace, where Pods are selected. Default everywhere.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// InitContainers are injected only; running Pods keep theirs.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	InitContainers []v1beta1.SidecarContainer `json:"initContainers,omitempty"`
	// Containers are the sidecars.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Containers []v1beta1.SidecarContainer `json:"containers,omitempty"`
	// Volumes that sidecars may mount.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Volumes []corev1.Volume `json:"volumes,omitempty"`
	// UpdateStrategy says how running Pods are brought to the latest images.
	UpdateStrategy v1beta1.SidecarSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// InjectionStrategy says whether and in which version new Pods are injected.
	InjectionStrategy v1beta1.SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`
	// ImagePullSecrets are appended to those of the Pod.
	// +listType=atomic
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// RevisionHistoryLimit is the number of revisions kept, at least 1. Default 10.
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// PatchPodMetadata are annotations that Pods get at injection and upgrade.
	// +listType=atomic
	PatchPodMetadata []v1beta1.SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`
}

// SidecarSetStatus is the same in all versions.
type SidecarSetStatus struct {
	v1beta1.SidecarSetStatus `json:",inline"`
}
