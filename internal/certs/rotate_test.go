package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func settings() Settings {
	return Settings{
		Names:      []string{"flotilla-webhook.flotilla-system.svc", "flotilla-webhook.flotilla-system", "flotilla-webhook", "localhost", "127.0.0.1", "::1"},
		CAValidity: 5 * 365 * day, SigningPeriod: 365 * day, ServingValidity: 90 * day, RenewAfter: 30 * day,
		PropagationDelay: 30 * time.Second, RevokeOverlap: 10 * time.Minute,
	}
}

const day = 24 * time.Hour

// world is an API server with Secrets and targets, and a webhook that has loaded a pair.
type world struct {
	*testing.T
	settings Settings
	now      time.Time
	exists   bool
	data     map[string][]byte
	serving  map[string][]byte
	requests Requests
	// servingSince is since when the serving pair is this one.
	servingSince time.Time
	targets      []Target
	// loaded is what the webhook serves.
	loaded *Pair

	authorityWrites, servingWrites int
	patches                        map[string]int
}

func newWorld(t *testing.T, targets ...string) *world {
	w := &world{T: t, settings: settings(), now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), patches: map[string]int{}}
	for _, name := range targets {
		w.targets = append(w.targets, Target{Kind: "CustomResourceDefinition", Name: name, Managed: true, Bundles: [][]Certificate{nil}, TrustedSince: map[string]time.Time{}})
	}
	return w
}

func (w *world) observe() Observed {
	a, _ := DecodeAuthorities(w.data, w.now)
	s, _ := DecodeServing(w.serving)
	return Observed{SecretExists: w.exists, Authorities: a, Data: w.data, Requests: w.requests, Serving: s, Targets: w.targets, ServingSince: w.servingSince, Clocks: Clocks{w.now, w.now, w.now}}
}

// step plans once and carries the decision out; it returns whether there was anything to do.
func (w *world) step() bool {
	w.Helper()
	d, err := Plan(w.observe(), w.settings, rand.Reader)
	require.NoError(w, err)
	w.carryOut(d)
	return d.CreateSecret || d.Authorities != nil || d.Serving != nil || len(d.Patch) > 0
}

func (w *world) carryOut(d Decision) {
	w.Helper()
	var err error
	switch {
	case d.CreateSecret:
		w.exists = true
	case d.Authorities != nil:
		w.data, err = d.Authorities.Encode(w.now)
		require.NoError(w, err)
		w.authorityWrites++
	case d.Serving != nil:
		w.serving, err = d.Serving.Encode()
		require.NoError(w, err)
		w.servingWrites++
		w.servingSince = w.now
	}
	for _, i := range d.Patch {
		w.publish(i, d.Bundle)
	}
}

func (w *world) publish(i int, bundle []Certificate) {
	t := &w.targets[i]
	w.patches[t.Name]++
	for j := range t.Bundles {
		t.Bundles[j] = bundle
	}
	since := map[string]time.Time{}
	for _, c := range bundle {
		since[c.Fingerprint()] = w.now
		if at, ok := t.TrustedSince[c.Fingerprint()]; ok {
			since[c.Fingerprint()] = at
		}
	}
	t.TrustedSince = since
}

// settle carries out what is due now.
func (w *world) settle() {
	w.Helper()
	for range 50 {
		if !w.step() {
			return
		}
	}
	w.Fatal("it never comes to rest")
}

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.settle()
}

// reload is the webhook seeing its Secret.
func (w *world) reload() {
	if s, _ := DecodeServing(w.serving); s.Pair != nil {
		w.loaded = s.Pair
	}
}

// requireTrust: what the webhook serves verifies at every target.
func (w *world) requireTrust() {
	w.Helper()
	require.Empty(w, w.distrusts())
}

func (w *world) distrusts() string {
	for i := range w.targets {
		for _, bundle := range w.targets[i].Bundles {
			pool := x509.NewCertPool()
			for _, c := range bundle {
				pool.AddCert(c.Certificate)
			}
			_, err := w.loaded.Verify(x509.VerifyOptions{Roots: pool, DNSName: w.settings.Names[0], CurrentTime: w.now})
			if err != nil {
				return fmt.Sprintf("%s: %v", w.targets[i].Name, err)
			}
		}
	}
	return ""
}

