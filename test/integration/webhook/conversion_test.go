package webhook

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const system = "flotilla-system"

// lab has a webhook-server and a rotator. The CRDs are the cluster's, so tests run one after the other.
type lab struct {
	*testing.T
	objects   dynamic.Interface
	namespace string
	// kinds are those that are converted.
	kinds          []string
	health, server string
	// calls is where the API server calls the server: its own address, if nobody stands between.
	calls   string
	metrics string
	process *localcluster.Process
	rotator *localcluster.Process
}

// newLab has the resources converted that the test needs; without any, all. A change of a CRD costs the API server a lot.
func newLab(t *testing.T, kinds ...string) *lab {
	t.Helper()
	if len(kinds) == 0 {
		kinds = []string{"clonesets", "statefulsets", "sidecarsets", "advancedcronjobs", "uniteddeployments"}
	}
	objects, err := dynamic.NewForConfig(cluster.Config)
	require.NoError(t, err)
	l := &lab{T: t, objects: objects, kinds: kinds, namespace: cluster.PodNamespace(t, "", nil)}
	l.health, l.server, l.metrics = harness.FreeAddress(t), harness.FreeAddress(t), harness.FreeAddress(t)
	l.calls = l.server
	l.convertAt("https://" + l.calls + "/convert")
	l.rotate()
	l.serve()
	l.isReady()
	return l
}

// rotate starts the rotator.
func (l *lab) rotate() {
	flags := []string{"--propagation-delay=1s"}
	for _, kind := range l.kinds {
		flags = append(flags, "--crd="+kind+".apps.kruise.io")
	}
	l.rotator = cluster.StartController(l, "cert-manager", system, flags...)
}

// serve starts the webhook-server.
func (l *lab) serve() {
	l.process = cluster.StartController(l, "webhook-server", "", "--bind-address="+l.server, "--health-probe-bind-address="+l.health, "--metrics-bind-address="+l.metrics,
		"--shutdown-delay=1s")
}

// convertAt lets the API server call a process on this machine.
func (l *lab) convertAt(url string) {
	l.Helper()
	crds, err := apiextensions.NewForConfig(cluster.Config)
	require.NoError(l, err)
	for _, kind := range l.kinds {
		patch := fmt.Appendf(nil, `[{"op":"add","path":"/spec/conversion/webhook/clientConfig","value":{"url":%q}}]`, url)
		_, err := crds.ApiextensionsV1().CustomResourceDefinitions().Patch(l.Context(), kind+".apps.kruise.io", types.JSONPatchType, patch, metav1.PatchOptions{})
		require.NoError(l, err)
	}
}

// isReady asks a process whether it is ready.
func isReady(ctx context.Context, health string) error {
	_, err := localcluster.Get(ctx, "http://"+health+"/readyz")
	return err
}

// isReady waits until the server has its pair and every kind is converted. A list of nothing converts nothing: only an
// object shows that the API server trusts the server.
func (l *lab) isReady() {
	l.Helper()
	harness.Eventually(l, "readiness", harness.Patience, func(ctx context.Context) error { return isReady(ctx, l.health) })
	objects := probes()
	for _, resource := range l.kinds {
		harness.Eventually(l, "conversion of "+resource, harness.Patience, func(ctx context.Context) error {
			_, err := l.of(resource, "v1alpha1").Create(ctx, objects[resource], metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		})
	}
}

// probes are one object of each kind, which are never stored.
func probes() map[string]*unstructured.Unstructured {
	job := map[string]any{"template": podTemplate()}
	job["template"].(map[string]any)["spec"].(map[string]any)["restartPolicy"] = "Never"
	set := cloneSet("v1alpha1", nil)
	set.SetName("probe")
	return map[string]*unstructured.Unstructured{
		"clonesets":         set,
		"statefulsets":      statefulSet("v1alpha1", "probe", nil),
		"uniteddeployments": united("v1alpha1", "probe", "deploymentTemplate", nil),
		"sidecarsets": object("SidecarSet", "v1alpha1", "probe", map[string]any{
			"selector": selector(), "containers": []any{map[string]any{"name": "agent", "image": "registry.example/agent:1"}},
		}),
		"advancedcronjobs": object("AdvancedCronJob", "v1alpha1", "probe", map[string]any{
			"schedule": "0 0 * * *", "template": map[string]any{"jobTemplate": map[string]any{"spec": job}},
		}),
	}
}

func (l *lab) of(resource, version string) dynamic.ResourceInterface {
	r := l.objects.Resource(schema.GroupVersionResource{Group: "apps.kruise.io", Version: version, Resource: resource})
	if resource == "sidecarsets" {
		return r
	}
	return r.Namespace(l.namespace)
}

func object(kind, version, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/" + version, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func podTemplate() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "registry.example/web:1"}}},
	}
}

