package certs

import (
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// happen is one thing that somebody does, or that befalls somebody.
func (s *sim) happen() {
	switch s.random.IntN(14) {
	case 0, 1, 2:
		s.reset(s.targets[s.random.IntN(len(s.targets))])
	case 3:
		s.reshape(s.targets[s.random.IntN(len(s.targets))])
	case 4:
		t := s.targets[s.random.IntN(len(s.targets))]
		t.denied, t.allowed = !t.denied, s.now
		s.tell("patches of %s are denied: %t", t.name, t.denied)
		s.wake(0)
	case 5, 6:
		s.spoilServing()
	case 7, 8:
		s.spoilAuthorities()
	case 9, 10:
		s.request()
	case 11:
		s.setClocks()
		// What was made is older than what somebody asked for, for who has been set back, and may be made once more.
		if ca := s.secrets[simCA]; ca != nil {
			for key := range ca.Annotations {
				s.allowRequest(key)
			}
		}
		s.tell("the clocks are set: API server +%s, rotators +%s, nodes +%s", s.apiAhead, s.localAhead, s.nodeAhead)
		s.wake(time.Minute)
	case 12:
		s.befallServer()
	case 13:
		s.befallRotator()
	}
}

// reset is somebody writing a bundle of their own.
func (s *sim) reset(t *simTarget) {
	v := t.last()
	if v.object == nil {
		return
	}
	entries := s.read(v.object).entries
	if len(entries) == 0 {
		return
	}
	e := entries[s.random.IntN(len(entries))]
	present := s.parse(e.bundle)
	bundle, what := []byte(nil), "removed"
	switch s.random.IntN(6) {
	case 0:
		bundle, what = []byte("\n"), "a newline"
	case 1:
		bundle, what = []byte("garbage"), "garbage"
	case 2:
		bundle, what = EncodeBundle([]Certificate{s.foreignAuthority().Certificate}), "another authority's"
	case 3:
		bundle, what = append(slices.Clone(e.bundle), s.foreignAuthority().PEM()...), "one certificate more"
	case 4:
		if len(present) > 1 {
			i := s.random.IntN(len(present))
			bundle, what = EncodeBundle(slices.Delete(slices.Clone(present), i, i+1)), "one certificate less"
		}
	}
	s.tell("the bundle of %s %s: %s", t.name, e.path, what)
	s.allowed["patch "+t.name]++
	s.change(t, []string{e.path}, func(o metav1.Object) { *bundleAt(o, e.path) = bundle })
}

func (s *sim) foreignAuthority() *Pair {
	a, err := NewAuthority(s.bytes, s.now.Add(-time.Hour), s.now.Add(1000*day))
	if err != nil {
		panic(err)
	}
	return a
}

// reshape is somebody changing what a target is, rather than a bundle.
func (s *sim) reshape(t *simTarget) {
	s.allowed["patch "+t.name] += 2
	v := t.last()
	if v.object == nil || s.oneIn(4) {
		s.replace(t)
		return
	}
	var all []string
	for _, e := range s.read(v.object).entries {
		all = append(all, e.path)
	}
	if s.oneIn(4) {
		const key = "cert-manager.io/inject-ca-from"
		s.tell("somebody else is in charge of %s, or is no more", t.name)
		s.change(t, nil, func(o metav1.Object) {
			if _, ok := o.GetAnnotations()[key]; ok {
				o.SetAnnotations(nil)
			} else {
				o.SetAnnotations(map[string]string{key: "x"})
			}
		})
		// What it holds from then on is theirs.
		last := t.last()
		for _, e := range s.read(last.object).entries {
			last.foreign[e.path] = true
		}
		return
	}
	switch x := v.object.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		s.reshapeCRD(t, x, all)
	case *admissionv1.MutatingWebhookConfiguration:
		s.reshapeHooks(t, x)
	}
}

// replace deletes a target, or creates it anew without bundles.
func (s *sim) replace(t *simTarget) {
	if t.last().object != nil && s.oneIn(2) {
		s.tell("%s is deleted", t.name)
		s.store(t, nil, map[string]bool{})
		return
	}
	s.tell("%s is created anew", t.name)
	o := metav1.Object(newValidating())
	switch t.kind {
	case KindMutating:
		o = s.newHooks()
	case KindCRD:
		o = newCRD(t.name)
	}
	foreign := map[string]bool{}
	for _, e := range s.read(o).entries {
		foreign[e.path] = true
	}
	s.store(t, o, foreign)
}

