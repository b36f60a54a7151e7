package certs

import (
	"context"
	"flag"
	mathrand "math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

var (
	seeds = flag.Int("seeds", 10000, "how many random histories are simulated")
	only  = flag.Uint64("seed", 0, "simulate the history of this seed alone, and tell it")
)

// TestScenario070_NoRandomHistoryFailsACall simulates histories of two rotators, three webhook-servers and two API servers,
// with everything that may happen to them. A seed that fails is printed with its story; -seed runs it alone.
func TestScenario070_NoRandomHistoryFailsACall(t *testing.T) {
	if *only != 0 {
		s := runSim(*only, true)
		t.Logf("seed %d:\n%s", *only, strings.Join(s.told, "\n"))
		if s.broken != nil {
			t.Fatal(s.broken)
		}
		return
	}
	n := *seeds
	if testing.Short() {
		n = min(n, 300)
	}
	first := uint64(mathrand.Uint32())<<8 + 1
	t.Logf("seeds %d to %d", first, first+uint64(n)-1)
	// Nothing of a history outlives it.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	var next atomic.Int64
	var mu sync.Mutex
	var failed []uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if seed := first + uint64(i); runSim(seed, false).broken != nil {
					mu.Lock()
					failed = append(failed, seed)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if len(failed) == 0 {
		return
	}
	slices.Sort(failed)
	s := runSim(failed[0], true)
	t.Fatalf("%d of %d seeds failed: %v\nseed %d: %v\n%s", len(failed), n, failed[:min(20, len(failed))], s.seed, s.broken, strings.Join(s.told, "\n"))
}

// runSim runs one history to its end, or until something is wrong.
func runSim(seed uint64, tells bool) *sim {
	s := newSim(seed, tells)
	s.allow(map[string]int{"create " + simCA: 1, "create " + simTLS: 1, "write " + simCA: 1, "write " + simTLS: 1}, 1)
	s.run(time.Minute)
	s.rest()
	s.chance = []int{0, 30, 100}[s.random.IntN(3)]
	for i := 0; i < 6 && s.broken == nil; i++ {
		s.happen()
		s.run(s.pause())
	}
	s.calm()
	return s
}

// pause is how long nothing else happens.
func (s *sim) pause() time.Duration {
	switch n := s.random.IntN(100); {
	case n < 10:
		return s.upTo(time.Second)
	case n < 40:
		return s.upTo(time.Minute)
	case n < 60:
		return s.upTo(time.Hour)
	case n < 75:
		return s.upTo(3 * day)
	case n < 94:
		return s.upTo(60 * day)
	case n < 99:
		return s.upTo(400 * day)
	default:
		return s.upTo(6 * 365 * day)
	}
}

// allow raises what may be written, patches per target.
func (s *sim) allow(writes map[string]int, patches int) {
	for what, n := range writes {
		s.allowed[what] += n
	}
	for _, t := range s.targets {
		s.allowed["patch "+t.name] += patches
	}
}

// run lets time pass, with all that is due in it.
func (s *sim) run(d time.Duration) {
	end := s.now.Add(d)
	s.end = end
	s.tell("%s pass", d)
	for steps := 0; s.broken == nil; steps++ {
		if steps > 3000 {
			s.violation("it never comes to rest")
			return
		}
		at, do := end, func() {}
		due := func(when time.Time, what func()) {
			if when = later(when, s.now); when.Before(at) {
				at, do = when, what
			}
		}
		for _, w := range s.servers {
			if !w.reloads.IsZero() {
				due(w.reloads, func() { s.reload(w) })
			}
		}
		for _, t := range s.targets {
			if seen := t.last().since.Add(s.apiLag); seen.After(s.now) {
				due(seen, func() {})
			}
		}
		for _, r := range s.rotators {
			if !r.off {
				due(r.next, func() { s.pass(r) })
			}
		}
		s.now = at
		do()
		s.check()
		if !at.Before(end) {
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// pass is one pass of a rotator, which may end with its process.
func (s *sim) pass(r *simRotator) {
	s.acting = r
	if r.Rotator == nil {
		s.boot(r)
	}
	defer func() {
		if e := recover(); e != nil {
			if _, ok := e.(killed); !ok {
				panic(e)
			}
			r.Rotator = nil
			r.next = s.now.Add(s.upTo(30 * time.Second))
		}
	}()
	r.clock.SetTime(s.now.Add(s.localAhead))
	r.next = s.now.Add(200 * 365 * day)
	before := s.total()
	s.denials, s.passes = 0, s.passes+1
	wait, err := r.sync(context.Background(), cache.ObjectName{})
	if err != nil {
		wait = time.Second
	}
	if err == nil && s.denials > 0 && s.total() == before {
		// Asking again every minute for weeks shows nothing new.
		wait = later(s.now.Add(wait), s.now.Add(s.patience())).Sub(s.now)
	}
	for _, t := range s.targets {
		// What it has not seen yet wakes it when it does.
		if seen := t.last().since.Add(s.cacheLag); seen.After(s.now) && seen.Before(r.next) {
			r.next = seen
		}
	}
	if at := s.now.Add(max(wait, time.Millisecond)); at.Before(r.next) {
		r.next = at
	}
}

// patience is how long nothing is asked for that is refused again and again. There is none while a certificate is due: that is
// not asked of those who refuse.
func (s *sim) patience() time.Duration {
	secret := s.secrets[simTLS]
	if secret == nil || s.serving(secret).Pair == nil {
		return 0
	}
	left := s.serving(secret).Pair.NotAfter.Add(-lastChance).Sub(s.apiTime())
	if left <= 0 {
		return 0
	}
	return min(s.upTo(6*time.Hour+min(10*day, max(0, s.end.Sub(s.now)/2))), max(time.Hour, left))
}

// serving reads the serving Secret.
func (s *sim) serving(secret *corev1.Secret) *Serving {
	got := s.served[secret.ResourceVersion]
	if got == nil {
		got, _ = DecodeServing(secret.Data)
		s.served[secret.ResourceVersion] = got
	}
	return got
}

// reload is a webhook-server that looks at its Secret; it takes what it can use.
func (s *sim) reload(w *simServer) {
	w.reloads = time.Time{}
	secret := s.secrets[simTLS]
	if secret == nil {
		return
	}
	got := s.serving(secret)
	if got.Pair == nil {
		return
	}
	if w.loaded != nil && w.loaded.Is(got.Pair.Certificate) {
		w.dozed = false
		return
	}
	node := s.now.Add(s.nodeAhead)
	if node.Before(got.Pair.NotBefore.Add(-time.Hour)) || !node.Before(got.Pair.NotAfter) || len(got.Pair.DNSNames) == 0 {
		return
	}
	if len(secret.Data[KeyIssuer]) > 0 && (got.Issuer == nil || !isNamed(got.Pair, *got.Issuer)) {
		return
	}
	if s.issued[got.Pair.SerialNumber.String()] == nil {
		// A pair that somebody else put there, and that its ca.crt vouches for: what follows is theirs.
		return
	}
	s.tell("a webhook-server loads %s", got.Pair.SerialNumber.Text(36)[:4])
	w.loaded, w.lost, w.dozed = got.Pair, false, false
}

// isNamed says whether a certificate names its issuer. Nobody forges here, and signatures take long to check.
func isNamed(leaf *Pair, issuer Certificate) bool {
	return string(leaf.AuthorityKeyId) == string(issuer.SubjectKeyId)
}

// check is a client that opens a connection to every server through every API server.
func (s *sim) check() {
	for n, w := range s.servers {
		if w.loaded == nil || w.lost {
			continue
		}
		for _, lag := range []time.Duration{0, s.apiLag} {
			for _, t := range s.targets {
				s.call(n, w, t, t.at(s.now.Add(-lag)), lag)
			}
		}
	}
}

func (s *sim) call(n int, w *simServer, t *simTarget, v *version, lag time.Duration) {
	if v.object == nil {
		return
	}
	for _, e := range s.read(v.object).entries {
		if v.foreign[e.path] || s.trusts(e.bundle, w.loaded) || s.isUnavoidable(w, t) {
			continue
		}
		s.violation("calls through %s %s fail: webhook-server %d serves %s by %x, seen %s late", t.name, e.path, n,
			w.loaded.SerialNumber.Text(36)[:4], w.loaded.AuthorityKeyId[:2], lag)
	}
}

func (s *sim) parse(bundle []byte) []Certificate {
	list, ok := s.parsed[string(bundle)]
	if !ok {
		list = parseWhatCan(bundle)
		s.parsed[string(bundle)] = list
	}
	return list
}

// trusts says whether a connection is made.
func (s *sim) trusts(bundle []byte, leaf *Pair) bool {
	now := s.apiTime()
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return false
	}
	for _, c := range s.parse(bundle) {
		if isNamed(leaf, c) && c.isTrustworthy(now) {
			return true
		}
	}
	return false
}

// isUnavoidable says whether a call that fails is one that has to.
func (s *sim) isUnavoidable(w *simServer, t *simTarget) bool {
	leaf := s.issued[w.loaded.SerialNumber.String()]
	switch {
	case s.apiTime().After(w.loaded.NotAfter):
		// It never reloads, or no rotator was there to renew it in time.
		return w.delay < 0 || w.dozed || s.now.Before(s.caughtUp)
	case (w.delay < 0 || w.dozed) && s.isRevoked(w.loaded):
		return true
	case leaf.forced || leaf.hopeless[t.name]:
		// As long as nobody may patch the target, or nobody is there who could.
		return t.denied || s.now.Sub(t.allowed) < 90*time.Second || s.now.Before(s.caughtUp) || leaf.forced && s.now.Sub(leaf.at) < 2*time.Minute
	}
	return false
}

func (s *sim) isRevoked(leaf *Pair) bool {
	for _, list := range s.parsed {
		for _, c := range list {
			if isNamed(leaf, c) && s.revoked[c.Fingerprint()] {
				return true
			}
		}
	}
	return false
}

// rest checks that nothing is left to do and everything is as it should be.
func (s *sim) rest() {
	if s.broken != nil {
		return
	}
	a, problem := DecodeAuthorities(s.secrets[simCA].Data, s.apiTime())
	serving, other := DecodeServing(s.secrets[simTLS].Data)
	if problem+other != "" {
		s.violation("the Secrets are left spoiled: %s %s", problem, other)
		return
	}
	if !serving.isBy(a.Current) || s.apiTime().After(serving.Pair.NotAfter) {
		s.violation("the serving pair is not by the signer")
	}
	bundle := a.Bundle(s.apiTime())
	for _, t := range s.targets {
		if t.last().object == nil {
			continue
		}
		for _, e := range s.read(t.last().object).entries {
			if !SameBundle(s.parse(e.bundle), bundle) {
				s.violation("%s %s is left without the bundle", t.name, e.path)
			}
		}
	}
	// What renewals and rotations cost by age.
	renewals, rotations := int(s.now.Sub(s.start)/(26*day)), int(s.now.Sub(s.start)/(360*day))
	byAge := map[string]int{"write " + simTLS: renewals + rotations, "write " + simCA: rotations}
	for _, t := range s.targets {
		byAge["patch "+t.name] = rotations
	}
	for what, n := range s.writes {
		if n > s.allowed[what]+byAge[what] {
			s.violation("%q %d times, where %d suffice", what, n, s.allowed[what]+byAge[what])
		}
	}
}

// calm ends all that disturbs, and gives what is left to do its time.
func (s *sim) calm() {
	if s.broken != nil {
		return
	}
	s.tell("calm")
	s.chance = 0
	for _, t := range s.targets {
		if t.denied {
			t.denied, t.allowed = false, s.now
		}
		if crd, ok := t.last().object.(*apiextensionsv1.CustomResourceDefinition); ok && len(crd.Status.Conditions) > 0 {
			s.change(t, nil, func(o metav1.Object) { o.(*apiextensionsv1.CustomResourceDefinition).Status.Conditions = nil })
		}
	}
	s.put(simCA, func(c *corev1.Secret) { c.Annotations = nil })
	s.rotators[0].off = false
	s.caughtUp = later(s.now.Add(3*time.Minute), earlier(s.caughtUp, s.now))
	s.wake(0)
	s.run(20 * time.Minute)
	s.rest()
	// From here on nothing is written but by age.
	before := s.total()
	s.wake(0)
	s.run(time.Second)
	if after := s.total(); after != before && s.broken == nil {
		s.violation("%d writes at rest", after-before)
	}
}

func (s *sim) total() (n int) {
	for _, w := range s.writes {
		n += w
	}
	return n
}

// change makes a new version of a target as somebody else would; it sets the entries of the paths.
func (s *sim) change(t *simTarget, paths []string, do func(metav1.Object)) {
	v := t.last()
	changed := copyOf(v.object)
	foreign := map[string]bool{}
	for path := range v.foreign {
		foreign[path] = true
	}
	for _, path := range paths {
		foreign[path] = true
	}
	do(changed)
	s.store(t, changed, foreign)
}

// spoil changes the authorities' Secret or the serving pair's; whose issuers nobody knows any more is told apart.
func (s *sim) spoil(what, name string, do func(*corev1.Secret)) {
	s.tell("%s", what)
	if do == nil {
		delete(s.secrets, name)
		s.changed()
	} else {
		s.put(name, do)
	}
	s.findLost()
}
