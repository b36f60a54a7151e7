package certs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
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
	spread func() float64
	// random is what keys and serial numbers are made from.
	random        io.Reader
	patchesAtOnce int
	// lookEvery bounds the time between two passes: nothing depends on a single timer.
	lookEvery time.Duration

	// memory is what is remembered of targets from pass to pass, by name. Losing it costs time only.
	memory map[string]*remembered
	// serving is the fingerprint of the serving pair last seen, servingSince since when.
	serving      string
	servingSince time.Time
	told         telling
	// passed is when the last pass was; nil: there are none, because another leads.
	passed   atomic.Pointer[time.Time]
	external seen
	// dial connects to the webhook.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	lookEvery = time.Minute
	// skewToTell is a difference of clocks that somebody should know of, once per tellSkew.
	skewToTell = 5 * time.Minute
	tellSkew   = time.Hour
	// passAtMost bounds the time between reading and writing. It is less than the lease lasts after its holder would have
	// to notice that it was lost.
	passAtMost = 5 * time.Second
	// passAtLeast is the time without a pass after which the process is of no use.
	passAtLeast = 5 * time.Minute
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
	r.loop = kube.NewLoop("certificates", env.Clock, r.sync)
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
		steady: env.Clock.Now, spread: mathrand.Float64, random: rand.Reader,
		patchesAtOnce: patchesAtOnce, lookEvery: lookEvery, dial: (&net.Dialer{}).DialContext,
	}
	if env.ServerTime != nil {
		r.serverTime = env.ServerTime.Now
	}
	return r, nil
}

// Work rotates until the context ends. There is one thing to work on, so one worker is all that is needed.
func (r *Rotator) Work(ctx context.Context, _ int) {
	r.passed.Store(new(r.steady()))
	defer r.passed.Store(nil)
	r.loop.Add(r.key())
	r.metrics.leader.Set(1)
	defer r.metrics.leader.Set(0)
	var watching sync.WaitGroup
	watching.Go(func() { r.watchdog(ctx) })
	r.loop.Run(ctx, 1)
	watching.Wait()
}

// pass is what one pass is made from.
type pass struct {
	ca, tls  *corev1.Secret
	readings []observedTarget
	Observed
	Decision
}

// plan observes by these Secrets, and decides.
func (r *Rotator) plan(ca, tls *corev1.Secret, readings []observedTarget, clocks Clocks) (p pass, err error) {
	if p = (pass{ca: ca, tls: tls, readings: readings, Observed: Observed{Clocks: clocks}}); r.options.Mode == ModePublishOnly {
		return r.planExternal(p), nil
	}
	p.Observed = r.observe(ca, tls, readings, clocks)
	if p.Decision, err = Plan(p.Observed, r.settings, r.random); p.Obstructed != "" {
		r.complainImmutable(ca)
	}
	return p, err
}

// Alive says whether passes still happen.
func (r *Rotator) Alive() error {
	if at := r.passed.Load(); at != nil && r.steady().Sub(*at) > passAtLeast {
		return fmt.Errorf("no pass since %s", at.UTC().Format(time.RFC3339))
	}
	return nil
}

// sync is one pass: plan by the caches, and if there is anything to do, by live Secrets again.
func (r *Rotator) sync(ctx context.Context, _ cache.ObjectName) (time.Duration, error) {
	clocks := r.clocks()
	r.passed.Store(&clocks.Steady)
	p, err := r.plan(r.cachedSecret(r.options.CASecret), r.cachedSecret(r.options.TLSSecret), r.read(clocks.Steady), clocks)
	r.metrics.planned.Observe(r.steady().Sub(clocks.Steady).Seconds())
	if err != nil {
		return r.lookEvery, err
	}
	if !p.isIdle() {
		if p, err = r.carryOut(ctx, p); err != nil {
			return r.lookEvery, err
		}
	}
	r.export(p)
	return min(r.wait(p.Decision, clocks.Now), r.retry(p)), nil
}

