package certs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flotilla-k8s/flotilla/internal/app"
)

const (
	simNamespace = "flotilla-system"
	simCA        = "flotilla-webhook-ca"
	simTLS       = "flotilla-webhook-tls"
)

// version is a target as it was from a moment on; object nil: it was not there.
type version struct {
	since  time.Time
	object metav1.Object
	// foreign are the paths of entries that somebody else set since we wrote them last: calls through them may fail.
	foreign map[string]bool
}

// simTarget is a target with its history, for those who see it late.
type simTarget struct {
	kind, name string
	versions   []version
	// denied: patches are refused, as by a policy.
	denied bool
	// allowed is since when they are not any more.
	allowed time.Time
	// patches counts ours that went through.
	patches int
}

func (t *simTarget) at(when time.Time) *version {
	for i := len(t.versions) - 1; i > 0; i-- {
		if !t.versions[i].since.After(when) {
			return &t.versions[i]
		}
	}
	return &t.versions[0]
}

func (t *simTarget) last() *version { return &t.versions[len(t.versions)-1] }

// simServer is a webhook-server.
type simServer struct {
	loaded *Pair
	// delay is how long it takes to see the Secret; negative: for ever.
	delay time.Duration
	// reloads is when it looks next; zero: nothing has changed.
	reloads time.Time
	// dozed: it did not look for long, and has not since.
	dozed bool
	// lost: nobody who could tell the targets knows the issuer of what it serves.
	lost bool
}

// simRotator is a process.
type simRotator struct {
	*Rotator
	clock *clocktesting.FakeClock
	next  time.Time
	off   bool
}

// fault is what happens to a write.
type fault int

const (
	nothing fault = iota
	killBefore
	killAfter
	answerLost
	refused
	numFaults
)

// killed is the panic by which a process ends in the middle.
type killed struct{}

// sim is an API server of two instances, one of which lags, with everybody who talks to it. All is drawn from one seed.
type sim struct {
	seed   uint64
	random *mathrand.Rand
	bytes  *mathrand.ChaCha8
	told   []string
	// tells: the story is kept.
	tells bool

	// end is that of the time that passes now.
	start, now, end time.Time
	// Clocks of the API server, the rotators and the nodes differ from now, never by more than an hour from each other.
	apiAhead, localAhead, nodeAhead time.Duration
	apiLag, cacheLag                time.Duration

	secrets  map[string]*corev1.Secret
	targets  []*simTarget
	servers  []*simServer
	rotators []*simRotator
	acting   *simRotator
	nested   bool
	revision int

	// chance is how often, in a thousand, a write goes wrong.
	chance int
	// issued is what is known of serving certificates, by serial.
	issued map[string]*simLeaf
	parsed map[string][]Certificate
	// served are readings of the serving Secret by version.
	served map[string]*Serving

	// denials are those of this pass.
	denials, passes int
	// caughtUp is until when it excuses an expired certificate, or a target that was left behind, that no rotator was there.
	caughtUp time.Time

	writes, allowed map[string]int
	revoked         map[string]bool
	events          map[string][]string
	// registry is that of the rotator that began last.
	registry *prometheus.Registry
	broken   error
}

// simLeaf says how a serving certificate came to be.
type simLeaf struct {
	at time.Time
	// forced: it was issued because nothing else worked, or at the last moment. Then not everybody need trust it.
	forced bool
	// hopeless are targets that did not trust the one before either.
	hopeless map[string]bool
}

