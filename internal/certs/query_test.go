package certs

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-k8s/flotilla/internal/app"
)

// ask answers a query about the scene as it is.
func (s *scene) query(run func(*Options, *app.Env, *bytes.Buffer) error) (string, error) {
	s.Helper()
	kube := fake.NewClientset(s.hooks.last().object.(runtime.Object), s.validating.last().object.(runtime.Object))
	for _, secret := range s.secrets {
		require.NoError(s, kube.Tracker().Add(secret))
	}
	o := DefaultOptions()
	o.Mutating, o.Validating, o.CRDs = []string{"mutating"}, []string{"validating"}, append([]string{"clonesets", "broadcastjobs"}, s.alsoAsked...)
	env := &app.Env{
		Kube: kube, Extensions: apiextensionsfake.NewClientset(s.crd.last().object.(runtime.Object), newSame()), Metrics: prometheus.NewRegistry(),
		Clock: clocktesting.NewFakeClock(s.now), ServerTime: &app.ServerTime{},
	}
	o.Mode, o.CAKey = s.rotators[0].options.Mode, s.rotators[0].options.CAKey
	var out bytes.Buffer
	err := run(o, env, &out)
	for _, action := range kube.Actions() {
		require.Equal(s, "get", action.GetVerb())
	}
	return out.String(), err
}

// newSame is the CRD of a kind whose versions are the same.
func newSame() *apiextensionsv1.CustomResourceDefinition {
	crd := newCRD("broadcastjobs")
	crd.Spec.Names.Kind = "BroadcastJob"
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	return crd
}

// TestScenario067_WhatIsShippedCanBePublished: else status would never be content.
func TestScenario067_WhatIsShippedCanBePublished(t *testing.T) {
	o := DefaultOptions()
	ours := Ours{Namespace: o.Namespace, Service: o.Service}
	names := map[string]bool{}
	files, err := filepath.Glob("../../deploy/crds/apps.kruise.io_*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.Unmarshal(data, crd))
		trimmed, err := trim(crd)
		require.NoError(t, err)
		r := ours.readCRD(trimmed.(*apiextensionsv1.CustomResourceDefinition))
		require.True(t, r.needsNone || len(r.entries) == 1, file)
		names[crd.Name] = true
	}
	require.Len(t, names, len(o.CRDs))
	for _, name := range o.CRDs {
		require.True(t, names[name], name)
	}
}

func TestScenario067_StatusSaysWhetherSomethingIsAmiss(t *testing.T) {
	status := func(o *Options, env *app.Env, out *bytes.Buffer) error { return o.Status(t.Context(), env, out) }
	s := published(t)
	text, err := s.query(status)
	require.NoError(t, err, text)
	for _, word := range []string{"current", "next", "serving", "clonesets", "published", s.authorities().Current.Subject.CommonName} {
		require.Contains(t, text, word)
	}
	require.NotContains(t, text, "PRIVATE")
	require.Contains(t, text, "NOTE  in MutatingWebhookConfiguration mutating, theirs calls Service flotilla-system/another: its caBundle is left alone")
	s.wipe(s.crd, "")
	_, err = s.query(status)
	require.ErrorContains(t, err, "clonesets does not trust the serving certificate")
	s.run(time.Minute)
	_, err = s.query(status)
	require.NoError(t, err)
	delete(s.secrets, simTLS)
	_, err = s.query(status)
	require.ErrorContains(t, err, "the serving certificate cannot be used")
}

func TestScenario067_StatusSaysWhatIsCalled(t *testing.T) {
	status := func(o *Options, env *app.Env, out *bytes.Buffer) error { return o.Status(t.Context(), env, out) }
	s := published(t)
	text, err := s.query(status)
	require.NoError(t, err)
	require.Regexp(t, `clonesets +published +Service flotilla-system/flotilla-webhook\n`, text)
	require.Regexp(t, `mutating +published +Service flotilla-system/flotilla-webhook`, text)
	s.change(s.crd, nil, func(o metav1.Object) {
		c := o.(*apiextensionsv1.CustomResourceDefinition).Spec.Conversion.Webhook.ClientConfig
		c.Service, c.URL = nil, ptr.To("https://192.0.2.1/convert")
	})
	text, err = s.query(status)
	require.ErrorContains(t, err, "CustomResourceDefinition clonesets calls https://192.0.2.1/convert and not Service flotilla-system/flotilla-webhook: apply its manifest again")
	require.Regexp(t, `clonesets +foreign +https://192.0.2.1/convert\n`, text)
}