func (s *sim) reshapeCRD(t *simTarget, x *apiextensionsv1.CustomResourceDefinition, entries []string) {
	if s.oneIn(2) {
		migrating := len(x.Status.Conditions) == 0
		s.tell("%s migrates its storage: %t", t.name, migrating)
		s.change(t, nil, func(o metav1.Object) {
			status := &o.(*apiextensionsv1.CustomResourceDefinition).Status
			if status.Conditions = nil; migrating {
				status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
					{Type: "StorageMigrating", Status: apiextensionsv1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.apiTime())},
				}
			}
		})
		return
	}
	s.tell("%s changes its conversion strategy", t.name)
	s.change(t, entries, func(o metav1.Object) {
		c := o.(*apiextensionsv1.CustomResourceDefinition).Spec.Conversion
		if c.Strategy == apiextensionsv1.WebhookConverter {
			c.Strategy, c.Webhook = apiextensionsv1.NoneConverter, nil
		} else {
			*c = *newCRD(t.name).Spec.Conversion
		}
	})
	last := t.last()
	for _, e := range s.read(last.object).entries {
		last.foreign[e.path] = true
	}
}

// reshapeHooks drops the first hook, or adds one in front.
func (s *sim) reshapeHooks(t *simTarget, x *admissionv1.MutatingWebhookConfiguration) {
	byName := map[string]bool{}
	for i, h := range x.Webhooks {
		byName[h.Name] = t.last().foreign[fmt.Sprintf("/webhooks/%d/clientConfig", i)]
	}
	changed := x.DeepCopy()
	if len(x.Webhooks) > 1 && s.oneIn(2) {
		s.tell("%s loses its first hook", t.name)
		changed.Webhooks = changed.Webhooks[1:]
	} else {
		name := fmt.Sprint("new-", s.revision)
		s.tell("%s gets a hook in front", t.name)
		byName[name] = true
		changed.Webhooks = slices.Insert(changed.Webhooks, 0, admissionv1.MutatingWebhook{Name: name, ClientConfig: hookConfig("flotilla-webhook")})
	}
	foreign := map[string]bool{}
	for i, h := range changed.Webhooks {
		if byName[h.Name] {
			foreign[fmt.Sprintf("/webhooks/%d/clientConfig", i)] = true
		}
	}
	s.store(t, changed, foreign)
}

func (s *sim) spoilServing() {
	s.allow(map[string]int{"create " + simTLS: 1, "write " + simTLS: 1}, 0)
	switch s.random.IntN(5) {
	case 0:
		s.spoil("the serving Secret is deleted", simTLS, nil)
	case 1:
		s.spoil("tls.crt becomes garbage", simTLS, func(c *corev1.Secret) { c.Data[KeyServingCert] = []byte("garbage") })
	case 2:
		s.spoil("tls.key becomes another", simTLS, func(c *corev1.Secret) { c.Data[KeyServingKey], _ = s.foreignAuthority().KeyPEM() })
	case 3:
		s.spoil("ca.crt of the serving Secret becomes garbage", simTLS, func(c *corev1.Secret) { c.Data[KeyIssuer] = []byte("garbage") })
	case 4:
		s.spoil("the serving pair becomes another's", simTLS, func(c *corev1.Secret) {
			a := s.foreignAuthority()
			pair, err := Issue(s.bytes, a, []string{"flotilla-webhook.flotilla-system.svc"}, s.now, s.now.Add(100*day))
			if err != nil {
				panic(err)
			}
			data, err := (&Serving{pair, &a.Certificate}).Encode()
			if err != nil {
				panic(err)
			}
			if s.oneIn(2) {
				delete(data, KeyIssuer)
			}
			for k, v := range data {
				c.Data[k] = v
			}
		})
	}
}