func (w *world) authorities() *Authorities {
	a, problem := DecodeAuthorities(w.data, w.now)
	require.Empty(w, problem)
	return a
}

func TestScenario1And2Bootstrap(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.settle()
	w.reload()
	w.requireTrust()
	require.Equal(t, 1, w.authorityWrites)
	require.Equal(t, 1, w.servingWrites)
	for _, target := range w.targets {
		require.Len(t, target.Bundles[0], 2)
		require.Equal(t, 1, w.patches[target.Name])
	}
	alone := newWorld(t)
	alone.settle()
	require.Equal(t, 1, alone.servingWrites, "without targets too")
}

func TestScenario6And7WhatACertificateLooksLike(t *testing.T) {
	w := newWorld(t)
	w.settings.Names[0] = strings.Repeat("s", 60) + "." + strings.Repeat("n", 60) + ".svc"
	w.settle()
	s, _ := DecodeServing(w.serving)
	leaf := s.Pair
	require.Equal(t, "flotilla-webhook", leaf.Subject.CommonName)
	require.Equal(t, x509.ECDSAWithSHA256, leaf.SignatureAlgorithm)
	require.Equal(t, x509.KeyUsageDigitalSignature, leaf.KeyUsage)
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, leaf.ExtKeyUsage)
	require.Len(t, leaf.IPAddresses, 2)
	require.Len(t, leaf.DNSNames, 4)
	require.Equal(t, w.now.Add(-time.Hour), leaf.NotBefore)
	require.Equal(t, w.now.Add(90*day), leaf.NotAfter)
	a := w.authorities()
	require.NotEqual(t, a.Current.Subject.CommonName, a.Next.Subject.CommonName)
	require.True(t, a.Current.IsCA && a.Current.MaxPathLenZero)
	require.Equal(t, x509.KeyUsageCertSign, a.Current.KeyUsage)
	require.Equal(t, leaf.AuthorityKeyId, a.Current.SubjectKeyId)
	require.Len(t, a.Current.SubjectKeyId, 20)
}

func TestScenario8OtherNamesAreANewLeafOnly(t *testing.T) {
	w := newWorld(t, "a")
	w.settle()
	w.settings.Names = append(w.settings.Names, "2001:db8::7", "hooks.example.com")
	w.settle()
	require.Equal(t, []int{1, 2, 1}, []int{w.authorityWrites, w.servingWrites, w.patches["a"]})
	s, _ := DecodeServing(w.serving)
	require.Len(t, s.Pair.IPAddresses, 3)
	w.settings.Names = slices.Concat([]string{"2001:0db8:0::7"}, w.settings.Names[:6], []string{"HOOKS.example.com"})
	w.settle()
	require.Equal(t, 2, w.servingWrites, "another order and spelling mean the same")
}

func TestScenario10And11RenewalIsSpreadByTheCertificate(t *testing.T) {
	w := newWorld(t, "a")
	w.settle()
	s, _ := DecodeServing(w.serving)
	due := RenewalOf(s.Pair.Certificate, w.settings)
	require.WithinRange(t, due, w.now.Add(27*day), w.now.Add(33*day))
	w.pass(due.Sub(w.now) - time.Second)
	require.Equal(t, 1, w.servingWrites)
	w.pass(time.Second)
	require.Equal(t, []int{1, 2, 1}, []int{w.authorityWrites, w.servingWrites, w.patches["a"]})
	w.reload()
	w.requireTrust()
}