func TestScenario067_StatusFailsUnlessEveryTargetIsPublished(t *testing.T) {
	status := func(o *Options, env *app.Env, out *bytes.Buffer) error { return o.Status(t.Context(), env, out) }
	for name, c := range map[string]struct {
		spoil          func(*scene)
		state, problem string
	}{
		"absent": {func(s *scene) { s.alsoAsked = []string{"sidecarsets"} }, "sidecarsets +absent", "sidecarsets is not there: apply its manifest"},
		"unmanaged": {func(s *scene) {
			s.change(s.crd, nil, func(o metav1.Object) {
				*o.(*apiextensionsv1.CustomResourceDefinition).Spec.Conversion = apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
			})
		}, "clonesets +unmanaged", "clonesets calls no webhook"},
		"external": {func(s *scene) {
			s.change(s.validating, nil, func(o metav1.Object) { o.SetAnnotations(map[string]string{"cert-manager.io/inject-ca-from": "x"}) })
		}, "validating +external", "validating has an annotation"},
	} {
		t.Run(name, func(t *testing.T) {
			s := published(t)
			c.spoil(s)
			text, err := s.query(status)
			require.ErrorContains(t, err, c.problem)
			require.Regexp(t, c.state, text)
		})
	}
}

func TestScenario067_WhatIsDueHasAWhile(t *testing.T) {
	status := func(o *Options, env *app.Env, out *bytes.Buffer) error { return o.Status(t.Context(), env, out) }
	t.Run("what is due for renewal has some minutes", func(t *testing.T) {
		s := published(t)
		due := RenewalOf(s.pair().Pair.Certificate, DefaultOptions().Settings)
		s.now = due.Add(overdueAfter - time.Second)
		text, err := s.query(status)
		require.NoError(t, err)
		require.Contains(t, text, "due for renewal")
		s.now = due.Add(overdueAfter)
		_, err = s.query(status)
		require.ErrorContains(t, err, "overdue: it is due for renewal")
	})
	t.Run("so has what was asked for", func(t *testing.T) {
		s := published(t)
		s.now = s.now.Add(time.Hour)
		s.secrets[simCA].Annotations = map[string]string{AnnotationRenewServingAfter: s.now.Add(-time.Second).UTC().Format(time.RFC3339)}
		text, err := s.query(status)
		require.NoError(t, err)
		require.Contains(t, text, "it was asked for")
		s.now = s.now.Add(overdueAfter)
		_, err = s.query(status)
		require.ErrorContains(t, err, "overdue: it was asked for")
	})
	t.Run("a promotion, although one look does not show how long its targets trust the next authority", func(t *testing.T) {
		s := published(t)
		s.now = s.now.Add(time.Hour)
		s.secrets[simCA].Annotations = map[string]string{AnnotationPromoteAfter: s.now.Add(-time.Second).UTC().Format(time.RFC3339)}
		text, err := s.query(status)
		require.NoError(t, err)
		require.Contains(t, text, "promoting: it was asked for")
		s.now = s.now.Add(overdueAfter)
		_, err = s.query(status)
		require.ErrorContains(t, err, "overdue: promoting: it was asked for")
	})
	t.Run("another certificate after a promotion", func(t *testing.T) {
		s := published(t)
		a := s.authorities()
		next, err := NewAuthority(rand.Reader, s.now, s.now.Add(DefaultOptions().CAValidity))
		require.NoError(t, err)
		a.Previous, a.Current, a.Next, a.SigningSince = []Retired{{a.Current.Certificate, s.now}}, a.Next, next, s.now
		s.secrets[simCA].Data, err = a.Encode(s.now)
		require.NoError(t, err)
		s.secrets[simCA].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: fieldManager, Time: &metav1.Time{Time: s.now}}}
		text, err := s.query(status)
		require.Contains(t, text, "DUE")
		require.NotContains(t, err.Error(), "overdue")
		s.now = s.now.Add(overdueAfter)
		_, err = s.query(status)
		require.ErrorContains(t, err, "overdue: it is by another authority")
	})
	t.Run("the end of a revocation", func(t *testing.T) {
		s := published(t)
		a := s.authorities()
		old, err := NewAuthority(rand.Reader, s.now, s.now.Add(DefaultOptions().CAValidity))
		require.NoError(t, err)
		a.Previous, a.Revoked = []Retired{{old.Certificate, s.now}}, []string{old.Fingerprint()}
		s.secrets[simCA].Data, err = a.Encode(s.now)
		require.NoError(t, err)
		issued := DefaultOptions().issuedAt(s.pair().Pair.Certificate)
		s.now = issued.Add(DefaultOptions().RevokeOverlap - time.Second)
		text, _ := s.query(status)
		require.NotContains(t, text, "DUE")
		s.now = issued.Add(DefaultOptions().RevokeOverlap)
		text, err = s.query(status)
		require.Contains(t, text, "nothing of the revoked authorities is in service")
		require.NotContains(t, err.Error(), "overdue")
		s.now = s.now.Add(overdueAfter)
		_, err = s.query(status)
		require.ErrorContains(t, err, "overdue: nothing of the revoked authorities is in service")
	})
	t.Run("but not a target that lacks the bundle", func(t *testing.T) {
		s := published(t)
		a := s.authorities()
		next, err := NewAuthority(rand.Reader, s.now, s.now.Add(DefaultOptions().CAValidity))
		require.NoError(t, err)
		a.Previous, a.Current, a.Next, a.SigningSince = []Retired{{a.Current.Certificate, s.now}}, a.Next, next, s.now
		s.secrets[simCA].Data, err = a.Encode(s.now)
		require.NoError(t, err)
		s.secrets[simCA].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: fieldManager, Time: &metav1.Time{Time: s.now}}}
		text, err := s.query(status)
		require.Contains(t, text, "pending")
		require.ErrorContains(t, err, "clonesets does not hold the bundle")
	})
	t.Run("nor what calls fail by", func(t *testing.T) {
		s := published(t)
		for _, secret := range s.secrets {
			secret.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: fieldManager, Time: &metav1.Time{Time: s.now}}}
		}
		s.secrets[simCA].Data[KeyNextKey] = nil
		_, err := s.query(status)
		require.ErrorContains(t, err, "the next authority cannot be used")
	})
}

