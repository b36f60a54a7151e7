package certs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// scene is a simulated cluster in which one scenario is played. A call that fails without need fails the test at its end.
type scene struct {
	*testing.T
	*sim
	hooks, validating, crd *simTarget
	// alsoAsked are CRDs that queries are asked about, and that are not there.
	alsoAsked []string
}

func newScene(t *testing.T) *scene {
	s := newSim(1, true)
	s.apiAhead, s.localAhead, s.nodeAhead = 0, 0, 0
	s.cacheLag, s.apiLag = 10*time.Millisecond, 20*time.Second
	for i, w := range s.servers {
		w.delay = []time.Duration{0, 45 * time.Second, 90 * time.Second}[i]
	}
	t.Cleanup(func() {
		if s.broken != nil {
			t.Error(s.broken)
		}
		if t.Failed() {
			t.Log("\n" + strings.Join(s.told, "\n"))
		}
	})
	return &scene{T: t, sim: s, hooks: s.targets[0], validating: s.targets[1], crd: s.targets[2]}
}

// published is a scene in which everything has been done.
func published(t *testing.T) *scene {
	s := newScene(t)
	s.run(3 * time.Minute)
	return s
}

func (s *scene) authorities() *Authorities {
	a, problem := DecodeAuthorities(s.secrets[simCA].Data, s.apiTime())
	require.Empty(s, problem)
	return a
}

func (s *scene) pair() *Serving {
	got, problem := DecodeServing(s.secrets[simTLS].Data)
	require.Empty(s, problem)
	return got
}

// bundle is what the first entry of a target that is ours holds.
func (s *scene) bundle(t *simTarget) []Certificate {
	entries := s.sim.read(t.last().object).entries
	require.NotEmpty(s, entries)
	return s.parse(entries[0].bundle)
}

// wipe resets the bundle of the first entry.
func (s *scene) wipe(t *simTarget, value string) {
	path := s.sim.read(t.last().object).entries[0].path
	s.change(t, []string{path}, func(o metav1.Object) { *bundleAt(o, path) = []byte(value) })
}

// since counts the writes that happen in do.
func (s *scene) since(do func()) map[string]int {
	before := map[string]int{}
	for what, n := range s.writes {
		before[what] = n
	}
	do()
	changed := map[string]int{}
	for what, n := range s.writes {
		if n != before[what] {
			changed[what] = n - before[what]
		}
	}
	return changed
}

func (s *scene) ask(key string, at time.Time) {
	s.put(simCA, func(c *corev1.Secret) { c.Annotations = map[string]string{key: at.Format(time.RFC3339)} })
}

// rotated are the writes of one rotation.
func rotated(times int) map[string]int {
	return map[string]int{
		"write " + simCA: 1, "write " + simTLS: 1, "patch mutating": times, "patch validating": times, "patch clonesets": times,
	}
}

func TestScenario003_AMissingConfigurationHoldsUpNothing(t *testing.T) {
	s := newScene(t)
	s.store(s.validating, nil, nil)
	s.run(time.Minute)
	require.Len(t, s.bundle(s.hooks), 2)
	require.Len(t, s.bundle(s.crd), 2)
	require.NotNil(t, s.pair().Pair)
	s.replace(s.validating)
	s.run(time.Second)
	require.Len(t, s.bundle(s.validating), 2)
}

func TestScenario005_EveryLeafIsTrustedByEveryBundleHoweverTwoRotatorsBegin(t *testing.T) {
	for seed := range uint64(20) {
		s := newSim(seed+1, false)
		s.rotators[1].off = false
		s.chance = 100
		s.run(2 * time.Minute)
		s.chance = 0
		s.run(2 * time.Minute)
		require.NoError(t, s.broken, "seed %d", seed+1)
		a, _ := DecodeAuthorities(s.secrets[simCA].Data, s.apiTime())
		for _, w := range s.servers {
			require.True(t, isNamed(w.loaded, a.Current.Certificate), "seed %d", seed+1)
		}
		require.Equal(t, 1, s.writes["write "+simCA], "seed %d: one generation", seed+1)
	}
}

func TestScenario012And016_ARotationIsOneWriteEachAndWaitsForNobody(t *testing.T) {
	s := published(t)
	s.run(364 * day)
	before := s.authorities()
	require.Equal(t, rotated(1), s.since(func() { s.run(2 * day) }))
	require.True(t, s.authorities().Current.Is(before.Next.Certificate))
	require.Len(t, s.bundle(s.crd), 3)
	require.NotEmpty(t, s.events[EventAuthorityPromoted])
}

