package webhook

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// sidecarSet has one container, of the set's name. It is removed when the test ends: it is in no namespace.
func (l *lab) sidecarSet(version, name string, container, more map[string]any) *unstructured.Unstructured {
	l.Helper()
	l.Cleanup(func() {
		// The test's own context has ended by now.
		_ = l.of("sidecarsets", "v1beta1").Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	c := map[string]any{"name": name, "image": "registry.example/agent:1"}
	for k, v := range container {
		c[k] = v
	}
	spec := map[string]any{"selector": selector(), "containers": []any{c}}
	for k, v := range more {
		spec[k] = v
	}
	return object("SidecarSet", version, name, spec)
}

// causes are the fields of a refusal.
func causes(t *testing.T, err error) []string {
	t.Helper()
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	var status apierrors.APIStatus
	require.ErrorAs(t, err, &status)
	var fields []string
	for _, c := range status.Status().Details.Causes {
		fields = append(fields, c.Field)
	}
	slices.Sort(fields)
	return fields
}

func TestSidecarSetAdmissionOnARealServer(t *testing.T) {
	l := newLab(t, "sidecarsets")
	l.admit()
	alpha, beta := l.of("sidecarsets", "v1alpha1"), l.of("sidecarsets", "v1beta1")

	t.Run("Scenario001_defaults and hashes reach both versions", func(t *testing.T) {
		a, err := alpha.Create(t.Context(), l.sidecarSet("v1alpha1", "old", map[string]any{"futureField": true}, map[string]any{"namespace": "elsewhere"}), metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, "elsewhere", value(t, a, "spec", "namespace"))
		b, err := beta.Get(t.Context(), "old", metav1.GetOptions{})
		require.NoError(t, err)
		for _, o := range []*unstructured.Unstructured{a, b} {
			require.Equal(t, "RollingUpdate", value(t, o, "spec", "updateStrategy", "type"))
			require.Len(t, value(t, o, "metadata", "annotations", "kruise.io/sidecarset-hash"), 64)
			c := value(t, o, "spec", "containers").([]any)[0].(map[string]any)
			require.Equal(t, "IfNotPresent", c["imagePullPolicy"])
			require.Equal(t, "BeforeAppContainer", c["podInjectPolicy"])
			// Scenario 12: what is not known stays.
			require.Equal(t, true, c["futureField"])
		}
		require.Equal(t, a.GetAnnotations()["kruise.io/sidecarset-hash"], b.GetAnnotations()["kruise.io/sidecarset-hash"])
		require.Equal(t, map[string]any{"kubernetes.io/metadata.name": "elsewhere"}, value(t, b, "spec", "namespaceSelector", "matchLabels"))
		again, err := beta.Update(t.Context(), b, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Equal(t, b.GetResourceVersion(), again.GetResourceVersion(), "what is complete is not changed")
	})

	t.Run("Scenario052_three violations are one refusal", func(t *testing.T) {
		bad := l.sidecarSet("v1beta1", "bad", map[string]any{
			"upgradeStrategy": map[string]any{"upgradeType": "HotUpgrade"},
			"transferEnv":     []any{map[string]any{"envName": "A"}},
		}, map[string]any{"customVersion": "bad value!"})
		_, err := beta.Create(t.Context(), bad, metav1.CreateOptions{})
		require.Equal(t, []string{"spec.containers[0].transferEnv[0]", "spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage", "spec.customVersion"}, causes(t, err))
	})

	t.Run("Scenario020_the API server judges the containers", func(t *testing.T) {
		mounts := map[string]any{"volumeMounts": []any{map[string]any{"name": "v", "mountPath": "/x"}}}
		_, err := beta.Create(t.Context(), l.sidecarSet("v1beta1", "mounts", mounts, nil), metav1.CreateOptions{})
		require.Equal(t, []string{"spec.containers[0].volumeMounts[0].name"}, causes(t, err))
		devices := map[string]any{
			"volumeMounts":  []any{map[string]any{"name": "v", "mountPath": "/x"}},
			"volumeDevices": []any{map[string]any{"name": "claim", "devicePath": "/x"}},
		}
		volumes := []any{map[string]any{"name": "v"}, map[string]any{"name": "claim", "persistentVolumeClaim": map[string]any{"claimName": "c"}}}
		_, err = beta.Create(t.Context(), l.sidecarSet("v1beta1", "devices", devices, map[string]any{"volumes": volumes}), metav1.CreateOptions{})
		require.NotEmpty(t, causes(t, err))
		require.ErrorContains(t, err, "spec.containers[0].volume")
		initOnly := map[string]any{"containers": []any{}, "initContainers": []any{map[string]any{"name": "setup", "image": ""}}}
		_, err = beta.Create(t.Context(), l.sidecarSet("v1beta1", "init-only", nil, initOnly), metav1.CreateOptions{})
		require.Equal(t, []string{"spec.initContainers[0].image"}, causes(t, err))
	})

	t.Run("Scenario021_who would meet another in a Pod is refused", func(t *testing.T) {
		_, err := beta.Create(t.Context(), l.sidecarSet("v1beta1", "first", map[string]any{"name": "shared"}, nil), metav1.CreateOptions{})
		require.NoError(t, err)
		second := l.sidecarSet("v1beta1", "second", map[string]any{"name": "shared"}, nil)
		harness.Eventually(t, "a refusal", harness.Patience, func(ctx context.Context) error {
			_, err := beta.Create(ctx, second, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil {
				return errors.New("the server has not seen the first one yet")
			}
			require.Equal(t, []string{"spec.containers[0].name"}, causes(t, err))
			require.ErrorContains(t, err, "SidecarSet first")
			return nil
		})
	})

	t.Run("Scenarios033and034_a revision of its own can be pinned", func(t *testing.T) { pinned(t, l) })
	t.Run("Scenario025_what may be patched is in the ConfigMap", func(t *testing.T) { permitted(t, l) })
}

func pinned(t *testing.T, l *lab) {
	beta := l.of("sidecarsets", "v1beta1")
	_, err := beta.Create(t.Context(), l.sidecarSet("v1beta1", "pins", nil, nil), metav1.CreateOptions{})
	require.NoError(t, err)
	revisions := cluster.Kube.AppsV1().ControllerRevisions(system)
	for _, owner := range []string{"pins", "others"} {
		r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: owner + "-1", Labels: map[string]string{"kruise.io/sidecarset-name": owner}}, Revision: 1, Data: runtime.RawExtension{Raw: []byte("{}")}}
		_, err := revisions.Create(t.Context(), r, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = revisions.Delete(context.Background(), owner+"-1", metav1.DeleteOptions{}) })
	}
	pin := func(ctx context.Context, name string) error {
		_, err := beta.Patch(ctx, "pins", types.MergePatchType, []byte(`{"spec":{"injectionStrategy":{"revision":{"revisionName":"`+name+`"}}}}`), metav1.PatchOptions{})
		return err
	}
	harness.Eventually(t, "a pin", harness.Patience, func(ctx context.Context) error { return pin(ctx, "pins-1") })
	require.Equal(t, []string{"spec.injectionStrategy.revision"}, causes(t, pin(t.Context(), "others-1")))
	require.NoError(t, revisions.Delete(t.Context(), "pins-1", metav1.DeleteOptions{}))
	harness.Eventually(t, "a refusal", harness.Patience, func(ctx context.Context) error {
		if err := pin(ctx, "pins-2"); err == nil {
			return errors.New("a revision that never was is pinned")
		}
		_, err := beta.Patch(ctx, "pins", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		return err
	})
}

func permitted(t *testing.T, l *lab) {
	beta := l.of("sidecarsets", "v1beta1")
	patching := l.sidecarSet("v1beta1", "patching", nil, map[string]any{
		"patchPodMetadata": []any{map[string]any{"annotations": map[string]any{"oom-score": `{"agent":1}`}, "patchPolicy": "MergePatchJson"}},
	})
	_, err := beta.Create(t.Context(), patching, metav1.CreateOptions{})
	require.Equal(t, []string{"spec.patchPodMetadata"}, causes(t, err))
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kruise-configuration"},
		Data:       map[string]string{"SidecarSet_PatchPodMetadata_WhiteList": `{"rules":[{"allowedAnnotationKeyExprs":["^oom-score$"]}]}`},
	}
	_, err = cluster.Kube.CoreV1().ConfigMaps(system).Create(t.Context(), settings, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = cluster.Kube.CoreV1().ConfigMaps(system).Delete(context.Background(), settings.Name, metav1.DeleteOptions{})
	})
	harness.Eventually(t, "permission", harness.Patience, func(ctx context.Context) error {
		_, err := beta.Create(ctx, patching, metav1.CreateOptions{})
		return err
	})
}