func (s *sim) spoilAuthorities() {
	s.allow(map[string]int{"create " + simCA: 1, "write " + simCA: 2, "write " + simTLS: 1}, 2)
	keys := []string{KeyCurrentKey, KeyCurrentCert, KeyNextKey, KeyNextCert, KeyPrevious, KeyState, KeyBundle}
	switch s.random.IntN(6) {
	case 0:
		s.spoil("the authorities' Secret is deleted", simCA, nil)
	case 1:
		s.spoil("all of the authorities' Secret becomes garbage", simCA, func(c *corev1.Secret) {
			for k := range c.Data {
				c.Data[k] = []byte("garbage")
			}
		})
	case 2, 3:
		key := keys[s.random.IntN(len(keys))]
		s.spoil(key+" becomes garbage", simCA, func(c *corev1.Secret) { c.Data[key] = []byte("garbage") })
	default:
		key := keys[s.random.IntN(len(keys))]
		s.spoil(key+" is removed", simCA, func(c *corev1.Secret) { delete(c.Data, key) })
	}
}

func (s *sim) request() {
	key := []string{AnnotationPromoteAfter, AnnotationRenewServingAfter, AnnotationRevokeBefore}[s.random.IntN(3)]
	at := s.apiTime()
	if s.oneIn(3) {
		at = at.Add(s.upTo(3 * day))
	}
	s.allowRequest(key)
	s.tell("somebody asks: %s %s", key, at.Sub(s.start))
	s.put(simCA, func(c *corev1.Secret) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[key] = at.Format(time.RFC3339Nano)
	})
}

// allowRequest allows what carrying a request out takes.
func (s *sim) allowRequest(key string) {
	switch key {
	case AnnotationRevokeBefore:
		s.allow(map[string]int{"write " + simCA: 2, "write " + simTLS: 1}, 2)
	case AnnotationPromoteAfter:
		s.allow(map[string]int{"write " + simCA: 1, "write " + simTLS: 1}, 1)
	default:
		s.allow(map[string]int{"write " + simTLS: 1}, 0)
	}
}

// befallServer restarts a webhook-server, or changes how it sees its Secret.
func (s *sim) befallServer() {
	w := s.servers[s.random.IntN(len(s.servers))]
	w.dozed = w.dozed || w.delay < 0
	w.delay = s.reloadDelay()
	if s.oneIn(2) {
		w.loaded, w.lost = nil, false
		w.reloads = s.now
	} else if w.delay >= 0 {
		w.reloads = s.now.Add(w.delay)
	}
	s.tell("a webhook-server sees its Secret after %s; restarted: %t", w.delay, w.loaded == nil)
}

// befallRotator ends rotators and starts others.
func (s *sim) befallRotator() {
	r := s.rotators[s.random.IntN(2)]
	r.Rotator = nil
	r.next = s.now
	if r == s.rotators[0] {
		// The second one takes over, or nobody does for a while.
		r.off = s.oneIn(2)
		s.rotators[1].off = s.oneIn(2)
	} else {
		r.off = !r.off
	}
	if !s.rotators[0].off || !s.rotators[1].off {
		s.caughtUp = s.now.Add(3 * time.Minute)
	} else {
		s.caughtUp = s.now.Add(200 * 365 * day)
	}
	s.wake(0)
	s.tell("rotators run: %t %t", !s.rotators[0].off, !s.rotators[1].off)
}

// findLost marks servers of whose issuer nobody knows any more who could tell the targets.
func (s *sim) findLost() {
	data := map[string][]byte(nil)
	if ca := s.secrets[simCA]; ca != nil {
		data = ca.Data
	}
	a, _ := DecodeAuthorities(data, s.apiTime())
	var known []Certificate
	for _, r := range a.Previous {
		known = append(known, r.Certificate)
	}
	if a.Current.isUsable(s.apiTime()) {
		known = append(known, a.Current.Certificate)
	} else {
		known = append(known, strays(data, s.apiTime())...)
		if tls := s.secrets[simTLS]; tls != nil {
			known = append(known, parseWhatCan(tls.Data[KeyIssuer])...)
		}
	}
	for _, w := range s.servers {
		if w.loaded != nil && !w.lost && !slices.ContainsFunc(known, func(c Certificate) bool { return isNamed(w.loaded, c) }) {
			s.tell("nobody knows any more who signed what a webhook-server serves")
			w.lost = true
		}
	}
}