func TestScenario015_AServerThatNeverReloadsWorksUntilItsCertificateEnds(t *testing.T) {
	s := published(t)
	s.run(360 * day)
	s.servers[0].delay = -1
	leaf := s.servers[0].loaded
	s.run(leaf.NotAfter.Sub(s.apiTime()) - time.Minute)
	require.True(t, s.servers[0].loaded.Is(leaf.Certificate))
	require.True(t, s.authorities().Previous[0].Is(*s.issuerOf(leaf)), "its issuer does not sign any more")
}

func (s *scene) issuerOf(leaf *Pair) *Certificate {
	for _, r := range s.authorities().Previous {
		if isNamed(leaf, r.Certificate) {
			return &r.Certificate
		}
	}
	require.Fail(s, "its issuer is unknown")
	return nil
}

func TestScenario018_ForcedPromotionsFailNoCallAndKeepWhatIsInUse(t *testing.T) {
	s := published(t)
	first := s.authorities().Current
	for range 5 {
		s.ask(AnnotationPromoteAfter, s.apiTime().Add(time.Second))
		s.run(5 * time.Minute)
	}
	// The sixth certificate has no room until the first cannot be in use any more.
	require.Len(t, s.bundle(s.hooks), maxBundle-1)
	require.True(t, s.authorities().Previous[2].Is(first.Certificate))
	s.run(92 * day)
	require.NotContains(t, s.authorities().Previous, first.Certificate)
}

func TestScenario021_ADeniedTargetHoldsUpNeitherPromotionNorOthers(t *testing.T) {
	s := published(t)
	s.crd.denied = true
	before := s.authorities()
	s.run(366 * day)
	require.True(t, s.authorities().Current.Is(before.Next.Certificate))
	require.True(t, s.pair().isBy(s.authorities().Current))
	require.NotEmpty(t, s.events[EventPublishFailed])
	require.Len(t, s.bundle(s.hooks), 3)
	require.Len(t, s.bundle(s.crd), 2)
	s.crd.denied, s.crd.allowed = false, s.now
	s.wake(time.Minute)
	s.run(time.Minute + time.Second)
	require.Len(t, s.bundle(s.crd), 3)
}

func TestScenario026_AMachineThatSleptCatchesUpWithinAMinute(t *testing.T) {
	s := published(t)
	s.run(day)
	before := s.pair()
	r := s.rotators[0]
	asleep := s.now
	steady := r.steady
	// The clock that nobody sets does not tick while it sleeps.
	r.steady = func() time.Time { return steady().Add(-40 * day) }
	s.now = asleep.Add(40 * day)
	r.next = s.now.Add(lookEvery)
	s.run(lookEvery + time.Second)
	require.False(t, s.pair().Pair.Is(before.Pair.Certificate))
}

func TestScenario027To029_ResetsAreRepairedByOnePatch(t *testing.T) {
	foreign := newSim(2, false).foreignAuthority()
	for name, value := range map[string]string{
		"removed": "", "a newline": "\n", "garbage": "garbage", "another authority": string(foreign.PEM()),
	} {
		s := published(t)
		require.Equal(t, map[string]int{"patch mutating": 1}, s.since(func() {
			s.wipe(s.hooks, value)
			s.run(100 * time.Millisecond)
		}), name)
		require.Len(t, s.bundle(s.hooks), 2, name)
		require.Len(t, s.events[EventCABundleRepaired], 1, name)
	}
}

// A patch that is refused is tried again after a second, not when something else is due.
func TestARefusedPatchIsTriedAgainSoon(t *testing.T) {
	s := published(t)
	s.hooks.denied = true
	s.wipe(s.hooks, "")
	s.now = s.now.Add(100 * time.Millisecond)
	s.acting = s.rotators[0]
	wait, err := s.rotators[0].sync(t.Context(), cache.ObjectName{})
	require.NoError(t, err)
	require.Len(t, s.events[EventPublishFailed], 1)
	require.LessOrEqual(t, wait, firstPatchRetry)
}