func newSim(seed uint64, tells bool) *sim {
	var key [32]byte
	key[0], key[1], key[2], key[3] = byte(seed), byte(seed>>8), byte(seed>>16), byte(seed>>24)
	s := &sim{
		seed: seed, tells: tells, random: mathrand.New(mathrand.NewPCG(seed, 70)), bytes: mathrand.NewChaCha8(key),
		now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), secrets: map[string]*corev1.Secret{}, issued: map[string]*simLeaf{},
		parsed: map[string][]Certificate{}, served: map[string]*Serving{}, writes: map[string]int{}, allowed: map[string]int{}, revoked: map[string]bool{}, events: map[string][]string{},
	}
	s.start = s.now
	s.setClocks()
	s.apiLag = s.upTo(20 * time.Second)
	s.cacheLag = s.upTo(2 * time.Second)
	s.targets = []*simTarget{
		{kind: KindMutating, name: "mutating", versions: []version{{object: s.newHooks()}}},
		{kind: KindValidating, name: "validating", versions: []version{{object: newValidating()}}},
		{kind: KindCRD, name: "clonesets", versions: []version{{object: newCRD("clonesets")}}},
	}
	for _, t := range s.targets {
		t.versions[0].since = s.now
		t.versions[0].foreign = map[string]bool{}
		for _, e := range s.read(t.versions[0].object).entries {
			t.versions[0].foreign[e.path] = true
		}
		t.versions[0].object.SetGeneration(1)
		s.stamp(t.versions[0].object)
	}
	for range 3 {
		s.servers = append(s.servers, &simServer{delay: s.reloadDelay()})
	}
	for range 2 {
		s.rotators = append(s.rotators, &simRotator{next: s.now})
	}
	s.rotators[1].off = true
	return s
}

func (s *sim) tell(format string, args ...any) {
	if s.tells {
		s.told = append(s.told, fmt.Sprintf("%16s  ", s.now.Sub(s.start).Round(time.Millisecond))+fmt.Sprintf(format, args...))
	}
}

func (s *sim) violation(format string, args ...any) {
	if s.broken == nil {
		s.tell("VIOLATION: "+format, args...)
		s.broken = fmt.Errorf(format, args...)
	}
}

func (s *sim) upTo(d time.Duration) time.Duration { return time.Duration(s.random.Int64N(int64(d))) }

func (s *sim) oneIn(n int) bool { return s.random.IntN(n) == 0 }

func (s *sim) setClocks() {
	s.apiAhead, s.localAhead, s.nodeAhead = s.upTo(time.Hour), s.upTo(time.Hour), s.upTo(time.Hour)
}

func (s *sim) apiTime() time.Time { return s.now.Add(s.apiAhead) }

// reloadDelay is short for a watch, up to 90 seconds for a file, and negative for servers that never look.
func (s *sim) reloadDelay() time.Duration {
	switch s.random.IntN(4) {
	case 0:
		return -1
	case 1:
		return s.upTo(90 * time.Second)
	default:
		return s.upTo(time.Second)
	}
}

// boot starts a rotator that remembers nothing.
func (s *sim) boot(r *simRotator) {
	o := DefaultOptions()
	o.Mutating, o.Validating, o.CRDs = []string{"mutating"}, []string{"validating"}, []string{"clonesets"}
	r.clock = clocktesting.NewFakeClock(s.now)
	s.registry = prometheus.NewRegistry()
	built, err := o.build(&app.Env{Clock: r.clock, Metrics: s.registry, Recorder: simRecorder{s, &record.FakeRecorder{}}})
	if err != nil {
		panic(err)
	}
	built.api, built.random, built.patchesAtOnce, built.lookEvery = s, s.bytes, 1, 100*365*day
	built.spread = s.random.Float64
	// It began at another moment than the true time, and nobody sets it.
	steady := s.upTo(1000 * time.Hour)
	built.steady = func() time.Time { return s.now.Add(-steady) }
	built.serverTime = func(local time.Time) (time.Time, time.Duration) { return s.apiTime(), s.apiTime().Sub(local) }
	for _, name := range []string{simCA, simTLS} {
		built.secrets[name] = simStore{get: func() any {
			if secret := s.secrets[name]; secret != nil {
				return secret
			}
			return nil
		}}
	}
	for _, t := range s.targets {
		built.targets = append(built.targets, &target{t.kind, t.name, simStore{get: func() any {
			if o := t.at(s.now.Add(-s.cacheLag)).object; o != nil {
				return o
			}
			return nil
		}}})
	}
	r.Rotator = built
}

// simRecorder notes events by reason.
type simRecorder struct {
	*sim
	record.EventRecorder
}

func (r simRecorder) Eventf(_ runtime.Object, _, reason, format string, args ...any) {
	if r.tells {
		r.events[reason] = append(r.events[reason], fmt.Sprintf(format, args...))
		r.tell("event %s: "+format, append([]any{reason}, args...)...)
	}
}

