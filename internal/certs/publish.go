package certs

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
)

// Kinds of targets.
const (
	KindMutating   = "MutatingWebhookConfiguration"
	KindValidating = "ValidatingWebhookConfiguration"
	KindCRD        = "CustomResourceDefinition"
)

// Ours tells the entries that call our webhooks from others.
type Ours struct {
	Namespace, Service string
	// Names are those of the serving certificate: a URL with such a host is ours too.
	Names []string
}

// entry is one place in a target that carries a caBundle.
type entry struct {
	// path is that of its client configuration.
	path string
	// tests are what must still be so when it is patched, by path.
	tests  []operation
	bundle []byte
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// reading is what a target says.
type reading struct {
	state   TargetState
	entries []entry
	// calls are what it has the API server call, each once, as people write it.
	calls []string
	// needsNone: no webhook is called, and none is needed.
	needsNone bool
	// strangers are those of its hooks that call somebody else, and whom: they are none of our business, but may be a mistake.
	strangers []string
}

// annotations by which others say that they fill in the bundles of an object.
func injectors() []string {
	return []string{
		"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca",
		"service.beta.openshift.io/inject-cabundle",
	}
}

func isExternal(annotations map[string]string) bool {
	return slices.ContainsFunc(injectors(), func(key string) bool { _, ok := annotations[key]; return ok })
}

// readHooks reads a webhook configuration: its entries that are ours, whatever others there are.
func (o Ours) readHooks(annotations map[string]string, hooks []hook) reading {
	if isExternal(annotations) {
		return reading{state: External}
	}
	r := reading{state: Foreign}
	if len(hooks) == 0 {
		r.state = Unmanaged
	}
	for i, h := range hooks {
		service := (*serviceReference)(nil)
		if s := h.config.Service; s != nil {
			service = &serviceReference{s.Namespace, s.Name}
		}
		calls := callee(service, h.config.URL)
		if !slices.Contains(r.calls, calls) {
			r.calls = append(r.calls, calls)
		}
		path := fmt.Sprintf("/webhooks/%d/clientConfig", i)
		test, ours := o.test(path, service, h.config.URL)
		if !ours {
			r.strangers = append(r.strangers, h.name+" calls "+calls)
			continue
		}
		name := operation{"test", fmt.Sprintf("/webhooks/%d/name", i), h.name}
		r.entries = append(r.entries, entry{path, []operation{name, test}, h.config.CABundle})
		r.state = Pending
	}
	return r
}

// hook is what the two kinds of configurations have in common.
type hook struct {
	name   string
	config *admissionv1.WebhookClientConfig
}

func mutatingHooks(c *admissionv1.MutatingWebhookConfiguration) []hook {
	out := make([]hook, len(c.Webhooks))
	for i := range c.Webhooks {
		out[i] = hook{c.Webhooks[i].Name, &c.Webhooks[i].ClientConfig}
	}
	return out
}

func validatingHooks(c *admissionv1.ValidatingWebhookConfiguration) []hook {
	out := make([]hook, len(c.Webhooks))
	for i := range c.Webhooks {
		out[i] = hook{c.Webhooks[i].Name, &c.Webhooks[i].ClientConfig}
	}
	return out
}

// readCRD reads the conversion of a CRD.
func (o Ours) readCRD(crd *apiextensionsv1.CustomResourceDefinition) reading {
	if isExternal(crd.Annotations) {
		return reading{state: External}
	}
	c := crd.Spec.Conversion
	if c == nil || c.Strategy != apiextensionsv1.WebhookConverter || c.Webhook == nil || c.Webhook.ClientConfig == nil {
		return reading{state: Unmanaged, needsNone: conversion.IsSame(crd.Spec.Names.Kind)}
	}
	service := (*serviceReference)(nil)
	if s := c.Webhook.ClientConfig.Service; s != nil {
		service = &serviceReference{s.Namespace, s.Name}
	}
	const path = "/spec/conversion/webhook/clientConfig"
	test, ours := o.test(path, service, c.Webhook.ClientConfig.URL)
	calls := []string{callee(service, c.Webhook.ClientConfig.URL)}
	if !ours {
		return reading{state: Foreign, calls: calls}
	}
	strategy := operation{"test", "/spec/conversion/strategy", string(apiextensionsv1.WebhookConverter)}
	return reading{state: Pending, entries: []entry{{path, []operation{strategy, test}, c.Webhook.ClientConfig.CABundle}}, calls: calls}
}

type serviceReference struct{ namespace, name string }

// callee is what a client configuration calls.
func callee(service *serviceReference, address *string) string {
	switch {
	case service != nil:
		return "Service " + service.namespace + "/" + service.name
	case address != nil:
		return *address
	}
	return "nothing"
}

// test says whether a client configuration calls us, and how a patch makes sure that it still does.
func (o Ours) test(path string, service *serviceReference, address *string) (operation, bool) {
	switch {
	case service != nil:
		return operation{"test", path + "/service/name", service.name}, service.namespace == o.Namespace && service.name == o.Service
	case address != nil:
		return operation{"test", path + "/url", *address}, o.hasHost(*address)
	}
	return operation{}, false
}

// hasHost says whether the API server would accept the serving certificate at that address: then it is ours.
func (o Ours) hasHost(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	var leaf x509.Certificate
	leaf.DNSNames, leaf.IPAddresses = splitNames(o.Names)
	return leaf.VerifyHostname(u.Hostname()) == nil
}

// bundles are what the entries hold. parsed keeps what was read before: most entries of all targets hold the same.
func (r reading) bundles(parsed map[string][]Certificate) [][]Certificate {
	out := make([][]Certificate, len(r.entries))
	for i, e := range r.entries {
		list, ok := parsed[string(e.bundle)]
		if !ok {
			// What cannot be read is no bundle, and is replaced.
			list = asRead(e.bundle)
			parsed[string(e.bundle)] = list
		}
		out[i] = list
	}
	return out
}

// asRead are the certificates of a bundle as the API server sees them, which passes over blocks with headers: a bundle with
// one is not what it seems.
func asRead(bundle []byte) []Certificate {
	list, err := ParseCertificates(bundle)
	if err != nil || hasHeaders(bundle) {
		return nil
	}
	return list
}

func hasHeaders(bundle []byte) bool {
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return false
		}
		if len(block.Headers) > 0 {
			return true
		}
	}
}

// patch is the JSON patch that gives all entries the bundle. caBundle is the only member that it can ever write.
func (r reading) patch(bundle []byte) ([]byte, error) {
	var ops []operation
	for _, e := range r.entries {
		ops = append(ops, e.tests...)
		ops = append(ops, operation{"add", e.path + "/caBundle", bundle})
	}
	raw, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return raw, nil
}