func TestScenario034And036_OtherPeoplesHooksAreTheirs(t *testing.T) {
	s := published(t)
	s.change(s.hooks, []string{"/webhooks/3/clientConfig"}, func(o metav1.Object) {
		c := o.(*admissionv1.MutatingWebhookConfiguration)
		c.Webhooks = append(c.Webhooks, admissionv1.MutatingWebhook{Name: "more", ClientConfig: hookConfig("flotilla-webhook")})
	})
	s.run(100 * time.Millisecond)
	hooks := s.hooks.last().object.(*admissionv1.MutatingWebhookConfiguration).Webhooks
	require.NotEmpty(t, hooks[3].ClientConfig.CABundle)
	require.Empty(t, hooks[1].ClientConfig.CABundle, "theirs")
	require.Empty(t, s.since(func() {
		s.change(s.hooks, nil, func(o metav1.Object) {
			c := o.(*admissionv1.MutatingWebhookConfiguration)
			c.Webhooks = c.Webhooks[:2]
		})
		s.run(time.Hour)
	}), "a hook that is dropped stays dropped")
}

func TestScenario035_OtherFieldsAreNotReverted(t *testing.T) {
	s := published(t)
	require.Empty(t, s.since(func() {
		s.change(s.validating, nil, func(o metav1.Object) {
			ignore := admissionv1.Ignore
			o.(*admissionv1.ValidatingWebhookConfiguration).Webhooks[0].FailurePolicy = &ignore
		})
		s.run(time.Hour)
	}))
}

func TestScenario037_ACRDThatIsContestedIsRepairedMoreSlowly(t *testing.T) {
	s := published(t)
	begin := s.now
	var repairs []time.Duration
	for s.now.Before(begin.Add(10 * time.Minute)) {
		s.wipe(s.crd, "")
		s.crd.last().object.SetManagedFields([]metav1.ManagedFieldsEntry{
			{Manager: "kubectl", Time: &metav1.Time{Time: begin.Add(time.Hour)}},
			{Manager: "gitops", Time: &metav1.Time{Time: begin}, FieldsV1: metav1.NewFieldsV1(`{"f:caBundle":{}}`)},
		})
		n := s.crd.patches
		end := s.now.Add(5 * time.Second)
		for s.now.Before(end) {
			s.run(100 * time.Millisecond)
			if s.crd.patches > n {
				n = s.crd.patches
				repairs = append(repairs, s.now.Sub(begin).Round(time.Second))
			}
		}
	}
	require.Equal(t, []time.Duration{0, 5 * time.Second, 10 * time.Second, 20 * time.Second, 50 * time.Second, 110 * time.Second, 170 * time.Second}, repairs[:7])
	require.Len(t, repairs, 14, "then once a minute")
	require.Contains(t, s.events[EventCABundleContested][0], `"gitops"`)
	contested := func() bool {
		return s.rotators[0].memory[KindCRD+"/clonesets"].contest.isContested(s.rotators[0].steady())
	}
	require.True(t, contested())
	s.run(29 * time.Minute)
	require.True(t, contested())
	s.run(3 * time.Minute)
	require.False(t, contested())
}

func TestScenario038_AConfigurationThatIsContestedIsRepairedEveryTime(t *testing.T) {
	s := published(t)
	for range 120 {
		s.wipe(s.hooks, "")
		s.run(time.Second)
		require.Len(t, s.bundle(s.hooks), 2)
		s.run(4 * time.Second)
	}
}

func TestScenario039And041_WhatIsNotOursIsLeftAlone(t *testing.T) {
	s := published(t)
	s.change(s.validating, nil, func(o metav1.Object) { o.SetAnnotations(map[string]string{"cert-manager.io/inject-ca-from": "x"}) })
	s.change(s.crd, nil, func(o metav1.Object) {
		*o.(*apiextensionsv1.CustomResourceDefinition).Spec.Conversion = apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	})
	require.Empty(t, s.since(func() { s.run(time.Hour) }))
	require.Len(t, s.events[EventExternallyManaged], 1)
	require.Len(t, s.events[EventTargetForeign], 2, "the conversion, and a hook that was there from the beginning")
	s.change(s.hooks, nil, func(o metav1.Object) {
		c := o.(*admissionv1.MutatingWebhookConfiguration)
		c.Webhooks = append(c.Webhooks, admissionv1.MutatingWebhook{Name: "stranger", ClientConfig: hookConfig("third")})
	})
	require.Empty(t, s.since(func() { s.run(time.Hour) }))
	require.Len(t, s.events[EventTargetForeign], 3)
	require.Contains(t, s.events[EventTargetForeign][2], "stranger calls Service flotilla-system/third")
	s.change(s.crd, []string{"/spec/conversion/webhook/clientConfig"}, func(o metav1.Object) {
		*o.(*apiextensionsv1.CustomResourceDefinition).Spec.Conversion = *newCRD("x").Spec.Conversion
	})
	s.run(100 * time.Millisecond)
	require.Len(t, s.bundle(s.crd), 2)
}