func TestScenarios12To15APromotionIsOneWriteEach(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.settle()
	w.reload()
	first := w.authorities()
	for w.now.Before(time.Date(2030, 12, 31, 0, 0, 0, 0, time.UTC)) {
		w.pass(day)
		w.reload()
		w.requireTrust()
	}
	old, _ := DecodeServing(w.serving)
	patches, servings := w.patches["a"], w.servingWrites
	w.pass(2 * day)
	second := w.authorities()
	require.True(t, second.Current.Is(first.Next.Certificate))
	require.Len(t, second.Previous, 1)
	require.True(t, second.Previous[0].Is(first.Current.Certificate))
	require.Equal(t, 2, w.authorityWrites)
	require.Equal(t, servings+1, w.servingWrites)
	require.Equal(t, patches+1, w.patches["a"])
	require.Len(t, w.targets[0].Bundles[0], 3)
	key, err := first.Current.KeyPEM()
	require.NoError(t, err)
	for name, value := range w.data {
		require.NotContains(t, string(value), string(key), name)
	}
	// A webhook that never reloads works until its certificate ends.
	w.loaded = old.Pair
	for w.now.Before(old.Pair.NotAfter.Add(-day)) {
		w.requireTrust()
		w.pass(day)
	}
	for range 370 {
		w.pass(day)
		w.reload()
		w.requireTrust()
	}
	third := w.authorities()
	require.True(t, third.Current.Is(second.Next.Certificate))
	require.Len(t, w.targets[0].Bundles[0], 3)
	require.NotContains(t, w.targets[0].TrustedSince, first.Current.Fingerprint())
	require.Equal(t, patches+2, w.patches["a"])
}

func TestScenario22ATargetThatDoesNotTrustTheSuccessorHoldsThePromotion(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.settle()
	w.reload()
	// b's patches have been refused since next was made.
	a := w.authorities()
	w.targets[1].Bundles = [][]Certificate{{a.Current.Certificate}}
	delete(w.targets[1].TrustedSince, a.Next.Fingerprint())
	w.targets[1].NotBefore = w.now.Add(100 * 365 * day)
	for range 366 {
		w.pass(day)
		w.reload()
		w.requireTrust()
	}
	require.True(t, w.authorities().Current.Is(a.Current.Certificate))
	for w.now.Before(a.Current.NotAfter.Add(-2 * day)) {
		w.pass(day)
		w.reload()
		w.requireTrust()
	}
	require.True(t, w.authorities().Current.Is(a.Current.Certificate))
	w.pass(36 * time.Hour)
	require.False(t, w.authorities().Current.Is(a.Current.Certificate), "the last moment")
}

func TestScenario23And24Requests(t *testing.T) {
	w := newWorld(t, "a")
	w.settle()
	first := w.authorities()
	w.now = w.now.Add(time.Minute)
	w.requests.PromoteAfter = w.now
	w.settle()
	require.True(t, w.authorities().Current.Is(first.Next.Certificate))
	w.pass(day)
	require.Equal(t, 2, w.authorityWrites, "the annotation stays and asks for nothing more")
	w.requests.RenewServingAfter = w.now.Add(day)
	servings := w.servingWrites
	w.pass(time.Hour)
	require.Equal(t, servings, w.servingWrites)
	w.pass(day)
	w.pass(day)
	require.Equal(t, servings+1, w.servingWrites)
}

func TestScenario25ARevocationEndsTheTrustInTwoSteps(t *testing.T) {
	w := newWorld(t, "a")
	w.settle()
	w.reload()
	old := w.authorities()
	w.pass(day)
	patches := w.patches["a"]
	w.requests.RevokeBefore = w.now
	w.settle()
	w.requireTrust()
	require.Len(t, w.targets[0].Bundles[0], 4)
	w.pass(31 * time.Second)
	w.reload()
	w.requireTrust()
	fresh := w.authorities()
	s, _ := DecodeServing(w.serving)
	require.True(t, s.isBy(fresh.Current))
	w.pass(9 * time.Minute)
	require.Len(t, w.targets[0].Bundles[0], 4, "ten minutes for what is served still")
	w.pass(2 * time.Minute)
	w.requireTrust()
	require.Len(t, w.targets[0].Bundles[0], 2)
	require.False(t, w.targets[0].holdsAny(old.Current.Certificate) || w.targets[0].holdsAny(old.Next.Certificate))
	require.Equal(t, patches+2, w.patches["a"])
	w.pass(day)
	require.Equal(t, patches+2, w.patches["a"])
}

