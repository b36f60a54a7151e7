package statefulset

// Reasons of events.
const (
	EventSuccessfulCreate        = "SuccessfulCreate"
	EventFailedCreate            = "FailedCreate"
	EventSuccessfulDelete        = "SuccessfulDelete"
	EventFailedDelete            = "FailedDelete"
	EventSuccessfulUpdate        = "SuccessfulUpdate"
	EventFailedUpdate            = "FailedUpdate"
	EventSuccessfulUpdateInPlace = "SuccessfulUpdatePodInPlace"
	EventFailedUpdateInPlace     = "FailedUpdatePodInPlace"
	EventSuccessfulResize        = "SuccessfulResize"
	EventFailedResize            = "FailedResize"
	EventFailedUpdateClaim       = "FailedUpdatePVC"
	EventPreDownloadIgnored      = "ImagePreDownloadIgnored"
	EventBrokenAnnotation        = "BrokenAnnotation"
)
