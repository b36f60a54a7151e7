package certs

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestScenario008_AURLIsOursIfTheCertificateIsForItsHost: what the API server will accept there, and nothing else.
func TestScenario008_AURLIsOursIfTheCertificateIsForItsHost(t *testing.T) {
	o := DefaultOptions()
	o.ExtraSANs = []string{"hooks.example.com", "*.wild.example.com", "2001:db8::7", "192.0.2.7"}
	settings, err := o.settings()
	require.NoError(t, err)
	ours := Ours{Namespace: o.Namespace, Service: o.Service, Names: settings.Names}
	authority, err := NewAuthority(rand.Reader, time.Now(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	leaf, err := Issue(rand.Reader, authority, settings.Names, time.Now(), time.Now().Add(time.Minute))
	require.NoError(t, err)
	for url, host := range map[string]string{
		"https://hooks.example.com/validate":        "hooks.example.com",
		"https://HOOKS.example.com:9443/validate":   "HOOKS.example.com",
		"https://a.wild.example.com/validate":       "a.wild.example.com",
		"https://A.Wild.Example.com:9443/validate":  "A.Wild.Example.com",
		"https://[2001:db8::7]:9443/validate":       "2001:db8::7",
		"https://[2001:0db8:0::7]/validate":         "2001:0db8:0::7",
		"https://192.0.2.7:9443/validate":           "192.0.2.7",
		"https://localhost:9443/validate":           "localhost",
		"https://flotilla-webhook.flotilla-system/": "flotilla-webhook.flotilla-system",
		// What a wildcard does not stand for: nothing, two labels, an address.
		"https://wild.example.com/validate":     "",
		"https://a.b.wild.example.com/validate": "",
		"https://other.example.com/validate":    "",
		"https://192.0.2.8/validate":            "",
		"https://[2001:db8::8]/validate":        "",
		"https:///validate":                     "",
		"://":                                   "",
	} {
		isOurs := host != ""
		if isOurs {
			require.NoError(t, leaf.VerifyHostname(host), url)
		}
		config := &admissionv1.WebhookClientConfig{URL: &url}
		require.Equal(t, isOurs, len(ours.readHooks(nil, []hook{{"x.example.com", config}}).entries) == 1, url)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url}},
		}
		require.Equal(t, isOurs, len(ours.readCRD(crd).entries) == 1, url)
	}
}

func TestScenario008_WrongNamesOfTheCertificateAreRefused(t *testing.T) {
	for name, good := range map[string]bool{
		"hooks.example.com": true, "*.example.com": true, "2001:db8::7": true, "192.0.2.7": true,
		"*": false, "*.": false, "*.*.example.com": false, "a.*.example.com": false, "https://hooks.example.com": false,
		"hooks.example.com:9443": false, "[2001:db8::7]": false, "": false, "under_score.example.com": false,
	} {
		o := DefaultOptions()
		o.ExtraSANs = []string{name}
		err := o.Check()
		if good {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, "--extra-san", name)
		}
	}
}

// An API server passes over PEM blocks with headers, so that a bundle of them trusts nobody.
func TestABundleWithHeadersIsReplaced(t *testing.T) {
	s := published(t)
	var raw []byte
	for _, c := range s.authorities().Bundle(s.now) {
		raw = append(raw, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"Comment": "x"}, Bytes: c.Raw})...)
	}
	require.False(t, x509.NewCertPool().AppendCertsFromPEM(raw))
	path := s.sim.read(s.hooks.last().object).entries[0].path
	s.change(s.hooks, []string{path}, func(o metav1.Object) { *bundleAt(o, path) = raw })
	s.run(5 * time.Minute)
	require.True(t, x509.NewCertPool().AppendCertsFromPEM(*bundleAt(s.hooks.last().object, path)))
}