func TestScenarios27To30RepairIsByMeaning(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.settle()
	good := w.targets[0].Bundles[0]
	other, err := NewAuthority(rand.Reader, w.now, w.now.Add(day))
	require.NoError(t, err)
	for name, bundle := range map[string][]Certificate{"wiped": nil, "one missing": good[:1], "one more": append(slices.Clone(good), other.Certificate), "another": {other.Certificate}} {
		before := w.patches["a"]
		w.targets[0].Bundles = [][]Certificate{bundle}
		w.settle()
		require.Equal(t, before+1, w.patches["a"], name)
		require.True(t, SameBundle(good, w.targets[0].Bundles[0]))
	}
	require.Equal(t, 1, w.patches["b"])
	reordered := slices.Clone(good)
	slices.Reverse(reordered)
	w.targets[0].Bundles = [][]Certificate{reordered}
	require.False(t, w.step())
}

func TestScenario40AStorageMigrationIsNotDisturbedWithoutNeed(t *testing.T) {
	w := newWorld(t, "a")
	w.settle()
	w.reload()
	w.targets[0].MigratingSince = w.now
	w.pass(time.Minute)
	w.requests.PromoteAfter = w.now
	w.settle()
	require.Equal(t, 1, w.patches["a"])
	w.reload()
	w.requireTrust()
	w.targets[0].Bundles = [][]Certificate{nil}
	w.settle()
	require.Equal(t, 2, w.patches["a"], "trust does not wait")

	stuck := newWorld(t, "a")
	stuck.settle()
	stuck.reload()
	stuck.targets[0].MigratingSince = stuck.now
	stuck.pass(time.Minute)
	stuck.requests.PromoteAfter = stuck.now
	stuck.settle()
	stuck.pass(23 * time.Hour)
	require.Equal(t, 1, stuck.patches["a"])
	stuck.pass(2 * time.Hour)
	require.Equal(t, 2, stuck.patches["a"], "nor for a migration that does not end in a day")
}

func TestScenarios42To49SpoiledSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*world)
		// Writes after it: of authorities, of serving pairs, per target.
		writes []int
	}{
		"42 no serving Secret":        {func(w *world) { w.serving = nil }, []int{0, 1, 0}},
		"43 garbage in tls.crt":       {func(w *world) { w.serving[KeyServingCert] = []byte("garbage") }, []int{0, 1, 0}},
		"43 the key of another":       {func(w *world) { w.serving[KeyServingKey] = w.data[KeyNextKey] }, []int{0, 1, 0}},
		"45 no authorities":           {func(w *world) { w.data, w.exists = nil, false }, []int{1, 1, 1}},
		"46 the signer's key is lost": {func(w *world) { delete(w.data, KeyCurrentKey) }, []int{1, 1, 1}},
		"47 garbage for a successor":  {func(w *world) { w.data[KeyNextCert] = []byte("garbage") }, []int{1, 0, 1}},
		"48 no state":                 {func(w *world) { delete(w.data, KeyState) }, []int{1, 0, 0}},
		"garbage in the bundle":       {func(w *world) { w.data[KeyBundle] = []byte("garbage") }, []int{1, 0, 0}},
		"a key that is not ours":      {func(w *world) { w.data["mine"] = []byte("x") }, []int{0, 0, 0}},
		"49 nothing but garbage": {func(w *world) {
			for k := range w.data {
				w.data[k] = []byte("garbage")
			}
			for k := range w.serving {
				w.serving[k] = []byte("garbage")
			}
		}, []int{1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			w.settle()
			w.reload()
			w.pass(day)
			c.spoil(w)
			for range 100 {
				if w.step(); !strings.HasPrefix(name, "49") {
					w.requireTrust()
				}
				w.now = w.now.Add(time.Second)
			}
			w.reload()
			w.requireTrust()
			require.Equal(t, c.writes, []int{w.authorityWrites - 1, w.servingWrites - 1, w.patches["a"] - 1})
		})
	}
}

