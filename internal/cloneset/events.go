package cloneset

// Reasons of events.
const (
	EventSuccessfulCreate         = "SuccessfulCreate"
	EventFailedCreate             = "FailedCreate"
	EventSuccessfulDelete         = "SuccessfulDelete"
	EventFailedDelete             = "FailedDelete"
	EventFailedUpdate             = "FailedUpdate"
	EventScaleUpLimited           = "ScaleUpLimited"
	EventSuccessfulUpdateInPlace  = "SuccessfulUpdatePodInPlace"
	EventFailedUpdateInPlace      = "FailedUpdatePodInPlace"
	EventSuccessfulUpdateReCreate = "SuccessfulUpdatePodReCreate"
	EventFailedUpdateReCreate     = "FailedUpdatePodReCreate"
	EventPodsToDeleteNotFound     = "PodsToDeleteNotFound"
	EventPreDownloadIgnored       = "ImagePreDownloadIgnored"
	EventBrokenAnnotation         = "BrokenAnnotation"
)
