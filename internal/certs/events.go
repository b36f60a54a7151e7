package certs

// Reasons of events.
const (
	EventAuthorityCreated         = "AuthorityCreated"
	EventAuthorityPromoted        = "AuthorityPromoted"
	EventServingCertificateIssued = "ServingCertificateIssued"
	EventCABundlePublished        = "CABundlePublished"
	EventCABundleRepaired         = "CABundleRepaired"
	EventCABundleContested        = "CABundleContested"
	EventPublishFailed            = "PublishFailed"
	EventSecretImmutable          = "SecretImmutable"
	EventClockSkew                = "ClockSkew"
	EventExternallyManaged        = "ExternallyManaged"
	EventTargetForeign            = "TargetForeign"
	EventRevocationStarted        = "RevocationStarted"
	EventRevocationFinished       = "RevocationFinished"
)
