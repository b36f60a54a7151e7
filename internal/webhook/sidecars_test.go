package webhook

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	ours "github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned/fake"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/kube"
)

func TestWhatIsKnownOfSidecarSets(t *testing.T) {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"kruise.io/sidecarset-name": "logger"}, Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "a": "b"}}
	}
	env := &app.Env{
		Kube: fake.NewClientset(
			&appsv1.ControllerRevision{ObjectMeta: meta("history", "logger-1")},
			&appsv1.ControllerRevision{ObjectMeta: meta("elsewhere", "logger-2")},
			&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "history", Name: "somebody-elses"}},
			&corev1.ConfigMap{ObjectMeta: meta("history", "kruise-configuration"), Data: map[string]string{"SidecarSet_PatchPodMetadata_WhiteList": "{}"}},
		),
		Flotilla: ours.NewClientset(&v1beta1.SidecarSet{ObjectMeta: meta("", "logger")}),
		Clock:    clock.RealClock{}, Metrics: prometheus.NewRegistry(), WatchFailed: cache.DefaultWatchErrorHandler,
	}
	o := DefaultOptions()
	o.HistoryNamespace, o.PatchPodMetadataAllowed = "history", true
	namespaces, err := newNamespaces(env)
	require.NoError(t, err)
	s, err := newSidecars(env, *o, namespaces)
	require.NoError(t, err)
	require.ErrorContains(t, s.Ready(), "have not been read")
	require.Nil(t, s.Cluster().WhiteList)
	s.start(t.Context())
	require.True(t, cache.WaitForCacheSync(t.Context().Done(), s.indexed, s.revisions.HasSynced, s.settings.HasSynced, namespaces.informer.HasSynced))
	require.NoError(t, s.Ready())
	c := s.Cluster()
	require.Len(t, c.Sets, 1)
	require.Equal(t, map[string]string{"a": "b"}, c.Sets[0].Annotations, "what nobody reads is not kept")
	require.Len(t, c.Revisions, 1)
	require.Equal(t, "logger-1", c.Revisions[0].Name)
	require.Equal(t, "{}", *c.WhiteList)
	require.True(t, c.PatchAllowed)
}

// stored is a SidecarSet as the client reads it.
func stored(t *testing.T, uid, spec string) *v1beta1.SidecarSet {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"name":"logger","uid":%q},"spec":%s}`, uid, spec)
	}))
	defer server.Close()
	client, err := kube.NewFlotilla(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	set, err := client.AppsV1beta1().SidecarSets().Get(t.Context(), "logger", metav1.GetOptions{})
	require.NoError(t, err)
	return set
}

func TestASidecarSetThatCannotBeReadIsTakenForWhatItWas(t *testing.T) {
	const good, bad = `{"selector":{"matchLabels":{"app":"web"}},"containers":[{"name":"logger"}]}`, `{"selector":"all"}`
	registry := prometheus.NewRegistry()
	env := &app.Env{Kube: fake.NewClientset(), Flotilla: ours.NewClientset(), Clock: clock.RealClock{}, Metrics: registry, WatchFailed: cache.DefaultWatchErrorHandler}
	s, err := newSidecars(env, *DefaultOptions(), &Namespaces{})
	require.NoError(t, err)
	see := func(what string, selects, unknown, unreadable int) {
		t.Helper()
		selecting, err := s.Selecting(t.Context(), "d", map[string]string{"app": "web"})
		require.NoError(t, err)
		require.Len(t, selecting, selects, what)
		require.Len(t, s.Cluster().Sets, selects, what)
		require.Len(t, s.Cluster().Unknown, unknown, what)
		told, err := registry.Gather()
		require.NoError(t, err)
		require.Len(t, told, unreadable, what)
		if unreadable > 0 {
			require.Equal(t, "flotilla_sidecarset_unreadable", told[0].GetName())
			require.Equal(t, "logger", told[0].GetMetric()[0].GetLabel()[0].GetValue())
		}
	}
	s.put(stored(t, "1", bad))
	see("nothing is known of it", 0, 1, 1)
	s.put(stored(t, "1", good))
	see("mended", 1, 0, 0)
	s.put(stored(t, "1", bad))
	see("as before", 1, 0, 1)
	s.put(stored(t, "2", bad))
	see("another of that name", 0, 1, 1)
	s.put(stored(t, "2", good))
	s.remove(stored(t, "2", bad))
	see("gone", 0, 0, 0)
}