func selector() map[string]any { return map[string]any{"matchLabels": map[string]any{"app": "web"}} }

func cloneSet(version string, more map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"replicas": int64(0), "selector": selector(), "template": podTemplate()}
	for k, v := range more {
		spec[k] = v
	}
	return object("CloneSet", version, "web", spec)
}

func value(t *testing.T, o *unstructured.Unstructured, path ...string) any {
	t.Helper()
	v, _, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	require.NoError(t, err)
	return v
}

func TestBothVersionsSpeakOfTheSameObject(t *testing.T) {
	l := newLab(t, "clonesets")
	alpha, beta := l.of("clonesets", "v1alpha1"), l.of("clonesets", "v1beta1")
	_, err := alpha.Create(t.Context(), cloneSet("v1alpha1", map[string]any{
		"updateStrategy": map[string]any{"type": "InPlaceIfPossible", "partition": int64(3), "maxUnavailable": "30%"},
	}), metav1.CreateOptions{})
	require.NoError(t, err)
	b, err := beta.Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "InPlaceIfPossible", value(t, b, "spec", "updateStrategy", "rollingUpdate", "podUpdatePolicy"))
	require.Equal(t, int64(3), value(t, b, "spec", "updateStrategy", "rollingUpdate", "partition"))
	require.Equal(t, true, value(t, b, "spec", "scaleStrategy", "enablePVCReuse"))
	// And the reverse.
	patch := []byte(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}`)
	_, err = beta.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	a, err := alpha.Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, int64(1), value(t, a, "spec", "updateStrategy", "partition"))

	t.Run("Scenario030_what v1alpha1 cannot say is kept", func(t *testing.T) {
		patch := []byte(`{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":{"partition":3}}}}`)
		_, err := beta.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = alpha.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":5}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		b, err := beta.Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, int64(3), value(t, b, "spec", "updateStrategy", "rollingUpdate", "partition"))
		require.Equal(t, "OnDelete", value(t, b, "spec", "updateStrategy", "type"))
	})
	t.Run("Scenario025_unknown members of a template are kept", func(t *testing.T) {
		patch := []byte(`[{"op":"add","path":"/spec/template/spec/containers/0/newField","value":9007199254740993}]`)
		_, err := beta.Patch(t.Context(), "web", types.JSONPatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = alpha.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":6}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		b, err := beta.Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		containers, _, err := unstructured.NestedSlice(b.Object, "spec", "template", "spec", "containers")
		require.NoError(t, err)
		require.Equal(t, int64(9007199254740993), containers[0].(map[string]any)["newField"])
	})
}

