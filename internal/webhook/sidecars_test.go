package webhook

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	ours "github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned/fake"
	"github.com/flotilla-k8s/flotilla/internal/app"
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
