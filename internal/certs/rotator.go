package certs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	api      api
	watched  []watched
	secrets  map[string]cache.Store
	targets  []*target
	// serverTime is the API server's time, and by how much it is ahead of the local one.
	serverTime func(local time.Time) (now time.Time, ahead time.Duration)
	// steady is a clock that nobody sets.
	steady func() time.Time
	// spread is a random number between 0 and 1, by which retries differ.
	spread        func() float64
	patchesAtOnce int

	// memory is what is remembered of targets from pass to pass, by name. Losing it costs time only.
	memory map[string]*remembered
	// serving is the fingerprint of the serving pair last seen, servingSince since when.
	serving      string
	servingSince time.Time
	told         telling
}

const (
	// lookEvery bounds the time between two passes: nothing depends on a single timer.
	lookEvery = time.Minute
	// skewToTell is a difference of clocks that somebody should know of, once per tellSkew.
	skewToTell = 5 * time.Minute
	tellSkew   = time.Hour
	// passAtMost bounds the time between reading and writing. It is less than the lease lasts after its holder would have
	// to notice that it was lost.
	passAtMost = 5 * time.Second
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
	r, err := o.build(env)
	if err != nil {
		return nil, err
	}
	return r, r.watch()
}

// build is the rotator without its caches.
func (o *Options) build(env *app.Env) (*Rotator, error) {
	settings, err := o.settings()
	if err != nil {
		return nil, err
	}
	r := &Rotator{
		env: env, options: *o, settings: settings, metrics: newMetrics(env.Metrics), memory: map[string]*remembered{},
		ours: Ours{Namespace: o.Namespace, Service: o.Service, Names: settings.Names}, secrets: map[string]cache.Store{},
		api:    server{o.Namespace, env.Kube, env.Extensions},
		steady: env.Clock.Now, spread: mathrand.Float64, patchesAtOnce: patchesAtOnce,
	}
	if env.ServerTime != nil {
		r.serverTime = env.ServerTime.Now
	}
	r.loop = kube.NewLoop("certificates", env.Clock, r.sync)
	return r, nil
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
	clocks := r.clocks()
	readings := r.read(clocks.Steady)
	o := r.observe(r.cachedSecret(r.options.CASecret), r.cachedSecret(r.options.TLSSecret), readings, clocks)
	d, err := Plan(o, r.settings, rand.Reader)
	r.metrics.planned.Observe(r.steady().Sub(clocks.Steady).Seconds())
	if err != nil {
		return 0, err
	}
	if !d.isIdle() {
		if d, err = r.carryOut(ctx, readings, clocks); err != nil {
			return 0, err
		}
	}
	r.export(o, readings)
	return r.wait(d, clocks.Now), nil
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

// clocks reads all clocks.
func (r *Rotator) clocks() Clocks {
	local := r.env.Clock.Now()
	now, ahead := r.serverTime(local)
	r.metrics.skew.Set(ahead.Seconds())
	c := Clocks{Now: now, Local: local, Steady: r.steady()}
	if ahead.Abs() > skewToTell && r.told.isNews(EventClockSkew, c.Steady, tellSkew) {
		r.event(corev1.EventTypeWarning, EventClockSkew, "the API server's clock differs from the local one by %s", ahead.Round(time.Second))
	}
	return c
}

// observe brings Secrets and targets into the form that Plan decides from.
func (r *Rotator) observe(ca, tls *corev1.Secret, readings []observedTarget, clocks Clocks) Observed {
	o := Observed{Clocks: clocks, Authorities: &Authorities{}, Serving: &Serving{}}
	if ca != nil {
		o.SecretExists, o.Data = true, ca.Data
		var problem string
		o.Authorities, problem = DecodeAuthorities(ca.Data, clocks.Now)
		r.complain(ca.Name, problem)
		o.Requests, problem = requestsOf(ca.Annotations)
		r.complain(ca.Name, problem)
	}
	if tls != nil {
		var problem string
		o.Serving, problem = DecodeServing(tls.Data)
		r.complain(tls.Name, problem)
	}
	o.ServingSince = r.seeServing(o.Serving, clocks.Steady)
	for i := range readings {
		o.Targets = append(o.Targets, readings[i].Target)
	}
	return o
}

// complain tells of a Secret that is not as it should be.
func (r *Rotator) complain(secret, problem string) {
	if problem != "" {
		r.warn(EventSecretInvalid, secret+" "+problem, "Secret %s: %s", secret, problem)
	}
}

// seeServing returns since when the serving pair is this one.
func (r *Rotator) seeServing(s *Serving, steady time.Time) time.Time {
	id := ""
	if s.Pair != nil {
		id = s.Pair.Fingerprint()
	}
	if id != r.serving {
		r.serving, r.servingSince = id, steady
	}
	return r.servingSince
}

// requestsOf reads the annotations; one that is no time asks for nothing.
func requestsOf(annotations map[string]string) (requests Requests, problem string) {
	at := func(key string) time.Time {
		value, ok := annotations[key]
		if !ok {
			return time.Time{}
		}
		t, err := time.Parse(time.RFC3339, value)
		if err != nil {
			problem = fmt.Sprintf("annotation %s is %q: must be a time like 2006-01-02T15:04:05Z", key, value)
			return time.Time{}
		}
		// Certificates know whole seconds only.
		return t.Truncate(time.Second)
	}
	requests = Requests{at(AnnotationRenewServingAfter), at(AnnotationPromoteAfter), at(AnnotationRevokeBefore)}
	return requests, problem
}

// carryOut plans again by the Secrets as they are now, so that nothing is taken back that a cache does not show yet, and
// writes under the versions that were read.
func (r *Rotator) carryOut(ctx context.Context, readings []observedTarget, clocks Clocks) (Decision, error) {
	readAt := r.steady()
	ca, err := r.api.secret(ctx, r.options.CASecret)
	if err != nil {
		return Decision{}, err
	}
	tls, err := r.api.secret(ctx, r.options.TLSSecret)
	if err != nil {
		return Decision{}, err
	}
	o := r.observe(ca, tls, readings, clocks)
	d, err := Plan(o, r.settings, rand.Reader)
	if err != nil {
		return d, err
	}
	if !r.isFresh(readAt) {
		return d, kube.Passing(errStale)
	}
	switch {
	case d.CreateSecret:
		err = r.createSecret(ctx, r.options.CASecret)
	case d.Authorities != nil:
		err = r.writeAuthorities(ctx, ca, o.Authorities, d, clocks)
	case d.Serving != nil:
		err = r.writeServing(ctx, tls, d)
	}
	r.publish(ctx, d, readings, readAt)
	return d, err
}

// isFresh says whether what was read then may still be acted on.
func (r *Rotator) isFresh(readAt time.Time) bool { return r.steady().Sub(readAt) < passAtMost }

func (r *Rotator) createSecret(ctx context.Context, name string) error {
	err := r.api.createSecret(ctx, name)
	r.countWrite(name, err)
	if err != nil {
		r.warn(EventPublishFailed, name, "%v", err)
	}
	return err
}

func (r *Rotator) writeAuthorities(ctx context.Context, live *corev1.Secret, before *Authorities, d Decision, clocks Clocks) error {
	data, err := d.Authorities.Encode(clocks.judged())
	if err != nil {
		return err
	}
	if err := r.write(ctx, live, data, nil); err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx)
	log.V(2).Info("wrote the authorities", "reason", d.Reason, "signing", d.Authorities.Current.Subject.CommonName)
	for _, c := range before.Previous {
		if !slices.ContainsFunc(d.Authorities.Previous, func(r Retired) bool { return r.Is(c.Certificate) }) {
			r.normal(EventAuthorityRetired, c.Subject.CommonName, "%s is not trusted any more", c.Subject.CommonName)
		}
	}
	if d.Event != "" {
		r.metrics.rotations.WithLabelValues("authority", d.What).Inc()
		r.normal(d.Event, d.Authorities.Next.Subject.CommonName, "%s; signing now: %s", d.Reason, d.Authorities.Current.Subject.CommonName)
	}
	return nil
}