// simStore is a cache of one object.
type simStore struct {
	cache.Store
	get func() any
}

func (c simStore) GetByKey(string) (any, bool, error) {
	item := c.get()
	return item, item != nil, nil
}

func (s *sim) stamp(o metav1.Object) {
	s.revision++
	o.SetResourceVersion(fmt.Sprint(s.revision))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprint("uid-", s.revision)))
	}
}

// draw decides what happens to a write.
func (s *sim) draw(what string) fault {
	if s.random.IntN(1000) >= s.chance || s.nested {
		return nothing
	}
	f := 1 + fault(s.random.IntN(int(numFaults)-1))
	s.tell("the next write, %s, meets: %s", what, []string{"", "kill -9 before it", "kill -9 after it", "its answer is lost", "it is refused"}[f])
	return f
}

// write carries out a write, or what happens instead.
func (s *sim) write(what string, do func() error) error {
	f := s.draw(what)
	if f == killBefore {
		panic(killed{})
	}
	if f == refused {
		return apierrors.NewInternalError(errors.New("refused"))
	}
	if err := do(); err != nil {
		return err
	}
	s.check()
	switch f {
	case killAfter:
		panic(killed{})
	case answerLost:
		return apierrors.NewTimeoutError("the answer was lost", 1)
	}
	return nil
}

func (s *sim) secret(_ context.Context, name string) (*corev1.Secret, error) {
	live := s.secrets[name].DeepCopy()
	if name == simTLS && !s.nested {
		s.interfere()
	}
	return live, nil
}

// interfere is what may happen between a pass's reading and its writing.
func (s *sim) interfere() {
	switch {
	case s.chance == 0 || !s.oneIn(12):
	case s.oneIn(3):
		if ca := s.secrets[simCA]; ca != nil {
			s.tell("an administrator adds a key to the authorities' Secret")
			s.put(simCA, func(c *corev1.Secret) { c.Data["note"] = []byte{1} })
		}
	case s.oneIn(2):
		s.tell("the process is stopped for a while")
		s.now = s.now.Add(passAtMost + time.Second)
	default:
		s.tell("another rotator has a pass of its own meanwhile")
		acting := s.acting
		s.nested = true
		s.pass(s.rotators[1])
		s.nested, s.acting = false, acting
	}
}

func (s *sim) createSecret(_ context.Context, name string) error {
	return s.write("creating Secret "+name, func() error {
		if s.secrets[name] == nil {
			s.tell("creates Secret %s", name)
			s.writes["create "+name]++
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: simNamespace, Name: name}}
			s.stamp(secret)
			s.secrets[name] = secret
			s.changed()
		}
		return nil
	})
}

func (s *sim) updateSecret(_ context.Context, secret *corev1.Secret) error {
	return s.write("of Secret "+secret.Name, func() error {
		live := s.secrets[secret.Name]
		resource := schema.GroupResource{Resource: "secrets"}
		if live == nil {
			return apierrors.NewNotFound(resource, secret.Name)
		}
		if live.ResourceVersion != secret.ResourceVersion {
			return apierrors.NewConflict(resource, secret.Name, errors.New("another version"))
		}
		s.writes["write "+secret.Name]++
		if secret.Name == simTLS {
			s.noteIssue(live, secret)
		} else {
			s.noteAuthorities(secret)
		}
		written := secret.DeepCopy()
		s.stamp(written)
		s.secrets[secret.Name] = written
		s.changed()
		return nil
	})
}

// noteAuthorities tells what an authorities' Secret says.
func (s *sim) noteAuthorities(written *corev1.Secret) {
	a, problem := DecodeAuthorities(written.Data, s.apiTime())
	if problem != "" || a.Current == nil || a.Next == nil {
		s.violation("wrote authorities that cannot be read: %s", problem)
		return
	}
	for _, f := range a.Revoked {
		s.revoked[f] = true
	}
	bundle := a.Bundle(s.apiTime())
	if len(bundle) == 0 || len(bundle) > maxBundle {
		s.violation("the bundle has %d certificates", len(bundle))
	}
	if s.tells {
		var names []string
		for _, c := range bundle {
			names = append(names, short(c))
		}
		s.tell("writes the authorities: %s", strings.Join(names, " "))
	}
}

