package webhook

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/internal/app"
)

func newServer(t *testing.T, objects ...*storagev1.StorageClass) *Server {
	t.Helper()
	kube := fake.NewClientset()
	for _, o := range objects {
		require.NoError(t, kube.Tracker().Add(o))
	}
	s, err := New(&app.Env{Kube: kube, Clock: clock.RealClock{}, Metrics: prometheus.NewRegistry(), WatchFailed: cache.DefaultWatchErrorHandler}, *DefaultOptions())
	require.NoError(t, err)
	return s
}

// hook is what both kinds of hooks have.
type hook struct {
	name       string
	client     admissionv1.WebhookClientConfig
	rules      []admissionv1.RuleWithOperations
	policy     *admissionv1.FailurePolicyType
	effects    *admissionv1.SideEffectClass
	versions   []string
	conditions []string
}

func shipped(t *testing.T) map[string]hook {
	t.Helper()
	raw, err := os.ReadFile("../../deploy/webhook-server/webhooks.yaml")
	require.NoError(t, err)
	documents := strings.Split(string(raw), "\n---\n")
	require.Len(t, documents, 2)
	var mutating admissionv1.MutatingWebhookConfiguration
	var validating admissionv1.ValidatingWebhookConfiguration
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[0]), &mutating))
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[1]), &validating))
	byPath := map[string]hook{}
	add := func(h hook, conditions []admissionv1.MatchCondition) {
		for _, c := range conditions {
			h.conditions = append(h.conditions, c.Name)
		}
		require.NotContains(t, byPath, *h.client.Service.Path)
		byPath[*h.client.Service.Path] = h
	}
	for _, h := range mutating.Webhooks {
		add(hook{h.Name, h.ClientConfig, h.Rules, h.FailurePolicy, h.SideEffects, h.AdmissionReviewVersions, nil}, h.MatchConditions)
	}
	for _, h := range validating.Webhooks {
		add(hook{h.Name, h.ClientConfig, h.Rules, h.FailurePolicy, h.SideEffects, h.AdmissionReviewVersions, nil}, h.MatchConditions)
	}
	return byPath
}

// TestScenario79EveryKindHasItsHooks compares what is shipped with what is served.
func TestScenario79EveryKindHasItsHooks(t *testing.T) {
	hooks := shipped(t)
	s := newServer(t)
	for _, k := range s.Kinds() {
		s.Admit(k)
		for verb, letter := range map[string]string{"mutate": "m", "validate": "v"} {
			name := strings.ToLower(k.Kind)
			path := "/" + verb + "-apps-kruise-io-" + name
			require.Contains(t, hooks, path)
			h := hooks[path]
			require.Equal(t, letter+name+".kb.io", h.name)
			require.Equal(t, admissionv1.Fail, *h.policy)
			require.Equal(t, admissionv1.SideEffectClassNone, *h.effects)
			require.Equal(t, []string{"v1"}, h.versions)
			require.Nil(t, h.client.CABundle)
			require.Equal(t, []string{"not-terminating", "relevant"}, h.conditions)
			require.Equal(t, []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"apps.kruise.io"}, APIVersions: []string{"v1alpha1", "v1beta1"}, Resources: []string{k.Resource}},
			}}, h.rules)
		}
	}
	s.AdmitPods()
	served := map[string]bool{}
	for _, r := range s.routes {
		served[r.path] = true
	}
	for path := range hooks {
		require.True(t, served[path], "nobody answers %s", path)
	}
	require.Len(t, hooks, len(served), "somebody answers what nobody asks")
}

func TestStorageClassesAreKnownAsFarAsTheyAreNeeded(t *testing.T) {
	class := &storagev1.StorageClass{AllowVolumeExpansion: ptr.To(true), Provisioner: "p", Parameters: map[string]string{"a": "b"}}
	class.Name, class.Annotations = "fast", map[string]string{"storageclass.kubernetes.io/is-default-class": "true", "other": "x"}
	s := newServer(t, class)
	require.Error(t, s.classes.Synced())
	s.classes.factory.StartWithContext(t.Context())
	require.True(t, cache.WaitForCacheSync(t.Context().Done(), s.classes.informer.HasSynced))
	require.NoError(t, s.classes.Synced())
	require.Equal(t, []*storagev1.StorageClass{{
		ObjectMeta:           metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		AllowVolumeExpansion: ptr.To(true),
	}}, s.classes.List())
}

// TestScenario068_TheHookOfPodsAndTheGuardAreForTheSameNamespaces: whatever the guard may refuse has been seen by the hook.
func TestScenario068_TheHookOfPodsAndTheGuardAreForTheSameNamespaces(t *testing.T) {
	raw, err := os.ReadFile("../../deploy/webhook-server/webhooks.yaml")
	require.NoError(t, err)
	var mutating admissionv1.MutatingWebhookConfiguration
	require.NoError(t, yaml.UnmarshalStrict([]byte(strings.Split(string(raw), "\n---\n")[0]), &mutating))
	raw, err = os.ReadFile("../../deploy/policies/sidecar-guard.yaml")
	require.NoError(t, err)
	var guard admissionv1.ValidatingAdmissionPolicy
	require.NoError(t, yaml.UnmarshalStrict([]byte(strings.Split(string(raw), "\n---\n")[0]), &guard))

	h := mutating.Webhooks[0]
	require.Equal(t, "mpod.kb.io", h.Name, "it is the first")
	require.Equal(t, guard.Spec.MatchConstraints.NamespaceSelector, h.NamespaceSelector)
	require.Equal(t, guard.Spec.MatchConstraints.ResourceRules[0].RuleWithOperations, h.Rules[0])
	require.Equal(t, admissionv1.Ignore, *h.FailurePolicy)
	require.EqualValues(t, 5, *h.TimeoutSeconds)
	require.Equal(t, admissionv1.SideEffectClassNone, *h.SideEffects)
	require.Equal(t, admissionv1.NeverReinvocationPolicy, *h.ReinvocationPolicy)
	require.Nil(t, h.ClientConfig.CABundle)
}