// TestScenario026_OneThatTheOlderVersionCannotSayHidesNoOther has a job with a template that v1alpha1 lacks among ten others.
func TestScenario026_OneThatTheOlderVersionCannotSayHidesNoOther(t *testing.T) {
	l := newLab(t, "advancedcronjobs")
	alpha, beta := l.of("advancedcronjobs", "v1alpha1"), l.of("advancedcronjobs", "v1beta1")
	jobs := map[string]any{}
	create := func(name string, template map[string]any) {
		t.Helper()
		o, err := beta.Create(t.Context(), object("AdvancedCronJob", "v1beta1", name, map[string]any{"schedule": "0 0 * * *", "template": template}), metav1.CreateOptions{})
		require.NoError(t, err)
		jobs[name] = o.Object["spec"]
	}
	job := podTemplate()
	job["spec"].(map[string]any)["restartPolicy"] = "Never"
	for i := range 10 {
		create(fmt.Sprint("job-", i), map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": job}}})
	}
	pull := map[string]any{"spec": map[string]any{"images": []any{"registry.example/web:1"}, "completionPolicy": map[string]any{"type": "Always"}}}
	create("job-5-pull", map[string]any{"imageListPullJobTemplate": pull})
	require.Equal(t, pull, jobs["job-5-pull"].(map[string]any)["template"].(map[string]any)["imageListPullJobTemplate"], "it is stored as it is")

	for version, list := range map[string]dynamic.ResourceInterface{"v1alpha1": alpha, "v1beta1": beta} {
		got, err := list.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err, version)
		require.Len(t, got.Items, 11, version)
		for _, o := range got.Items {
			require.Contains(t, jobs, o.GetName(), version)
			require.Equal(t, "apps.kruise.io/"+version, o.GetAPIVersion())
			if version == "v1beta1" {
				require.Equal(t, jobs[o.GetName()], o.Object["spec"], o.GetName())
			}
		}
	}
	// A client of the older version that writes back what it has read loses nothing of it.
	_, err := alpha.Patch(t.Context(), "job-5-pull", types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"yes"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	b, err := beta.Get(t.Context(), "job-5-pull", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, jobs["job-5-pull"], b.Object["spec"])
}

func TestScenario031_HowManyImagesAreFetchedAheadIsKept(t *testing.T) {
	l := newLab(t, "clonesets")
	alpha, beta := l.of("clonesets", "v1alpha1"), l.of("clonesets", "v1beta1")
	set := cloneSet("v1alpha1", map[string]any{"updateStrategy": map[string]any{
		"type": "InPlaceIfPossible", "inPlaceUpdateStrategy": map[string]any{"imagePreDownloadParallelism": int64(2)},
	}})
	_, err := alpha.Create(t.Context(), set, metav1.CreateOptions{})
	require.NoError(t, err)
	b, err := beta.Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 2, value(t, b, "spec", "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy", "imagePreDownloadParallelism"))
	require.Equal(t, "InPlaceIfPossible", value(t, b, "spec", "updateStrategy", "rollingUpdate", "podUpdatePolicy"))
	_, err = alpha.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":5}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	b, err = beta.Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 2, value(t, b, "spec", "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy", "imagePreDownloadParallelism"), "also by a write in the older version")
}

func TestScenario029_ReservedOrdinalsSurviveAnOldClient(t *testing.T) {
	l := newLab(t, "statefulsets")
	alpha, beta := l.of("statefulsets", "v1alpha1"), l.of("statefulsets", "v1beta1")
	_, err := beta.Create(t.Context(), object("StatefulSet", "v1beta1", "db", map[string]any{
		"replicas": int64(0), "selector": selector(), "template": podTemplate(), "serviceName": "db", "reserveOrdinals": []any{int64(1)},
	}), metav1.CreateOptions{})
	require.NoError(t, err)
	a, err := alpha.Get(t.Context(), "db", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedField(a.Object, int64(4), "spec", "replicas"))
	_, err = alpha.Update(t.Context(), a, metav1.UpdateOptions{})
	require.NoError(t, err)
	b, err := beta.Get(t.Context(), "db", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []any{int64(1)}, value(t, b, "spec", "reserveOrdinals"))
	require.Equal(t, int64(4), value(t, b, "spec", "replicas"))
}

func TestScenario038_WithoutTheWebhookTheStoredVersionWorks(t *testing.T) {
	l := newLab(t, "clonesets")
	beta := l.of("clonesets", "v1beta1")
	_, err := beta.Create(t.Context(), cloneSet("v1beta1", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	l.process.Kill()
	_, err = beta.Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	_, err = l.of("clonesets", "v1alpha1").Get(t.Context(), "web", metav1.GetOptions{})
	require.Error(t, err)
	require.NoError(t, beta.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	l.serve()
	l.isReady()
}