// short is a name for people.
func short(c Certificate) string { return fmt.Sprintf("%x", c.SubjectKeyId[:2]) }

// noteIssue checks that a new pair may be put into service.
func (s *sim) noteIssue(live, written *corev1.Secret) {
	before, _ := DecodeServing(live.Data)
	after, _ := DecodeServing(written.Data)
	if after.Pair == nil || after.Issuer == nil || after.Pair.AuthorityKeyId == nil {
		s.violation("wrote a pair that cannot be used")
		return
	}
	leaf := &simLeaf{at: s.now, hopeless: map[string]bool{}}
	s.issued[after.Pair.SerialNumber.String()] = leaf
	s.tell("issues %s by %s", after.Pair.SerialNumber.Text(36)[:4], short(*after.Issuer))
	known := before.Pair != nil && before.Issuer != nil && isNamed(before.Pair, *before.Issuer) && s.issued[before.Pair.SerialNumber.String()] != nil
	leaf.forced = !known || !s.apiTime().Before(before.Pair.NotAfter.Add(-lastChance))
	if !known {
		return
	}
	if last := s.issued[before.Pair.SerialNumber.String()]; last != nil && last.forced && before.Issuer.Is(*after.Issuer) {
		leaf.forced = true
	}
	// Trust before use: whoever saw the one authority in the last moments saw the other too.
	for _, t := range s.targets {
		for _, when := range []time.Time{s.now, s.now.Add(-s.apiLag), s.now.Add(-20 * time.Second)} {
			v := t.at(when)
			if v.object == nil {
				continue
			}
			for _, e := range s.read(v.object).entries {
				list := s.parse(e.bundle)
				if v.foreign[e.path] && s.now.Sub(v.since) <= s.cacheLag+time.Millisecond {
					// What somebody else did this moment nobody has seen yet.
					continue
				}
				if !holds(list, *before.Issuer) {
					leaf.hopeless[t.name] = true
				} else if !holds(list, *after.Issuer) && !leaf.forced {
					s.violation("issued by %s, which %s %s did not trust %s ago", short(*after.Issuer), t.name, e.path, s.now.Sub(when))
				}
			}
		}
	}
}

func holds(list []Certificate, c Certificate) bool {
	for i := range list {
		if list[i].Is(c) {
			return true
		}
	}
	return false
}

// patchTarget applies the real patch to the model, and proves that it can do nothing but set bundles.
func (s *sim) patchTarget(_ context.Context, kind, name string, body []byte) (metav1.Object, error) {
	t := s.target(kind)
	var answer metav1.Object
	if t.denied {
		s.denials++
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: kind}, name, errors.New("a policy"))
	}
	err := s.write("a patch of "+name, func() error {
		v := t.last()
		if v.object == nil {
			return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
		}
		var ops []operation
		if err := json.Unmarshal(body, &ops); err != nil {
			return err
		}
		patched := copyOf(v.object)
		foreign := map[string]bool{}
		for path := range v.foreign {
			foreign[path] = true
		}
		for _, op := range ops {
			if !s.apply(patched, op) {
				return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, name, nil)
			}
			delete(foreign, strings.TrimSuffix(op.Path, "/caBundle"))
		}
		// A write that changes nothing makes no version.
		if reflect.DeepEqual(patched, v.object) {
			answer = v.object
			return nil
		}
		s.tell("patches %s", name)
		t.patches++
		s.writes["patch "+name]++
		s.store(t, patched, foreign)
		answer = patched
		return nil
	})
	return answer, err
}

func (s *sim) target(kind string) *simTarget {
	for _, t := range s.targets {
		if t.kind == kind {
			return t
		}
	}
	return nil
}