func TestScenarios53To55Expiry(t *testing.T) {
	t.Run("53 the signer has expired, its successor has not", func(t *testing.T) {
		w := newWorld(t, "a")
		w.settle()
		mixed := w.authorities()
		var err error
		mixed.Current, err = NewAuthority(rand.Reader, w.now, w.now.Add(125*day))
		require.NoError(t, err)
		w.data, err = mixed.Encode(w.now)
		require.NoError(t, err)
		w.settle()
		w.now = w.now.Add(200 * day)
		w.targets[0].NotBefore = w.now.Add(time.Hour) // it cannot be patched just now
		w.settle()
		w.reload()
		w.requireTrust()
	})
	t.Run("54 everything has expired", func(t *testing.T) {
		w := newWorld(t, "a")
		w.settle()
		w.pass(10 * 365 * day)
		w.reload()
		w.requireTrust()
	})
	t.Run("55 the rotator was off for a hundred days", func(t *testing.T) {
		w := newWorld(t, "a")
		w.settle()
		w.pass(100 * day)
		w.reload()
		w.requireTrust()
		require.Equal(t, []int{1, 2, 1}, []int{w.authorityWrites, w.servingWrites, w.patches["a"]})
	})
}

func TestScenario57AClockThatIsFarOffMovesNothingByAge(t *testing.T) {
	w := newWorld(t, "a")
	w.settle()
	o := w.observe()
	o.Now = w.now.Add(366 * day)
	// The pair in service has expired by that clock; a new one harms nobody. Promotions wait.
	d, err := Plan(o, w.settings, rand.Reader)
	require.NoError(t, err)
	require.Nil(t, d.Authorities)
}

func TestScenario68SettingsThatDoNotGoTogetherAreRefused(t *testing.T) {
	require.NoError(t, settings().Check())
	for flag, spoil := range map[string]func(*Settings){
		"serving-renew-after": func(s *Settings) { s.RenewAfter = 80 * day },
		"ca-signing-period":   func(s *Settings) { s.SigningPeriod = 91 * day },
		"ca-validity":         func(s *Settings) { s.CAValidity = 3 * 365 * day },
		"serving-validity":    func(s *Settings) { s.ServingValidity = time.Second },
		"propagation-delay":   func(s *Settings) { s.PropagationDelay = -1 },
		"revoke-overlap":      func(s *Settings) { s.RevokeOverlap = -1 },
	} {
		s := settings()
		spoil(&s)
		require.ErrorContains(t, s.Check(), "--"+flag)
	}
	fast := Settings{CAValidity: time.Hour, SigningPeriod: 12 * time.Minute, ServingValidity: 10 * time.Minute, RenewAfter: 3 * time.Minute}
	require.NoError(t, fast.Check())
}

func TestAnIdleWorldIsLeftAlone(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.settle()
	d, err := Plan(w.observe(), w.settings, rand.Reader)
	require.NoError(t, err)
	require.Equal(t, Decision{Bundle: d.Bundle, LookAgain: d.LookAgain}, d)
	require.False(t, d.LookAgain.IsZero())
}

// Two revocations and the loss of the signer at once leave no room for all: the one that has not reached all servers stays.
func TestRoomIsMadeWhereNothingWasSigned(t *testing.T) {
	w := newWorld(t, "a")
	w.settle()
	w.reload()
	w.now = w.now.Add(31 * time.Second)
	w.requests.PromoteAfter = w.now
	w.settle()
	for range 2 {
		w.now = w.now.Add(time.Second)
		w.requests.RevokeBefore = w.now
		w.settle()
	}
	delete(w.data, KeyCurrentKey)
	w.settle()
	require.Len(t, w.targets[0].Bundles[0], maxBundle)
	w.requireTrust()
}

// A serving pair whose issuer no target is seen to trust may not be loaded yet: what is loaded still works, and goes on to
// until the targets were given their chance.
func TestASuccessorIsNotUsedBeforeTheTargetsAreSeenToTrustIt(t *testing.T) {
	w := newWorld(t, "a")
	w.settle()
	w.now = w.now.Add(time.Minute)
	behind := slices.Clone(w.targets)
	issuer := w.authorities().Current.Certificate
	delete(w.data, KeyCurrentKey)
	require.True(t, w.step())
	require.False(t, w.authorities().Current.Is(issuer))
	behind[0].Bundles, behind[0].TrustedSince = [][]Certificate{nil}, map[string]time.Time{}
	w.targets = behind
	d, err := Plan(w.observe(), w.settings, rand.Reader)
	require.NoError(t, err)
	require.Nil(t, d.Serving)
	require.Equal(t, []int{0}, d.Patch)
	w.now = w.now.Add(bootstrapWait)
	d, err = Plan(w.observe(), w.settings, rand.Reader)
	require.NoError(t, err)
	require.NotNil(t, d.Serving, "nobody is waited for for ever")
}

