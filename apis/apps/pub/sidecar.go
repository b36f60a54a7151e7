package pub

// Labels and annotations of SidecarSets and of their ControllerRevisions.
const (
	// SidecarSetHashKey is the annotation with the hash of the sidecars. On Pods it holds one entry per SidecarSet.
	SidecarSetHashKey = "kruise.io/sidecarset-hash"
	// SidecarSetHashWithoutImageKey is the same without images.
	SidecarSetHashWithoutImageKey = "kruise.io/sidecarset-hash-without-image"
	// SidecarSetCanaryKey is the annotation that makes a SidecarSet the canary of another; its value is "true".
	SidecarSetCanaryKey = "apps.kruise.io/sidecarset-canary"
	// SidecarSetBaseKey is the annotation of a canary that names the SidecarSet it stands in for.
	SidecarSetBaseKey = "apps.kruise.io/sidecarset-base"
	// SidecarSetNameKey is the label of a ControllerRevision that names its SidecarSet.
	SidecarSetNameKey = "kruise.io/sidecarset-name"
	// SidecarSetCustomVersionKey is the label of a ControllerRevision with the user's name for it.
	SidecarSetCustomVersionKey = "apps.kruise.io/sidecarset-custom-version"
)

// Annotations of Pods.
const (
	// SidecarSetInjectedListKey names the SidecarSets that injected something, separated by commas.
	SidecarSetInjectedListKey = "kruise.io/sidecarset-injected-list"
	// SidecarSetEvaluatedKey is "true" on a Pod that SidecarSets select and that rightly got no container.
	SidecarSetEvaluatedKey = "apps.kruise.io/sidecarset-evaluated"
)
