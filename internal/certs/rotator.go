package certs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// Rotator carries out what Plan decides.
type Rotator struct {
	env      *app.Env
	options  Options
	settings Settings
	ours     Ours
	loop     *kube.Loop
	metrics  *metrics
	watched  []watched
	targets  []*target

	// contests, retries and trust are what is remembered of targets from pass to pass, by name. Losing it costs time only.
	memory map[string]*remembered
	// skewTold is when the difference of the clocks was last told.
	skewTold time.Time
}

const (
	fieldManager = "flotilla-cert-rotator"
	// lookEvery bounds the time between two passes: nothing depends on a single timer.
	lookEvery = time.Minute
	// skewTold and skewSuspends are differences of clocks.
	skewToTell   = 5 * time.Minute
	skewSuspends = 24 * time.Hour
	tellSkew     = time.Hour
)

// key is the one thing that the rotator works on.
func (r *Rotator) key() cache.ObjectName {
	return cache.NewObjectName(r.options.Namespace, r.options.CASecret)
}

// New builds the rotator.
func (o *Options) New(env *app.Env) (app.Runnable, error) {
	if env.Namespace != "" {
		o.Namespace = env.Namespace
	}
	settings, err := o.settings()
	if err != nil {
		return nil, err
	}
	r := &Rotator{
		env: env, options: *o, settings: settings, metrics: newMetrics(env.Metrics), memory: map[string]*remembered{},
		ours: Ours{Namespace: o.Namespace, Service: o.Service, Names: settings.Names},
	}
	r.loop = kube.NewLoop("certificates", env.Clock, r.sync)
	return r, r.watch()
}

// Work rotates until the context ends. There is one thing to work on, so one worker is all that is needed.
func (r *Rotator) Work(ctx context.Context, _ int) {
	r.loop.Add(r.key())
	r.metrics.leader.Set(1)
	defer r.metrics.leader.Set(0)
	r.loop.Run(ctx, 1)
}

// sync is one pass: plan by the caches, and if there is anything to do, by live Secrets again.
func (r *Rotator) sync(ctx context.Context, _ cache.ObjectName) (time.Duration, error) {
	start := r.env.Clock.Now()
	now, ageUnknown := r.now(start)
	readings := r.read(now)
	o := r.observe(r.cachedSecret(r.options.CASecret), r.cachedSecret(r.options.TLSSecret), readings, now, ageUnknown)
	d, err := Plan(o, r.settings, rand.Reader)
	r.metrics.planned.Observe(r.env.Clock.Since(start).Seconds())
	if err != nil {
		return 0, err
	}
	if !d.isIdle() {
		if d, err = r.carryOut(ctx, readings, now, ageUnknown); err != nil {
			return 0, err
		}
	}
	r.export(o, readings, now)
	return r.wait(d, now), nil
}

func (d *Decision) isIdle() bool {
	return !d.CreateSecret && d.Authorities == nil && d.Serving == nil && len(d.Patch) == 0
}

// wait is how long until the next pass.
func (r *Rotator) wait(d Decision, now time.Time) time.Duration {
	switch {
	case d.CreateSecret || d.Authorities != nil || d.Serving != nil:
		return time.Millisecond
	case d.LookAgain.IsZero():
		return lookEvery
	default:
		return min(lookEvery, max(time.Millisecond, d.LookAgain.Sub(now)))
	}
}

// now is the API server's time.
func (r *Rotator) now(local time.Time) (now time.Time, ageUnknown bool) {
	now, ahead := r.env.ServerTime.Now(local)
	r.metrics.skew.Set(ahead.Seconds())
	if ahead.Abs() > skewToTell && local.Sub(r.skewTold) > tellSkew {
		r.skewTold = local
		r.warn(EventClockSkew, "the API server's clock differs from the local one by %s", ahead.Round(time.Second))
	}
	return now, ahead.Abs() > skewSuspends
}

// observe brings Secrets and targets into the form that Plan decides from.
func (r *Rotator) observe(ca, tls *corev1.Secret, readings []observedTarget, now time.Time, ageUnknown bool) Observed {
	o := Observed{Now: now, AgeUnknown: ageUnknown, Authorities: &Authorities{}, Serving: &Serving{}}
	if ca != nil {
		o.SecretExists, o.Data = true, ca.Data
		o.Authorities, _ = DecodeAuthorities(ca.Data, now)
		o.Requests = requestsOf(ca.Annotations)
	}
	if tls != nil {
		o.Serving, _ = DecodeServing(tls.Data)
	}
	for i := range readings {
		o.Targets = append(o.Targets, readings[i].Target)
	}
	return o
}

// requestsOf reads the annotations; one that is no time asks for nothing.
func requestsOf(annotations map[string]string) Requests {
	at := func(key string) time.Time {
		t, err := time.Parse(time.RFC3339, annotations[key])
		if err != nil {
			return time.Time{}
		}
		return t
	}
	return Requests{at(AnnotationRenewServingAfter), at(AnnotationPromoteAfter), at(AnnotationRevokeBefore)}
}