func TestScenario044_AForeignPairIsOverwritten(t *testing.T) {
	s := published(t)
	other := s.foreignAuthority()
	pair, err := Issue(s.bytes, other, []string{"flotilla-webhook.flotilla-system.svc"}, s.now, s.now.Add(day))
	require.NoError(t, err)
	data, err := (&Serving{pair, &other.Certificate}).Encode()
	require.NoError(t, err)
	require.Equal(t, map[string]int{"write " + simTLS: 1}, s.since(func() {
		s.put(simTLS, func(c *corev1.Secret) {
			c.Data[KeyServingCert], c.Data[KeyServingKey] = data[KeyServingCert], data[KeyServingKey]
		})
		s.run(time.Second)
	}))
	require.True(t, s.pair().isBy(s.authorities().Current))
}

func TestTheIssuerBesideThePairIsMended(t *testing.T) {
	s := published(t)
	require.Equal(t, map[string]int{"write " + simTLS: 1}, s.since(func() {
		s.put(simTLS, func(c *corev1.Secret) { c.Data[KeyIssuer] = []byte("garbage") })
		s.run(time.Hour)
	}))
	require.True(t, s.pair().Issuer.Is(s.authorities().Current.Certificate))
}

func TestALostSignerStaysTrusted(t *testing.T) {
	s := published(t)
	before := s.authorities()
	s.put(simCA, func(c *corev1.Secret) { c.Data[KeyCurrentCert] = []byte("garbage") })
	s.run(time.Hour)
	require.True(t, s.authorities().Current.Is(before.Next.Certificate))
	require.True(t, s.authorities().Previous[0].Is(before.Current.Certificate))
}

func TestScenario048_AStateThatIsLostIsRebuiltAndKeepsTrust(t *testing.T) {
	s := published(t)
	s.ask(AnnotationPromoteAfter, s.apiTime())
	s.run(time.Hour)
	s.put(simCA, func(c *corev1.Secret) { c.Annotations = nil })
	for _, key := range []string{KeyState, KeyPrevious} {
		before := s.authorities().Bundle(s.apiTime())
		require.Len(t, before, 3)
		s.put(simCA, func(c *corev1.Secret) { delete(c.Data, key) })
		s.run(time.Hour)
		require.True(t, SameBundle(before, s.authorities().Bundle(s.apiTime())), key)
		require.NotEmpty(t, s.secrets[simCA].Data[key])
	}
}

func TestScenario050_AnAdministratorsKeySurvivesARace(t *testing.T) {
	s := published(t)
	s.ask(AnnotationPromoteAfter, s.apiTime())
	r := s.rotators[0]
	r.api = racingAPI{s.sim}
	s.run(time.Minute)
	require.Equal(t, []byte("kept"), s.secrets[simCA].Data["mine"])
	require.Len(t, s.authorities().Previous, 1)
}

// racingAPI lets an administrator write between the rotator's reading and its writing, once.
type racingAPI struct{ *sim }

func (a racingAPI) updateSecret(ctx context.Context, secret *corev1.Secret) error {
	if live := a.secrets[simCA]; secret.Name == simCA && live.Data["mine"] == nil {
		a.put(simCA, func(c *corev1.Secret) { c.Data["mine"] = []byte("kept") })
	}
	return a.sim.updateSecret(ctx, secret)
}

func TestScenario051_ALostAnswerMakesNoSecondGeneration(t *testing.T) {
	s := newScene(t)
	s.rotators[0].next = s.now.Add(time.Hour)
	r := s.rotators[0]
	s.boot(r)
	r.api = &forgetfulAPI{sim: s.sim}
	r.next = s.now
	s.run(3 * time.Minute)
	require.Equal(t, map[string]int{
		"create " + simCA: 1, "create " + simTLS: 1, "write " + simCA: 1, "write " + simTLS: 1,
		"patch mutating": 1, "patch validating": 1, "patch clonesets": 1,
	}, s.writes)
}

// forgetfulAPI loses the answer to every first write of each kind.
type forgetfulAPI struct {
	*sim
	lost map[string]bool
}

