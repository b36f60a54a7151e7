package certs

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

const (
	firstPatchRetry   = time.Second
	longestPatchRetry = time.Minute
)

// publish patches the targets that are due, each for itself: one that fails holds up no other. Errors are told and tried
// again, and are no failure of the pass.
func (r *Rotator) publish(ctx context.Context, d Decision, readings []observedTarget, now time.Time) {
	bundle := EncodeBundle(d.Bundle)
	// Every error has been dealt with where it occurred.
	_ = kube.ForEach(len(d.Patch), patchesAtOnce, func(i int) error {
		r.publishTo(ctx, &readings[d.Patch[i]], d.Bundle, bundle, now)
		return nil
	})
}

func (r *Rotator) publishTo(ctx context.Context, t *observedTarget, list []Certificate, bundle []byte, now time.Time) {
	m, why := t.memory, t.why(list)
	body, err := t.reading.patch(bundle)
	if err == nil {
		var patched metav1.Object
		if patched, err = r.patch(ctx, t.Kind, t.Name, body); err == nil {
			m.patched, m.published, m.failures, m.failed, m.notBefore = patched, list, 0, false, time.Time{}
			r.metrics.patches.WithLabelValues(t.Kind, t.Name, "ok", why).Inc()
			r.tell(t, why, now)
			return
		}
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		// It has changed meanwhile: its event comes, and the next pass decides anew.
		r.metrics.patches.WithLabelValues(t.Kind, t.Name, "conflict", why).Inc()
		m.notBefore = now.Add(firstPatchRetry)
		return
	}
	r.metrics.patches.WithLabelValues(t.Kind, t.Name, "error", why).Inc()
	wait := firstPatchRetry << min(m.failures, 6)
	m.failures++
	m.failed, m.notBefore = true, now.Add(min(wait, longestPatchRetry))
	logr.FromContextOrDiscard(ctx).Error(err, "publishing failed, trying again", "kind", t.Kind, "name", t.Name)
	r.warn(EventPublishFailed, "%s %s: %v", t.Kind, t.Name, err)
}

// why says what a patch is for.
func (t *observedTarget) why(list []Certificate) string {
	switch {
	case t.memory.published == nil:
		return becauseNew
	case SameBundle(t.memory.published, list):
		return becauseRepair
	default:
		return becauseRotation
	}
}

func (r *Rotator) tell(t *observedTarget, why string, now time.Time) {
	if why != becauseRepair {
		r.normal(EventCABundlePublished, "%s %s", t.Kind, t.Name)
		return
	}
	r.warn(EventCABundleRepaired, "%s %s", t.Kind, t.Name)
	notBefore, contested := t.memory.contest.repaired(t.Kind, now)
	t.memory.notBefore = notBefore
	if contested {
		r.warn(EventCABundleContested, "%s %s is reset again and again, last by %q: its manifest must not contain caBundle, not even empty",
			t.Kind, t.Name, lastManager(t.object))
	}
}

// lastManager is who wrote the object last, other than we.
func lastManager(o metav1.Object) string {
	name, at := "unknown", time.Time{}
	for _, m := range o.GetManagedFields() {
		if m.Manager != fieldManager && m.Time != nil && !m.Time.Time.Before(at) {
			name, at = m.Manager, m.Time.Time
		}
	}
	return name
}

func (r *Rotator) patch(ctx context.Context, kind, name string, body []byte) (metav1.Object, error) {
	options := metav1.PatchOptions{FieldManager: fieldManager}
	switch kind {
	case KindMutating:
		return checked(r.env.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(ctx, name, types.JSONPatchType, body, options))
	case KindValidating:
		return checked(r.env.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(ctx, name, types.JSONPatchType, body, options))
	default:
		return checked(r.env.Extensions.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, name, types.JSONPatchType, body, options))
	}
}

func checked[T metav1.Object](object T, err error) (metav1.Object, error) {
	if err != nil {
		return nil, fmt.Errorf("patching: %w", err)
	}
	return object, nil
}
