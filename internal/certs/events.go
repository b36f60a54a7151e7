package certs

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Reasons of events.
const (
	EventAuthorityCreated         = "AuthorityCreated"
	EventAuthorityPromoted        = "AuthorityPromoted"
	EventAuthorityRetired         = "AuthorityRetired"
	EventServingCertificateIssued = "ServingCertificateIssued"
	EventCABundlePublished        = "CABundlePublished"
	EventCABundleRepaired         = "CABundleRepaired"
	EventCABundleContested        = "CABundleContested"
	EventPublishFailed            = "PublishFailed"
	EventSecretInvalid            = "SecretInvalid"
	EventSecretImmutable          = "SecretImmutable"
	EventClockSkew                = "ClockSkew"
	EventExternallyManaged        = "ExternallyManaged"
	EventExternalOverlap          = "ExternalOverlap"
	EventTargetForeign            = "TargetForeign"
	EventProbeFailed              = "ProbeFailed"
	EventRevocationStarted        = "RevocationStarted"
	EventRevocationFinished       = "RevocationFinished"
)

// tellEvery is how often the same is told of the same thing.
const tellEvery = 5 * time.Minute

// telling remembers what was told, so that repeats do not crowd out the rest.
type telling struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// isNews says whether that was not told within the period, and notes that it is now.
func (t *telling) isNews(what string, now time.Time, period time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := t.last[what]; ok && now.Sub(at) < period {
		return false
	}
	fresh := map[string]time.Time{what: now}
	for other, at := range t.last {
		if now.Sub(at) < tellSkew && other != what {
			fresh[other] = at
		}
	}
	t.last = fresh
	return true
}

func (r *Rotator) normal(reason, about, format string, args ...any) {
	r.tell(corev1.EventTypeNormal, reason, about, format, args...)
}

func (r *Rotator) warn(reason, about, format string, args ...any) {
	r.tell(corev1.EventTypeWarning, reason, about, format, args...)
}

func (r *Rotator) tell(kind, reason, about, format string, args ...any) {
	if r.told.isNews(reason+" "+about, r.steady(), tellEvery) {
		r.event(kind, reason, format, args...)
	}
}

// event is about the serving Secret, in our own namespace.
func (r *Rotator) event(kind, reason, format string, args ...any) {
	subject := &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: r.options.Namespace, Name: r.options.TLSSecret}
	r.env.Recorder.Eventf(subject, kind, reason, format, args...)
}