func (a *forgetfulAPI) lose(what string, err error) error {
	if err != nil || a.lost[what] {
		return err
	}
	if a.lost == nil {
		a.lost = map[string]bool{}
	}
	a.lost[what] = true
	return apierrors.NewTimeoutError("the answer was lost", 1)
}

func (a *forgetfulAPI) createSecret(ctx context.Context, name string) error {
	return a.lose("create "+name, a.sim.createSecret(ctx, name))
}

func (a *forgetfulAPI) updateSecret(ctx context.Context, secret *corev1.Secret) error {
	return a.lose("write "+secret.Name, a.sim.updateSecret(ctx, secret))
}

func (a *forgetfulAPI) patchTarget(ctx context.Context, kind, name string, body []byte) (metav1.Object, error) {
	o, err := a.sim.patchTarget(ctx, kind, name, body)
	if err = a.lose("patch "+name, err); err != nil {
		return nil, err
	}
	return o, nil
}

func TestScenario052_AnImmutableSecretIsReported(t *testing.T) {
	s := published(t)
	frozen := true
	s.put(simTLS, func(c *corev1.Secret) { c.Immutable, c.Data[KeyServingCert] = &frozen, []byte("garbage") })
	require.Empty(t, s.since(func() { s.run(time.Minute) }))
	require.NotEmpty(t, s.events[EventSecretImmutable])
	delete(s.secrets, simTLS)
	s.changed()
	require.Equal(t, map[string]int{"create " + simTLS: 1, "write " + simTLS: 1}, s.since(func() { s.run(time.Minute) }))
}

func TestScenario056_TenMinutesBetweenTheClocksHarmNothing(t *testing.T) {
	for name, set := range map[string]func(*sim){
		"the rotator ahead":     func(s *sim) { s.localAhead = 10 * time.Minute },
		"the rotator behind":    func(s *sim) { s.localAhead = -10 * time.Minute },
		"the API server ahead":  func(s *sim) { s.apiAhead = 10 * time.Minute },
		"the API server behind": func(s *sim) { s.apiAhead = -10 * time.Minute },
		"the nodes ahead":       func(s *sim) { s.nodeAhead = 10 * time.Minute },
	} {
		s := newScene(t)
		set(s.sim)
		s.run(30 * time.Minute)
		s.ask(AnnotationRevokeBefore, s.apiTime())
		s.run(50 * time.Minute)
		require.Len(t, s.authorities().Bundle(s.apiTime()), 2, name)
		require.Equal(t, 3, s.writes["write "+simCA], "%s: made, revoked, forgotten", name)
		s.run(366 * day)
		require.Len(t, s.authorities().Bundle(s.apiTime()), 3, name)
		if s.apiAhead != s.localAhead {
			require.NotEmpty(t, s.events[EventClockSkew], name)
		}
	}
}

func TestScenario057_AYearAheadAndBackRotatesNothing(t *testing.T) {
	s := published(t)
	require.Empty(t, s.since(func() {
		s.apiAhead = 366 * day
		s.caughtUp = s.now.Add(time.Hour)
		s.wake(0)
		s.run(10 * time.Minute)
		s.apiAhead = 0
		s.wake(0)
		s.run(time.Hour)
	}))
	require.NotEmpty(t, s.events[EventClockSkew])
}

func TestScenario059_WhatWasWipedMeanwhileIsRepairedAtTheStart(t *testing.T) {
	s := published(t)
	s.rotators[0].off = true
	s.run(day)
	for _, target := range s.targets {
		s.wipe(target, "")
	}
	s.run(time.Hour)
	require.Empty(t, s.bundle(s.crd))
	s.rotators[0].Rotator, s.rotators[0].off, s.rotators[0].next = nil, false, s.now
	s.run(time.Second)
	for _, target := range s.targets {
		require.Len(t, s.bundle(target), 2)
	}
}

func TestScenario060_AStoppedLeaderWritesNothingWhenItGoesOn(t *testing.T) {
	s := published(t)
	s.ask(AnnotationPromoteAfter, s.apiTime())
	slow := &slowAPI{sim: s.sim}
	s.rotators[0].api = slow
	s.run(time.Minute)
	require.Equal(t, 1, s.authorities().lenPrevious(), "the other one promoted, and nobody did so again")
	require.True(t, slow.stopped)
}

func (a *Authorities) lenPrevious() int { return len(a.Previous) }

// slowAPI stops its process between reading and writing, while another does all there is to do.
type slowAPI struct {
	*sim
	stopped bool
}

