package webhook

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// hooks reads the configurations as shipped, but for their address: the process runs on this machine.
func (l *lab) hooks() (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration) {
	l.Helper()
	raw, err := os.ReadFile(filepath.Join(cluster.Root, "deploy", "webhooks", "webhooks.yaml"))
	require.NoError(l, err)
	require.NotContains(l, strings.ReplaceAll(string(raw), "# ", ""), "caBundle:")
	here := func(c *admissionv1.WebhookClientConfig) {
		*c = admissionv1.WebhookClientConfig{URL: ptr.To("https://" + l.calls + *c.Service.Path)}
	}
	documents := strings.Split(string(raw), "\n---\n")
	require.Len(l, documents, 2)
	mutating := &admissionv1.MutatingWebhookConfiguration{}
	require.NoError(l, yaml.UnmarshalStrict([]byte(documents[0]), mutating))
	for i := range mutating.Webhooks {
		here(&mutating.Webhooks[i].ClientConfig)
	}
	validating := &admissionv1.ValidatingWebhookConfiguration{}
	require.NoError(l, yaml.UnmarshalStrict([]byte(documents[1]), validating))
	for i := range validating.Webhooks {
		here(&validating.Webhooks[i].ClientConfig)
	}
	return mutating, validating
}

// validate registers the validating hooks.
func (l *lab) validate() {
	l.Helper()
	_, validating := l.hooks()
	_, err := cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(l.Context(), validating, metav1.CreateOptions{})
	require.NoError(l, err)
}

// admit registers all hooks.
func (l *lab) admit() {
	l.Helper()
	mutating, validating := l.hooks()
	api := cluster.Kube.AdmissionregistrationV1()
	_, err := api.MutatingWebhookConfigurations().Create(l.Context(), mutating, metav1.CreateOptions{})
	require.NoError(l, err)
	l.validate()
	l.Cleanup(func() {
		// The test's own context has ended by now.
		_ = api.MutatingWebhookConfigurations().Delete(context.Background(), mutating.Name, metav1.DeleteOptions{})
		_ = api.ValidatingWebhookConfigurations().Delete(context.Background(), validating.Name, metav1.DeleteOptions{})
	})
	harness.Eventually(l, "admission", harness.Patience, func(ctx context.Context) error {
		o, err := l.of("clonesets", "v1beta1").Create(ctx, cloneSet("v1beta1", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if value(l.T, o, "spec", "revisionHistoryLimit") == nil {
			return errors.New("nobody has filled in the defaults")
		}
		// The API server learns of the two configurations one after the other; only the validating hook refuses this template.
		bad := cloneSet("v1beta1", nil)
		require.NoError(l, unstructured.SetNestedSlice(bad.Object, []any{map[string]any{"name": "C_", "image": "x"}}, "spec", "template", "spec", "containers"))
		_, err = l.of("clonesets", "v1beta1").Create(ctx, bad, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("nobody has looked at the template")
		}
		if !apierrors.IsInvalid(err) {
			return err
		}
		return nil
	})
}

func TestAdmissionOnARealServer(t *testing.T) {
	l := newLab(t, "clonesets")
	l.admit()
	alpha, beta := l.of("clonesets", "v1alpha1"), l.of("clonesets", "v1beta1")

	t.Run("defaults reach both versions", func(t *testing.T) {
		set := cloneSet("v1alpha1", nil)
		set.SetName("old")
		created, err := alpha.Create(t.Context(), set, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, "ReCreate", value(t, created, "spec", "updateStrategy", "type"))
		b, err := beta.Get(t.Context(), "old", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "20%", value(t, b, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable"))
		require.Equal(t, true, value(t, b, "spec", "scaleStrategy", "enablePVCReuse"))
	})

	t.Run("Scenario084_the API server judges the template", func(t *testing.T) {
		bad := cloneSet("v1beta1", nil)
		template := podTemplate()
		template["spec"] = map[string]any{"containers": []any{map[string]any{
			"name": "C_", "ports": []any{map[string]any{"containerPort": int64(99999)}},
			"volumeMounts": []any{map[string]any{"name": "nope", "mountPath": "/x"}},
		}}}
		bad.Object["spec"].(map[string]any)["template"] = template
		_, err := beta.Create(t.Context(), bad, metav1.CreateOptions{})
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		var fields []string
		var status apierrors.APIStatus
		require.ErrorAs(t, err, &status)
		for _, c := range status.Status().Details.Causes {
			fields = append(fields, strings.TrimPrefix(c.Field, "spec.template.spec.containers[0]."))
		}
		require.Subset(t, fields, []string{"name", "image", "ports[0].containerPort", "volumeMounts[0].name"})
		list, err := cluster.Kube.CoreV1().PodTemplates(l.namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, list.Items)
	})

	t.Run("what only the webhook can know is refused with the field", func(t *testing.T) {
		only := cloneSet("v1beta1", map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"podUpdatePolicy": "InPlaceOnly"}}})
		only.SetName("only")
		_, err := beta.Create(t.Context(), only, metav1.CreateOptions{})
		require.NoError(t, err)
		patch := []byte(`[{"op":"add","path":"/spec/template/spec/containers/0/env","value":[{"name":"A","value":"1"}]}]`)
		_, err = beta.Patch(t.Context(), "only", types.JSONPatchType, patch, metav1.PatchOptions{})
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "spec.template")
		require.ErrorContains(t, err, "env of container main")
	})
}

func TestScenario012_ReadinessIsNoMatterOfTheHooks(t *testing.T) {
	l := newLab(t, "clonesets")
	l.admit()
	mutating, validating := l.hooks()
	api := cluster.Kube.AdmissionregistrationV1()
	require.NoError(t, api.MutatingWebhookConfigurations().Delete(t.Context(), mutating.Name, metav1.DeleteOptions{}))
	require.NoError(t, api.ValidatingWebhookConfigurations().Delete(t.Context(), validating.Name, metav1.DeleteOptions{}))
	harness.Eventually(t, "admission without hooks", harness.Patience, func(ctx context.Context) error {
		o, err := l.of("clonesets", "v1beta1").Create(ctx, cloneSet("v1beta1", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && value(t, o, "spec", "revisionHistoryLimit") != nil {
			err = errors.New("somebody fills in the defaults")
		}
		return err
	})
	require.NoError(t, isReady(t.Context(), l.health), "a server that runs stays ready")
	l.process.Kill()
	l.serve()
	l.isReady()
}
