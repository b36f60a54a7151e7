package deploy

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/flotilla-k8s/flotilla/internal/hooks"
)

const (
	mutating   = "flotilla-mutating-webhook-configuration"
	validating = "flotilla-validating-webhook-configuration"
	guard      = "flotilla-sidecar-guard"
)

// variants are the same choice as a component and as values.
var variants = []struct {
	name       string
	components []string
	values     []string
}{
	{"as it comes", nil, nil},
	{"kinds open", []string{"admission-open"}, []string{"--set", "webhooks.failurePolicy=Ignore"}},
	{"Pods guarded", []string{"pods-guarded"}, []string{"--set", "webhooks.podMode=guarded"}},
	{"Pods strict", []string{"pods-strict"}, []string{"--set", "webhooks.podMode=strict"}},
	{"more namespaces excluded", []string{"exclude-namespaces"}, []string{
		"--set-json", `webhooks.namespaceExclusions=[{"key":"kubernetes.azure.com/managedby","operator":"NotIn","values":["aks"]}]`,
	}},
	{"more namespaces excluded, guarded", []string{"pods-guarded", "exclude-namespaces"}, []string{
		"--set", "webhooks.podMode=guarded",
		"--set-json", `webhooks.namespaceExclusions=[{"key":"kubernetes.azure.com/managedby","operator":"NotIn","values":["aks"]}]`,
	}},
	{"on the control plane", []string{"control-plane"}, []string{
		"--set-json", `tolerations=[{"key":"node-role.kubernetes.io/control-plane","operator":"Exists","effect":"NoSchedule"}]`,
	}},
	{"port 10250", []string{"port-10250"}, []string{"--set", "webhookServer.ports.webhooks=10250"}},
	{"on the network of nodes", []string{"host-network"}, hostNetwork},
	{"history of the reference", []string{"kruise-history"}, []string{"--set", "historyNamespace=kruise-system"}},
	{"two choices", []string{"pods-strict", "admission-open"}, []string{"--set", "webhooks.podMode=strict,webhooks.failurePolicy=Ignore"}},
}

var hostNetwork = []string{
	"--set", "webhookServer.hostNetwork=true",
	"--set", "webhookServer.ports.webhooks=19443,webhookServer.ports.metrics=18080,webhookServer.ports.health=18081",
}

func TestScenario079_KustomizeAndTheChartRenderTheSame(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			bases, rendered := kustomize(t, v.components...), template(t, v.values...)
			require.Equal(t, slices.Sorted(maps.Keys(bases)), slices.Sorted(maps.Keys(rendered)))
			for k := range bases {
				require.Equal(t, bases[k].Object, rendered[k].Object, k)
			}
			checkHooks(t, bases)
		})
	}
}

func TestScenario079_TheSameInAnotherNamespace(t *testing.T) {
	const other = "workloads"
	moved := suite(t, "pods-guarded")
	moved.Namespace = other
	k := kustomization{
		Resources:  []string{moved.folder(t)},
		Components: []string{filepath.Join(cluster.Root, "deploy", "components", "own-namespace")},
	}
	dir := k.folder(t)
	bases := withoutNamespace(parse(t, kubectl(t, "", "kustomize", dir)))
	text, err := tryHelm(t, "template", "flotilla", chart(), "--set", "createNamespace=true,webhooks.podMode=guarded", "--namespace", other)
	require.NoError(t, err)
	rendered := parse(t, text)
	require.Equal(t, slices.Sorted(maps.Keys(bases)), slices.Sorted(maps.Keys(rendered)))
	for k := range bases {
		require.Equal(t, bases[k].Object, rendered[k].Object, k)
	}
	require.NotContains(t, text, system)
	kubectl(t, "", "create", "namespace", other)
	t.Cleanup(func() { kubectlAfter(t, "delete", "namespace", other) })
	kubectl(t, "", "apply", "--dry-run=server", "--server-side", "--force-conflicts", "--warnings-as-errors", "-k", dir)

	t.Log("CRDs call the Service there")
	crds := kustomization{Namespace: other, Resources: []string{"../crds"}}
	require.NotContains(t, kubectl(t, "", "kustomize", crds.folder(t)), system)
}

// withoutNamespace takes the namespace from what is not in any: kustomize does not know of all of these, and the API server does not mind.
func withoutNamespace(all objects) objects {
	out := objects{}
	for _, o := range all {
		switch o.GetKind() {
		case "FlowSchema", "PriorityLevelConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			o.SetNamespace("")
		}
		out[key(o.GetKind(), o.GetNamespace(), o.GetName())] = o
	}
	return out
}