// retry is when to try those targets again whose patches of this pass did not go through. The decision was made before.
func (r *Rotator) retry(p pass) time.Duration {
	wait, now := r.lookEvery, r.steady()
	for _, i := range p.Patch {
		if m := p.readings[i].memory; !m.notBefore.IsZero() {
			wait = min(wait, max(time.Millisecond, m.notBefore.Sub(now)))
		}
	}
	return wait
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
		return r.lookEvery
	default:
		return min(r.lookEvery, max(time.Millisecond, d.LookAgain.Sub(now)))
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
		o.SecretExists, o.Data, o.Immutable = true, ca.Data, isImmutable(ca)
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

// carryOut writes under the versions that are read now. If they are not those that the caches showed, it plans anew, so that
// nothing is taken back that a cache does not show yet.
func (r *Rotator) carryOut(ctx context.Context, p pass) (pass, error) {
	readAt := r.steady()
	ca, err := r.api.secret(ctx, r.options.CASecret)
	if err != nil {
		return p, err
	}
	tls, err := r.api.secret(ctx, r.options.TLSSecret)
	if err != nil {
		return p, err
	}
	if !isSame(ca, p.ca) || !isSame(tls, p.tls) {
		if p, err = r.plan(ca, tls, p.readings, p.Clocks); err != nil {
			return p, err
		}
	}
	if !r.isFresh(readAt) {
		return p, kube.Passing(errStale)
	}
	switch {
	case p.CreateSecret:
		err = r.createSecret(ctx, r.options.CASecret)
	case p.Decision.Authorities != nil:
		err = r.writeAuthorities(ctx, p)
	case p.Decision.Serving != nil:
		err = r.writeServing(ctx, p)
	}
	r.publish(ctx, p.Decision, p.readings, readAt)
	return p, err
}

// isSame says whether two readings show the same state of a Secret; nil: there is none.
func isSame(a, b *corev1.Secret) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
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

func (r *Rotator) writeAuthorities(ctx context.Context, p pass) error {
	before, after := p.Observed.Authorities, p.Decision.Authorities
	data, err := after.Encode(p.judged())
	if err != nil {
		return err
	}
	if err := r.write(ctx, p.ca, data, nil); err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).V(2).Info("wrote the authorities", "reason", p.Reason, "signing", after.Current.Subject.CommonName)
	for _, c := range before.Previous {
		if !slices.ContainsFunc(after.Previous, func(r Retired) bool { return r.Is(c.Certificate) }) {
			r.normal(EventAuthorityRetired, c.Subject.CommonName, "%s is not trusted any more", c.Subject.CommonName)
		}
	}
	if p.Event != "" {
		r.metrics.rotations.WithLabelValues("authority", p.What).Inc()
		r.normal(p.Event, after.Next.Subject.CommonName, "%s; signing now: %s", p.Reason, after.Current.Subject.CommonName)
	}
	return nil
}

func (r *Rotator) writeServing(ctx context.Context, p pass) error {
	live := p.tls
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
	data, err := p.Decision.Serving.Encode()
	if err != nil {
		return err
	}
	leaf := p.Decision.Serving.Pair
	err = r.write(ctx, live, data, map[string]string{
		"certs.flotilla-k8s.io/not-before": leaf.NotBefore.UTC().Format(time.RFC3339),
		"certs.flotilla-k8s.io/not-after":  leaf.NotAfter.UTC().Format(time.RFC3339),
		"certs.flotilla-k8s.io/serial":     leaf.SerialNumber.Text(16),
		"certs.flotilla-k8s.io/issuer":     leaf.Issuer.CommonName,
	})
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).V(2).Info("issued a serving certificate", "reason", p.Reason, "serial", leaf.SerialNumber.Text(16), "until", leaf.NotAfter)
	r.metrics.rotations.WithLabelValues("serving", p.What).Inc()
	r.normal(EventServingCertificateIssued, leaf.SerialNumber.Text(16), "%s; valid until %s", p.Reason, leaf.NotAfter.UTC().Format(time.RFC3339))
	return nil
}

func isImmutable(s *corev1.Secret) bool { return s.Immutable != nil && *s.Immutable }

func (r *Rotator) complainImmutable(s *corev1.Secret) {
	r.warn(EventSecretImmutable, s.Name, "Secret %s is immutable: delete it, so that it can be made anew", s.Name)
}

// write replaces our keys of a Secret, under the version that was read. Keys of others stay.
func (r *Rotator) write(ctx context.Context, live *corev1.Secret, data map[string][]byte, annotations map[string]string) error {
	if isImmutable(live) {
		r.complainImmutable(live)
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