// apply carries out one operation; it returns false if a test fails.
func (s *sim) apply(o metav1.Object, op operation) bool {
	text, _ := op.Value.(string)
	for _, e := range s.read(o).entries {
		if op.Op == "add" && op.Path == e.path+"/caBundle" {
			raw, err := json.Marshal(op.Value)
			var bundle []byte
			if err != nil || json.Unmarshal(raw, &bundle) != nil {
				s.violation("a bundle that is no text")
			}
			*bundleAt(o, e.path) = bundle
			return true
		}
		for _, test := range e.tests {
			if op.Op == "test" && test.Path == op.Path {
				return test.Value == text
			}
		}
	}
	if op.Op != "test" {
		s.violation("a patch that does %s %s", op.Op, op.Path)
	}
	return false
}

// store makes a new version of a target.
func (s *sim) store(t *simTarget, o metav1.Object, foreign map[string]bool) {
	if o != nil {
		if before := t.last().object; before == nil || before.GetUID() != o.GetUID() {
			o.SetGeneration(1)
		} else if !reflect.DeepEqual(s.read(before).entries, s.read(o).entries) {
			o.SetGeneration(before.GetGeneration() + 1)
		}
		s.stamp(o)
	}
	// Whoever lags sees what is at most this old.
	for len(t.versions) > 1 && s.now.Sub(t.versions[1].since) > time.Minute {
		t.versions = t.versions[1:]
	}
	t.versions = append(t.versions, version{s.now, o, foreign})
	s.wake(s.cacheLag)
}

// put changes a Secret as somebody else would.
func (s *sim) put(name string, change func(*corev1.Secret)) {
	if s.secrets[name] == nil {
		return
	}
	secret := s.secrets[name].DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	change(secret)
	s.stamp(secret)
	s.secrets[name] = secret
	s.changed()
}

// changed: a Secret is another, which rotators and servers see.
func (s *sim) changed() {
	s.wake(0)
	for _, w := range s.servers {
		if w.loaded == nil {
			w.reloads = s.now
		} else if w.delay >= 0 && w.reloads.IsZero() {
			w.reloads = s.now.Add(w.delay)
		}
	}
}

func (s *sim) wake(after time.Duration) {
	for _, r := range s.rotators {
		if at := s.now.Add(after); at.Before(r.next) {
			r.next = at
		}
	}
}

func (s *sim) read(o metav1.Object) reading {
	ours := Ours{Namespace: simNamespace, Service: "flotilla-webhook"}
	switch x := o.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		return ours.readHooks(x.Annotations, mutatingHooks(x))
	case *admissionv1.ValidatingWebhookConfiguration:
		return ours.readHooks(x.Annotations, validatingHooks(x))
	case *apiextensionsv1.CustomResourceDefinition:
		return ours.readCRD(x)
	}
	return reading{}
}

func bundleAt(o metav1.Object, path string) *[]byte {
	i := 0
	switch x := o.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		if _, err := fmt.Sscanf(path, "/webhooks/%d/", &i); err == nil {
			return &x.Webhooks[i].ClientConfig.CABundle
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		if _, err := fmt.Sscanf(path, "/webhooks/%d/", &i); err == nil {
			return &x.Webhooks[i].ClientConfig.CABundle
		}
	case *apiextensionsv1.CustomResourceDefinition:
		return &x.Spec.Conversion.Webhook.ClientConfig.CABundle
	}
	panic("no entry " + path)
}

func copyOf(o metav1.Object) metav1.Object {
	switch x := o.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		return x.DeepCopy()
	case *admissionv1.ValidatingWebhookConfiguration:
		return x.DeepCopy()
	case *apiextensionsv1.CustomResourceDefinition:
		return x.DeepCopy()
	}
	return nil
}

func hookConfig(service string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: simNamespace, Name: service}}
}

func (s *sim) newHooks() *admissionv1.MutatingWebhookConfiguration {
	return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mutating"}, Webhooks: []admissionv1.MutatingWebhook{
		{Name: "a", ClientConfig: hookConfig("flotilla-webhook")}, {Name: "theirs", ClientConfig: hookConfig("another")},
		{Name: "b", ClientConfig: hookConfig("flotilla-webhook")},
	}}
}

func newValidating() *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "validating"}, Webhooks: []admissionv1.ValidatingWebhook{
		{Name: "v", ClientConfig: hookConfig("flotilla-webhook")},
	}}
}

func newCRD(name string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Conversion: &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{Namespace: simNamespace, Name: "flotilla-webhook"},
			}},
		}},
	}
}