func (a *slowAPI) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	got, err := a.sim.secret(ctx, name)
	if name == simTLS && !a.stopped {
		a.stopped = true
		acting := a.acting
		a.rotators[1].off = false
		for range 10 {
			a.pass(a.rotators[1])
			a.now = a.now.Add(6 * time.Second)
		}
		a.rotators[1].off = true
		a.acting = acting
	}
	return got, err
}

func (a *slowAPI) patchTarget(_ context.Context, kind, name string, _ []byte) (metav1.Object, error) {
	a.violation("the one that was stopped patches %s", name)
	return nil, apierrors.NewForbidden(schema.GroupResource{Resource: kind}, name, errors.New("not any more"))
}

func TestScenario061_APromotionNeedsNoServer(t *testing.T) {
	s := published(t)
	for _, w := range s.servers {
		w.loaded, w.delay = nil, 300*day
	}
	s.ask(AnnotationPromoteAfter, s.apiTime())
	s.run(time.Hour)
	require.Len(t, s.authorities().Previous, 1)
	for _, w := range s.servers {
		s.reload(w)
	}
	require.True(t, isNamed(s.servers[0].loaded, s.authorities().Current.Certificate))
}

func TestScenario062_NothingIsWrittenAtRest(t *testing.T) {
	s := published(t)
	require.Empty(t, s.since(func() {
		for range 60 {
			s.wake(0)
			s.run(time.Minute)
		}
		s.rotators[0].Rotator = nil
		s.wake(0)
		s.run(time.Minute)
	}))
}

func TestTheSameIsToldOnceInFiveMinutes(t *testing.T) {
	var told telling
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	require.True(t, told.isNews("a", now, tellEvery))
	require.False(t, told.isNews("a", now.Add(tellEvery-1), tellEvery))
	require.True(t, told.isNews("b", now, tellEvery))
	require.True(t, told.isNews("a", now.Add(tellEvery), tellEvery))
}

func TestARequestThatIsNoTimeIsNamed(t *testing.T) {
	_, problem := requestsOf(map[string]string{AnnotationPromoteAfter: "tomorrow"})
	require.Contains(t, problem, AnnotationPromoteAfter)
	require.Contains(t, problem, fmt.Sprintf("%q", "tomorrow"))
}

func TestAProcessWithoutPassesIsEnded(t *testing.T) {
	s := published(t)
	r := s.rotators[0]
	s.run(lookEvery)
	s.wake(0)
	s.run(time.Second)
	require.NoError(t, r.Alive())
	s.now = s.now.Add(passAtLeast + time.Second)
	require.Error(t, r.Alive())
	r.passed.Store(nil)
	require.NoError(t, r.Alive(), "another leads")
}

// TestScenario017_AnHourOfShortLifetimesFailsNoCall probes every server through every object, as both API servers see it.
func TestScenario017_AnHourOfShortLifetimesFailsNoCall(t *testing.T) {
	s := newScene(t)
	s.apiLag = 2 * time.Second
	s.boot(s.rotators[0])
	fast := &s.rotators[0].settings
	fast.CAValidity, fast.SigningPeriod, fast.ServingValidity, fast.RenewAfter = time.Hour, 12*time.Minute, 10*time.Minute, 3*time.Minute
	fast.PropagationDelay = 5 * time.Second
	require.NoError(t, fast.Check())
	s.run(2 * time.Minute)
	first, probes, failed := s.authorities().SigningSince, 0, 0
	leaves, signers := map[string]bool{}, map[string]bool{}
	for s.now.Sub(first) < time.Hour {
		s.run(s.upTo(3 * time.Second))
		leaves[s.pair().Pair.Fingerprint()], signers[s.authorities().Current.Fingerprint()] = true, true
		require.LessOrEqual(t, len(s.authorities().Bundle(s.apiTime())), 3)
		for _, target := range s.targets {
			for _, seen := range []time.Time{s.now, s.now.Add(-s.apiLag)} {
				bundle := s.read(target.at(seen).object).entries[0].bundle
				require.LessOrEqual(t, len(s.parse(bundle)), 3)
				for _, w := range s.servers {
					probes++
					if !s.trusts(bundle, w.loaded) || !s.apiTime().Before(w.loaded.NotAfter) {
						failed++
					}
				}
			}
		}
	}
	require.Zero(t, failed, "of %d", probes)
	require.GreaterOrEqual(t, len(signers)-1, 4, "rotations of authorities")
	require.GreaterOrEqual(t, len(leaves)-1, 15, "renewals")
}