// someonesAuthority is one that an administrator has put into the Secret.
func someonesAuthority(t *testing.T, key crypto.Signer, usage x509.KeyUsage, begins time.Time) (certificate, private []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(77), Subject: pkix.Name{CommonName: "corp"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: usage,
		NotBefore: begins, NotAfter: begins.Add(5 * 365 * day),
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Whatever an administrator makes the signer: it signs, or the successor takes its place, and soon nothing is written any more.
func TestAnAuthorityOfSomeoneElse(t *testing.T) {
	ours, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	theirs, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		key    crypto.Signer
		usage  x509.KeyUsage
		begins time.Duration
	}{
		"RSA":                    {theirs, x509.KeyUsageCertSign, -time.Hour},
		"for no purpose":         {ours, 0, -time.Hour},
		"that may not sign":      {ours, x509.KeyUsageDigitalSignature, -time.Hour},
		"that begins next month": {ours, x509.KeyUsageCertSign, 30 * day},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			w.settle()
			w.pass(time.Minute)
			w.data[KeyCurrentCert], w.data[KeyCurrentKey] = someonesAuthority(t, c.key, c.usage, w.now.Add(c.begins))
			for range 10 {
				w.settle()
				w.pass(time.Minute)
			}
			before := w.servingWrites + w.authorityWrites
			w.settle()
			w.pass(time.Minute)
			require.Equal(t, before, w.servingWrites+w.authorityWrites)
			s, _ := DecodeServing(w.serving)
			pool := x509.NewCertPool()
			for _, trusted := range w.targets[0].Bundles[0] {
				pool.AddCert(trusted.Certificate)
			}
			_, err = s.Pair.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: w.now, DNSName: "flotilla-webhook.flotilla-system.svc"})
			require.NoError(t, err)
		})
	}
}

func TestRequestsAreCarriedOutOnceHoweverFarClocksAreApart(t *testing.T) {
	for _, apart := range []time.Duration{0, -23 * time.Hour, -25 * time.Hour, -400 * day, 25 * time.Hour} {
		for name, ask := range map[string]func(*Requests, time.Time){
			"renew": func(r *Requests, at time.Time) { r.RenewServingAfter = at }, "revoke": func(r *Requests, at time.Time) { r.RevokeBefore = at },
		} {
			t.Run(fmt.Sprint(name, apart), func(t *testing.T) {
				w := newWorld(t, "a")
				w.settle()
				w.pass(time.Minute)
				w.now = w.now.Add(time.Hour)
				ask(&w.requests, w.now)
				writes := 0
				for range 40 {
					o := w.observe()
					o.Local = w.now.Add(apart)
					d, err := Plan(o, w.settings, rand.Reader)
					require.NoError(t, err)
					if d.Authorities != nil || d.Serving != nil {
						writes++
					}
					w.carryOut(d)
					w.now = w.now.Add(time.Minute)
				}
				require.Positive(t, writes)
				require.LessOrEqual(t, writes, 4, "the last write of each is not repeated")
			})
		}
	}
}

func TestASecretThatCannotBeWrittenStopsNoRenewal(t *testing.T) {
	w := newWorld(t, "a")
	w.settle()
	w.pass(time.Minute)
	w.requests.PromoteAfter = w.now
	w.targets[0].Bundles = [][]Certificate{nil}
	w.now = w.now.Add(60 * day)
	o := w.observe()
	o.Immutable = true
	d, err := Plan(o, w.settings, rand.Reader)
	require.NoError(t, err)
	require.NotEmpty(t, d.Obstructed)
	require.Nil(t, d.Authorities)
	require.NotNil(t, d.Serving)
	require.Equal(t, []int{0}, d.Patch)
}