func (r *Rotator) writeServing(ctx context.Context, live *corev1.Secret, d Decision) error {
	if live == nil {
		if err := r.createSecret(ctx, r.options.TLSSecret); err != nil {
			return err
		}
		var err error
		if live, err = r.api.secret(ctx, r.options.TLSSecret); err != nil || live == nil {
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
	logr.FromContextOrDiscard(ctx).V(2).Info("issued a serving certificate", "reason", d.Reason, "serial", p.SerialNumber.Text(16), "until", p.NotAfter)
	r.metrics.rotations.WithLabelValues("serving", d.What).Inc()
	r.normal(EventServingCertificateIssued, p.SerialNumber.Text(16), "%s; valid until %s", d.Reason, p.NotAfter.UTC().Format(time.RFC3339))
	return nil
}

// write replaces our keys of a Secret, under the version that was read. Keys of others stay.
func (r *Rotator) write(ctx context.Context, live *corev1.Secret, data map[string][]byte, annotations map[string]string) error {
	if live.Immutable != nil && *live.Immutable {
		r.warn(EventSecretImmutable, live.Name, "Secret %s is immutable: delete it, so that it can be made anew", live.Name)
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
	err := r.api.updateSecret(ctx, s)
	r.countWrite(s.Name, err)
	if apierrors.IsConflict(err) {
		// Somebody was faster. What was made for this write is thrown away.
		return kube.Passing(err)
	}
	if err != nil {
		r.warn(EventPublishFailed, s.Name, "%v", err)
	}
	return err
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
