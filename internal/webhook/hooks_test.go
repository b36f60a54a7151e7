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
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/hooks"
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

// TestScenario79EveryHookIsServedAndWhatIsServedHasAHook compares the table that the manifests are made of with the paths.
func TestScenario79EveryHookIsServedAndWhatIsServedHasAHook(t *testing.T) {
	s := newServer(t)
	resources := map[string]string{}
	for _, k := range s.Kinds() {
		s.Admit(k)
		resources[k.Resource] = strings.ToLower(k.Kind)
	}
	s.AdmitPods()
	served := map[string]bool{}
	for _, r := range s.routes {
		served[r.path] = true
	}
	names := map[string]bool{}
	for _, h := range hooks.All() {
		require.False(t, names[h.Name], "%s twice", h.Name)
		names[h.Name] = true
		require.True(t, served[h.Path], "nobody answers %s", h.Path)
		delete(served, h.Path)
		if h.OfPods {
			require.Equal(t, admissionv1.Ignore, h.FailurePolicy, "it stands before every Pod of the cluster")
			continue
		}
		require.Equal(t, admissionv1.Fail, h.FailurePolicy, h.Name)
		letter, verb := "v", "/validate"
		if h.Mutates {
			letter, verb = "m", "/mutate"
		}
		kind := resources[h.Rule.Resources[0]]
		require.NotEmpty(t, kind, h.Name)
		require.Equal(t, letter+kind+".kb.io", h.Name)
		require.Equal(t, verb+"-apps-kruise-io-"+kind, h.Path)
		require.Equal(t, admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{"apps.kruise.io"}, APIVersions: []string{"v1alpha1", "v1beta1"}, Resources: h.Rule.Resources},
		}, h.Rule)
	}
	require.Empty(t, served, "no hook calls these")
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
	raw, err := os.ReadFile("../../deploy/webhooks/webhooks.yaml")
	require.NoError(t, err)
	var mutating admissionv1.MutatingWebhookConfiguration
	require.NoError(t, yaml.UnmarshalStrict([]byte(strings.Split(string(raw), "\n---\n")[0]), &mutating))
	raw, err = os.ReadFile("../../deploy/sidecar-guard/sidecar-guard.yaml")
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
