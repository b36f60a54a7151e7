package certs

import (
	"bytes"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

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
	o.Mutating, o.Validating, o.CRDs = []string{"mutating"}, []string{"validating"}, []string{"clonesets", "absent"}
	env := &app.Env{
		Kube: kube, Extensions: apiextensionsfake.NewClientset(s.crd.last().object.(runtime.Object)), Metrics: prometheus.NewRegistry(),
		Clock: clocktesting.NewFakeClock(s.now), ServerTime: &app.ServerTime{},
	}
	var out bytes.Buffer
	err := run(o, env, &out)
	for _, action := range kube.Actions() {
		require.Equal(s, "get", action.GetVerb())
	}
	return out.String(), err
}

func TestScenario067_StatusSaysWhetherSomethingIsAmiss(t *testing.T) {
	status := func(o *Options, env *app.Env, out *bytes.Buffer) error { return o.Status(t.Context(), env, out) }
	s := published(t)
	text, err := s.query(status)
	require.NoError(t, err, text)
	for _, word := range []string{"current", "next", "serving", "clonesets", "published", "absent", s.authorities().Current.Subject.CommonName} {
		require.Contains(t, text, word)
	}
	require.NotContains(t, text, "PRIVATE")
	s.wipe(s.crd, "")
	_, err = s.query(status)
	require.ErrorContains(t, err, "clonesets does not hold the bundle")
	s.run(1000)
	delete(s.secrets, simTLS)
	_, err = s.query(status)
	require.ErrorContains(t, err, "due now")
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