// checkHooks compares what is rendered with the table of hooks, and the guard with the hook that it stands in for.
func checkHooks(t *testing.T, from objects) {
	t.Helper()
	m := into[admissionv1.MutatingWebhookConfiguration](t, from, "MutatingWebhookConfiguration", "", mutating)
	v := into[admissionv1.ValidatingWebhookConfiguration](t, from, "ValidatingWebhookConfiguration", "", validating)
	for _, h := range hooks.All() {
		var client admissionv1.WebhookClientConfig
		var rules []admissionv1.RuleWithOperations
		var conditions []admissionv1.MatchCondition
		var timeout *int32
		if h.Mutates {
			require.NotEmpty(t, m.Webhooks)
			got := m.Webhooks[0]
			m.Webhooks = m.Webhooks[1:]
			require.Equal(t, h.Name, got.Name)
			require.Equal(t, admissionv1.NeverReinvocationPolicy, *got.ReinvocationPolicy)
			client, rules, conditions, timeout = got.ClientConfig, got.Rules, got.MatchConditions, got.TimeoutSeconds
			if h.OfPods {
				checkGuard(t, from, got)
			} else {
				require.Nil(t, got.NamespaceSelector, h.Name)
			}
		} else {
			require.NotEmpty(t, v.Webhooks)
			got := v.Webhooks[0]
			v.Webhooks = v.Webhooks[1:]
			require.Equal(t, h.Name, got.Name)
			require.Nil(t, got.NamespaceSelector, h.Name)
			client, rules, conditions, timeout = got.ClientConfig, got.Rules, got.MatchConditions, got.TimeoutSeconds
		}
		require.Equal(t, h.Path, *client.Service.Path)
		require.Equal(t, "flotilla-webhook."+system, client.Service.Name+"."+client.Service.Namespace)
		require.Equal(t, []admissionv1.RuleWithOperations{h.Rule}, rules)
		require.Equal(t, h.TimeoutSeconds, *timeout)
		for i, c := range h.Conditions {
			h.Conditions[i].Expression = strings.ReplaceAll(c.Expression, "\n", " ")
		}
		require.Equal(t, h.Conditions, conditions)
	}
	require.Empty(t, m.Webhooks, "not in the table")
	require.Empty(t, v.Webhooks, "not in the table")
}

// checkGuard: the guard is there exactly if the hook is ignored by design of the mode, and for the same namespaces.
func checkGuard(t *testing.T, from objects, pods admissionv1.MutatingWebhook) {
	t.Helper()
	_, bound := from[key("ValidatingAdmissionPolicyBinding", "", guard)]
	_, there := from[key("ValidatingAdmissionPolicy", "", guard)]
	require.Equal(t, bound, there)
	if *pods.FailurePolicy == admissionv1.Fail {
		require.False(t, there, "what nobody may miss needs no guard")
	}
	if there {
		policy := into[admissionv1.ValidatingAdmissionPolicy](t, from, "ValidatingAdmissionPolicy", "", guard)
		require.Equal(t, pods.NamespaceSelector, policy.Spec.MatchConstraints.NamespaceSelector)
	}
}

// TestScenario079_NoManifestHasABundle also looks at what is not rendered by default.
func TestScenario079_NoManifestHasABundle(t *testing.T) {
	member := regexp.MustCompile(`(?m)^[^#\n]*caBundle["']?\s*:`)
	looked := 0
	err := filepath.WalkDir(filepath.Join(cluster.Root, "deploy"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) == ".md" {
			return err
		}
		raw, err := os.ReadFile(path)
		require.NotRegexp(t, member, string(raw), path)
		looked++
		return err
	})
	require.NoError(t, err)
	require.Greater(t, looked, 40)
}

func TestBadValuesAreRefusedByName(t *testing.T) {
	for _, c := range []struct{ set, names string }{
		{"webhooks.podMode=lenient", "/webhooks/podMode"},
		{"webhooks.failurePolicy=Open", "/webhooks/failurePolicy"},
		{"webhookServer.replicas=-1", "/webhookServer/replicas"},
		{"webhookServer.ports.webhooks=70000", "/webhookServer/ports/webhooks"},
		{"webhookserver.replicas=2", "webhookserver"},
		{"historyNamespace=Kruise", "/historyNamespace"},
		{"webhookServer.hostNetwork=true,webhookServer.ports.webhooks=10250", "webhookServer.ports.webhooks is 10250"},
	} {
		t.Run(c.set, func(t *testing.T) {
			_, err := tryHelm(t, "template", "flotilla", chart(), "--namespace", system, "--set", c.set)
			require.ErrorContains(t, err, c.names)
		})
	}
}

// TestComponentsThatExcludeEachOtherAreRefused, whichever comes first: the kubelet has the port.
func TestComponentsThatExcludeEachOtherAreRefused(t *testing.T) {
	for _, components := range [][]string{{"host-network", "port-10250"}, {"port-10250", "host-network"}} {
		out, err := cluster.KubectlInput("", "kustomize", suite(t, components...).folder(t))
		require.Error(t, err, components)
		require.Contains(t, out+err.Error(), "recursed accumulation of path")
		require.Contains(t, out+err.Error(), components[1])
	}
}

// TestTakingOverBeginsWithoutHooks is the first step of section 10: processes, and nothing that refuses.
func TestTakingOverBeginsWithoutHooks(t *testing.T) {
	rendered := template(t, "--set", "webhooks.enabled=false,webhooks.podMode=guarded")
	all := template(t, "--set", "webhooks.podMode=guarded")
	require.Len(t, rendered, len(all)-4)
	for _, o := range rendered {
		require.NotContains(t, []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}, o.GetKind())
		require.NotEqual(t, guard, o.GetName())
	}
	for k := range parse(t, kubectl(t, "", "kustomize", filepath.Join(cluster.Root, "deploy", "webhook-server"))) {
		require.Contains(t, rendered, k)
	}
}

func TestTheChartIsClean(t *testing.T) {
	out := helm(t, "lint", chart(), "--strict")
	require.Contains(t, out, "1 chart(s) linted, 0 chart(s) failed")
}