// carryOut plans again by the Secrets as they are now, so that nothing is taken back that a cache does not show yet, and
// writes under the versions that were read.
func (r *Rotator) carryOut(ctx context.Context, readings []observedTarget, now time.Time, ageUnknown bool) (Decision, error) {
	ca, err := r.liveSecret(ctx, r.options.CASecret)
	if err != nil {
		return Decision{}, err
	}
	tls, err := r.liveSecret(ctx, r.options.TLSSecret)
	if err != nil {
		return Decision{}, err
	}
	o := r.observe(ca, tls, readings, now, ageUnknown)
	d, err := Plan(o, r.settings, rand.Reader)
	if err != nil {
		return d, err
	}
	switch {
	case d.CreateSecret:
		err = r.createSecret(ctx, r.options.CASecret)
	case d.Authorities != nil:
		err = r.writeAuthorities(ctx, ca, d, now)
	case d.Serving != nil:
		err = r.writeServing(ctx, tls, d)
	}
	r.publish(ctx, d, readings, now)
	return d, err
}

func (r *Rotator) liveSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	s, err := r.env.Kube.CoreV1().Secrets(r.options.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return s, nil
}

// createSecret makes an empty Secret. It is an apply, which two may send at the same time, and which a role can allow for
// this name only.
func (r *Rotator) createSecret(ctx context.Context, name string) error {
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q,"labels":{%q:%q}},"type":%q}`,
		name, labelManagedBy, managedBy, corev1.SecretTypeOpaque)
	_, err := r.env.Kube.CoreV1().Secrets(r.options.Namespace).Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	r.countWrite(name, err)
	if err != nil {
		return fmt.Errorf("creating Secret %s: %w", name, err)
	}
	return nil
}

const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "cert-rotator"
)

func (r *Rotator) writeAuthorities(ctx context.Context, live *corev1.Secret, d Decision, now time.Time) error {
	data, err := d.Authorities.Encode(now)
	if err != nil {
		return err
	}
	if err := r.write(ctx, live, data, nil); err != nil {
		return err
	}
	r.metrics.rotations.WithLabelValues("authority", d.What).Inc()
	r.normal(authorityEvent(d), "%s; signing now: %s", d.Reason, d.Authorities.Current.Subject.CommonName)
	return nil
}

func authorityEvent(d Decision) string {
	switch {
	case d.What == "revoked" && len(d.Authorities.Revoked) > 0:
		return EventRevocationStarted
	case d.What == "revoked":
		return EventRevocationFinished
	case len(d.Authorities.Previous) > 0:
		return EventAuthorityPromoted
	default:
		return EventAuthorityCreated
	}
}

func (r *Rotator) writeServing(ctx context.Context, live *corev1.Secret, d Decision) error {
	if live == nil {
		if err := r.createSecret(ctx, r.options.TLSSecret); err != nil {
			return err
		}
		var err error
		if live, err = r.liveSecret(ctx, r.options.TLSSecret); err != nil || live == nil {
			return errors.Join(err, kube.Passing(errors.New("the serving Secret is gone again")))
		}
		// Somebody else may have filled it since: then the next pass decides.
		if len(live.Data) > 0 {
			return nil
		}
	}
	data, err := d.Serving.Encode()
	if err != nil {
		return err
	}
	p := d.Serving.Pair
	err = r.write(ctx, live, data, map[string]string{
		"certs.flotilla-k8s.io/not-before": p.NotBefore.UTC().Format(time.RFC3339),
		"certs.flotilla-k8s.io/not-after":  p.NotAfter.UTC().Format(time.RFC3339),
		"certs.flotilla-k8s.io/serial":     p.SerialNumber.Text(16),
		"certs.flotilla-k8s.io/issuer":     p.Issuer.CommonName,
	})
	if err != nil {
		return err
	}
	r.metrics.rotations.WithLabelValues("serving", d.What).Inc()
	r.normal(EventServingCertificateIssued, "%s; valid until %s", d.Reason, p.NotAfter.UTC().Format(time.RFC3339))
	return nil
}

// write replaces our keys of a Secret, under the version that was read. Keys of others stay.
func (r *Rotator) write(ctx context.Context, live *corev1.Secret, data map[string][]byte, annotations map[string]string) error {
	if live.Immutable != nil && *live.Immutable {
		r.warn(EventSecretImmutable, "Secret %s is immutable: delete it, so that it can be made anew", live.Name)
		return fmt.Errorf("Secret %s is immutable", live.Name) //nolint:staticcheck // It begins with a kind.
	}
	s := live.DeepCopy()
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	maps.Copy(s.Data, data)
	if len(annotations) > 0 && s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	maps.Copy(s.Annotations, annotations)
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	s.Labels[labelManagedBy] = managedBy
	_, err := r.env.Kube.CoreV1().Secrets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{FieldManager: fieldManager})
	r.countWrite(s.Name, err)
	if apierrors.IsConflict(err) {
		// Somebody was faster. What was made for this write is thrown away.
		return kube.Passing(err)
	}
	if err != nil {
		r.warn(EventPublishFailed, "writing Secret %s: %v", s.Name, err)
		return fmt.Errorf("writing Secret %s: %w", s.Name, err)
	}
	return nil
}

func (r *Rotator) countWrite(secret string, err error) {
	result := "ok"
	if apierrors.IsConflict(err) {
		result = "conflict"
	} else if err != nil {
		result = "error"
	}
	r.metrics.secretWrites.WithLabelValues(secret, result).Inc()
}

// subject is what events are about: the serving Secret, in our own namespace.
func (r *Rotator) subject() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: r.options.Namespace, Name: r.options.TLSSecret}
}

func (r *Rotator) normal(reason, format string, args ...any) {
	r.env.Recorder.Eventf(r.subject(), corev1.EventTypeNormal, reason, format, args...)
}

func (r *Rotator) warn(reason, format string, args ...any) {
	r.env.Recorder.Eventf(r.subject(), corev1.EventTypeWarning, reason, format, args...)
}
