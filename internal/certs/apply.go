package certs

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// patchesAtOnce bounds the patches that are under way at a time.
const patchesAtOnce = 4

// Reasons of patches.
const (
	becauseNew      = "new"
	becauseRepair   = "repair"
	becauseRotation = "rotation"
)

// errStale is the end of a pass that was held up for so long that what it knows may not be true any more, and the lease may
// be another's.
var errStale = errors.New("the pass took too long")

// publish patches the targets that are due, each for itself: one that fails holds up no other. Errors are told and tried
// again, and are no failure of the pass.
func (r *Rotator) publish(ctx context.Context, d Decision, readings []observedTarget, readAt time.Time) {
	bundle := EncodeBundle(d.Bundle)
	// Every error has been dealt with where it occurred.
	_ = kube.ForEach(len(d.Patch), r.patchesAtOnce, func(i int) error {
		if r.isFresh(readAt) {
			r.publishTo(ctx, &readings[d.Patch[i]], d.Bundle, bundle)
		}
		return nil
	})
}

func (r *Rotator) publishTo(ctx context.Context, t *observedTarget, list []Certificate, bundle []byte) {
	m, why := t.memory, t.memory.why(list)
	count := func(result string) { r.metrics.patches.WithLabelValues(t.Kind, t.Name, result, why).Inc() }
	log := logr.FromContextOrDiscard(ctx).WithValues("kind", t.Kind, "name", t.Name)
	body, err := t.reading.patch(bundle)
	var answer metav1.Object
	if err == nil {
		answer, err = r.api.patchTarget(ctx, t.Kind, t.Name, body)
	}
	now := r.steady()
	switch {
	case err == nil:
		count("ok")
		log.V(2).Info("patched the caBundle", "reason", why, "certificates", len(list))
		lasted, contested := m.acknowledge(t.Kind, why, answer, list, now)
		r.tellOfPatch(t, why, lasted, contested)
	case isOvertaken(err) && m.overtaken < patientFor:
		// It has changed meanwhile: its event comes, and the next pass decides anew.
		count("conflict")
		log.V(4).Info("the object has changed meanwhile", "error", err.Error())
		m.overtake(now)
	default:
		count("error")
		m.fail(now, r.spread())
		log.Error(err, "publishing failed, trying again")
		r.warn(EventPublishFailed, t.Kind+" "+t.Name, "%s %s: %v", t.Kind, t.Name, err)
	}
}

// patientFor is how often in a row a patch may be overtaken before that is a failure.
const patientFor = 10

func isOvertaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err)
}

func (r *Rotator) tellOfPatch(t *observedTarget, why string, lasted time.Duration, contested bool) {
	about := t.Kind + " " + t.Name
	if why != becauseRepair {
		r.normal(EventCABundlePublished, about, "%s", about)
		return
	}
	r.metrics.repairs.WithLabelValues(t.Kind).Observe(lasted.Seconds())
	r.warn(EventCABundleRepaired, about, "%s", about)
	if contested {
		r.warn(EventCABundleContested, about, "%s is reset again and again, last by %q: its manifest must not contain caBundle, not even empty",
			about, lastManager(t.object))
	}
}

// lastManager is who wrote the object last, other than we; best one who wrote the caBundle.
func lastManager(o metav1.Object) string {
	name, at, owns := "unknown", time.Time{}, false
	for _, m := range o.GetManagedFields() {
		if m.Manager == fieldManager || m.Time == nil {
			continue
		}
		mentions := m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), "f:caBundle")
		if mentions && !owns || mentions == owns && !m.Time.Time.Before(at) {
			name, at, owns = m.Manager, m.Time.Time, mentions
		}
	}
	return name
}
