package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	ours "github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned/fake"
	"github.com/flotilla-k8s/flotilla/internal/app"
)

func setOf(name string, pods, namespaces *metav1.LabelSelector) *v1beta1.SidecarSet {
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.Selector, set.Spec.NamespaceSelector = pods, namespaces
	return set
}

func wanting(pairs ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		s.MatchLabels[pairs[i]] = pairs[i+1]
	}
	return s
}

// newSelection knows those namespaces and sets.
func newSelection(t testing.TB, namespaces []runtime.Object, sets ...runtime.Object) (*Sidecars, *fake.Clientset, *ours.Clientset) {
	t.Helper()
	kube, flotilla := fake.NewClientset(namespaces...), ours.NewClientset(sets...)
	env := &app.Env{Kube: kube, Flotilla: flotilla, Clock: clock.RealClock{}, Metrics: prometheus.NewRegistry(), WatchFailed: cache.DefaultWatchErrorHandler}
	known, err := newNamespaces(env)
	require.NoError(t, err)
	s, err := newSidecars(env, *DefaultOptions(), known)
	require.NoError(t, err)
	require.ErrorContains(t, s.Ready(), "have not been read")
	s.start(t.Context())
	require.Eventually(t, func() bool { return s.Ready() == nil }, testPatience, testPatience/1000)
	return s, kube, flotilla
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"a": "b"}}}
}

func (s *Sidecars) names(t *testing.T, namespace string, labels map[string]string) []string {
	t.Helper()
	sets, err := s.Selecting(t.Context(), namespace, labels)
	require.NoError(t, err)
	out := []string{}
	for _, set := range sets {
		out = append(out, set.Name)
	}
	return out
}

func TestScenario067_WhoSelectsAPod(t *testing.T) {
	web := map[string]string{"app": "web"}
	s, kube, flotilla := newSelection(t,
		[]runtime.Object{namespace("prod", map[string]string{"env": "prod"}), namespace("bare", nil)},
		setOf("everywhere", wanting("app", "web"), nil), setOf("by-label", wanting("app", "web"), wanting("env", "prod")),
		setOf("by-name", wanting("app", "web"), wanting("kubernetes.io/metadata.name", "bare")), setOf("of-others", wanting("app", "db"), nil))
	require.Equal(t, []string{"by-label", "everywhere"}, s.names(t, "prod", web))
	require.Equal(t, []string{"by-name", "everywhere"}, s.names(t, "bare", web))
	require.Empty(t, s.names(t, "prod", map[string]string{"app": "none"}))

	// A namespace that is not known is asked for, if its labels matter.
	reads, answer := 0, error(nil)
	kube.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		reads++
		return true, namespace("new", map[string]string{"env": "prod"}), answer
	})
	require.Equal(t, []string{"of-others"}, s.names(t, "new", map[string]string{"app": "db"}))
	require.Zero(t, reads)
	require.Equal(t, []string{"by-label", "everywhere"}, s.names(t, "new", web))
	require.Equal(t, 1, reads)
	answer = errors.New("away")
	_, err := s.Selecting(t.Context(), "new", web)
	require.ErrorContains(t, err, "Namespace new: away")

	// What changes is followed.
	sets := flotilla.AppsV1beta1().SidecarSets()
	require.NoError(t, sets.Delete(t.Context(), "everywhere", metav1.DeleteOptions{}))
	require.NoError(t, sets.Delete(t.Context(), "by-name", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return len(s.names(t, "bare", web)) == 0 }, testPatience, testPatience/1000)
}

func TestNamespacesAreKnownAsFarAsTheyAreNeeded(t *testing.T) {
	s, _, _ := newSelection(t, []runtime.Object{namespace("prod", map[string]string{"env": "prod"})})
	require.Equal(t, []any{namespaceOf("prod", map[string]string{"env": "prod"})}, s.namespaces.informer.GetStore().List())
}

func namespaceOf(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// crowd are 1,000 sets, of which two select the Pod of the review if its app is web.
func crowd(app string) []runtime.Object {
	sets := []runtime.Object{setOf("a", wanting("app", app, "tier", "front"), nil), setOf("b", wanting("version", "v1", "app", app), wanting("kubernetes.io/metadata.name", "default"))}
	for i := len(sets); i < 1000; i++ {
		sets = append(sets, setOf(fmt.Sprint(i), wanting("tier", "front", "app", fmt.Sprint(i)), nil))
	}
	return sets
}

// reviewOf answers what the API server sends when a Pod is created.
func reviewOf(t testing.TB, app string) func() {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", "pod-review.json"))
	require.NoError(t, err)
	sidecars, _, _ := newSelection(t, nil, crowd(app)...)
	s := &Server{sidecars: sidecars, metrics: newMetrics(prometheus.NewRegistry())}
	s.AdmitPods()
	ctx := t.Context()
	return func() {
		if err := checkBody(body, maxDepth); err != nil {
			t.Fatal(err)
		}
		if _, code, err := s.routes[0].handle(ctx, body); err != nil || code != http.StatusOK {
			t.Fatal(code, err)
		}
	}
}

// TestAPodThatNoSetSelectsCostsLittle counts allocations, of which every Pod of the cluster costs as many.
func TestAPodThatNoSetSelectsCostsLittle(t *testing.T) {
	require.LessOrEqual(t, testing.AllocsPerRun(100, reviewOf(t, "none")), 30.0)
}

func BenchmarkPod(b *testing.B) {
	for name, app := range map[string]string{"no match": "none", "2 of 1000 match": "web"} {
		b.Run(name, func(b *testing.B) {
			review := reviewOf(b, app)
			b.ReportAllocs()
			for b.Loop() {
				review()
			}
		})
	}
}