func TestBundlePrintsTheBundle(t *testing.T) {
	bundle := func(o *Options, env *app.Env, out *bytes.Buffer) error { return o.Bundle(t.Context(), env, out) }
	s := published(t)
	text, err := s.query(bundle)
	require.NoError(t, err)
	require.Equal(t, string(EncodeBundle(s.authorities().Bundle(s.apiTime()))), text)
	delete(s.secrets, simCA)
	_, err = s.query(bundle)
	require.ErrorContains(t, err, simCA)
}

func TestScenario067And069_QueriesWhereOthersIssue(t *testing.T) {
	status := func(o *Options, env *app.Env, out *bytes.Buffer) error { return o.Status(t.Context(), env, out) }
	bundle := func(o *Options, env *app.Env, out *bytes.Buffer) error { return o.Bundle(t.Context(), env, out) }
	s, authority := externalScene(t)
	text, err := s.query(status)
	require.NoError(t, err)
	require.NotContains(t, text, "cannot be used")
	require.Regexp(t, `published +`+authority.Subject.String()+` .* issued by others`, text)
	text, err = s.query(bundle)
	require.NoError(t, err)
	require.Equal(t, string(authority.PEM()), text)
	s.put(simTLS, func(c *corev1.Secret) { c.Data[KeyServingCert] = []byte("garbage") })
	_, err = s.query(status)
	require.ErrorContains(t, err, "the serving certificate cannot be used")
	s.theyPublish([]byte("garbage"))
	_, err = s.query(bundle)
	require.ErrorContains(t, err, "bundle.pem")
	delete(s.secrets, simCA)
	_, err = s.query(bundle)
	require.ErrorContains(t, err, "it has no bundle.pem yet")
}

func TestScenario067_WhatIsDueAndForbiddenIsTold(t *testing.T) {
	s := published(t)
	s.secrets[simCA].Immutable = ptr.To(true)
	status := func(o *Options, env *app.Env, out *bytes.Buffer) error { return o.Status(t.Context(), env, out) }
	_, err := s.query(status)
	require.NoError(t, err, "there is nothing to be written")

	// The certificate is good: only the promotion is due.
	s.now = s.now.Add(DefaultOptions().SigningPeriod + time.Hour)
	a := s.authorities()
	leaf, err := Issue(rand.Reader, a.Current, s.rotators[0].settings.Names, s.now, s.now.Add(DefaultOptions().ServingValidity))
	require.NoError(t, err)
	s.secrets[simTLS].Data, err = (&Serving{Pair: leaf, Issuer: &a.Current.Certificate}).Encode()
	require.NoError(t, err)
	text, err := s.query(status)
	require.Regexp(t, `DUE +\S`, text)
	require.ErrorContains(t, err, "is immutable: delete it")
}
