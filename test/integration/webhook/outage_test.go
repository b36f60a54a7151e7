package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// asked are the reviews of all hooks of ours that were answered, by path.
func (l *lab) asked() map[string]int {
	l.Helper()
	out := l.measured()
	maps.DeleteFunc(out, func(series string, _ int) bool {
		return !strings.HasPrefix(series, "flotilla_webhook_requests_total{") || strings.Contains(series, `path="/convert"`)
	})
	return out
}

func TestScenario053_054_WhatIsNotAboutTheSpecCallsNoHook(t *testing.T) {
	l := newLab(t, "statefulsets")
	l.admit()
	sets := l.of("statefulsets", "v1beta1")
	_, err := sets.Create(t.Context(), statefulSet("v1beta1", "web", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	patch := func(patch string) {
		t.Helper()
		_, err := sets.Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err, patch)
	}
	before := l.asked()
	patch(`{"metadata":{"labels":{"a":"b"}}}`)
	require.NotEqual(t, before, l.asked(), "a hook that is called is counted")

	before = l.asked()
	patch(`{"metadata":{"finalizers":["example.com/x","example.com/y"]}}`)
	set, err := sets.Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	same, err := sets.Update(t.Context(), set, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, set.GetResourceVersion(), same.GetResourceVersion(), "nothing was changed")
	patch(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`)
	patch(`{"metadata":{"ownerReferences":null}}`)
	// 54: from now on it is terminating.
	require.NoError(t, sets.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	// The API server begins a write with what its cache has, asks the hooks about that, and only then finds that it was old.
	harness.Eventually(t, "the cache", harness.Patience, func(ctx context.Context) error {
		set, err := sets.Get(ctx, "web", metav1.GetOptions{ResourceVersion: "0"})
		if err == nil && set.GetDeletionTimestamp() == nil {
			return errors.New("the deletion is not in it")
		}
		return err
	})
	patch(`{"spec":{"replicas":7}}`)
	patch(`{"metadata":{"labels":{"a":"c"},"finalizers":["example.com/x"]}}`)
	patch(`{"metadata":{"finalizers":null}}`)
	_, err = sets.Get(t.Context(), "web", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.Equal(t, before, l.asked())
}

const webManifest = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "registry.example/web:1"}]
`

func (l *lab) kubectl(stdin string, args ...string) (string, error) {
	return cluster.KubectlInput(stdin, append([]string{"-n", l.namespace}, args...)...)
}

// works runs kubectl, which must succeed.
func (l *lab) works(stdin string, args ...string) string {
	l.Helper()
	out, err := l.kubectl(stdin, args...)
	require.NoError(l, err, "%v: %s", args, out)
	return out
}

func (l *lab) web() *unstructured.Unstructured {
	l.Helper()
	o, err := l.of("clonesets", "v1beta1").Get(l.Context(), "web", metav1.GetOptions{})
	require.NoError(l, err)
	return o
}

func TestScenario055_WithoutTheServerOnlyChangesOfTheSpecWait(t *testing.T) {
	l := newLab(t, "clonesets")
	l.admit()
	l.works(webManifest, "apply", "-f", "-")
	cluster.StartController(t, "cloneset-controller", l.namespace)
	l.podsOf(1)
	l.process.Kill()

	// What can start a rollout waits, and the error says for whom.
	changed := strings.Replace(webManifest, "web:1", "web:2", 1)
	out, err := l.kubectl(changed, "apply", "-f", "-")
	require.Error(t, err)
	require.Contains(t, out, "mcloneset.kb.io")
	out, err = l.kubectl("", "patch", "cloneset", "web", "--type=json", "-p", `[
		{"op": "test", "path": "/spec/template/spec/containers/0/name", "value": "main"},
		{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "registry.example/web:2"}]`)
	require.Error(t, err)
	require.Contains(t, out, "mcloneset.kb.io")

	// Scaling does not, and controllers go on writing Pods and status.
	l.works("", "scale", "cloneset", "web", "--replicas=2")
	l.podsOf(2)
	replicas := func(n int64) {
		t.Helper()
		harness.Eventually(t, fmt.Sprintf("a status of %d replicas", n), harness.Patience, func(context.Context) error {
			if got := value(t, l.web(), "status", "replicas"); got != n {
				return fmt.Errorf("it is of %v", got)
			}
			return nil
		})
	}
	replicas(2)
	// An autoscaler that wants more than there are needs no metrics.
	l.works("", "autoscale", "cloneset", "web", "--min=4", "--max=5", "--cpu=50%")
	l.podsOf(4)
	replicas(4)

	// Finalizers and deletion do not wait either, nor does anything of others.
	l.works("", "patch", "cloneset", "web", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/x"]}}`)
	l.works("", "delete", "cloneset", "web", "--wait=false")
	l.works("", "patch", "cloneset", "web", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	l.podsOf(0)
	l.works("", "create", "configmap", "x", "--from-literal=a=b")
	l.works("", "create", "deployment", "x", "--image=registry.example/web:1")
	l.podsOf(1)
}

// open sets the policy of all hooks of kinds to Ignore, as the component admission-open does.
func (l *lab) open() {
	l.Helper()
	api := cluster.Kube.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(l.Context(), "flotilla-mutating-webhook-configuration", metav1.GetOptions{})
	require.NoError(l, err)
	ignore := admissionv1.Ignore
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].FailurePolicy = &ignore
	}
	_, err = api.MutatingWebhookConfigurations().Update(l.Context(), mutating, metav1.UpdateOptions{})
	require.NoError(l, err)
	validating, err := api.ValidatingWebhookConfigurations().Get(l.Context(), "flotilla-validating-webhook-configuration", metav1.GetOptions{})
	require.NoError(l, err)
	for i := range validating.Webhooks {
		validating.Webhooks[i].FailurePolicy = &ignore
	}
	_, err = api.ValidatingWebhookConfigurations().Update(l.Context(), validating, metav1.UpdateOptions{})
	require.NoError(l, err)
}

func TestScenario056_057_WithoutTheServerAndWithOpenHooksTheSchemaHolds(t *testing.T) {
	l := newLab(t, "clonesets")
	l.admit()
	cluster.StartController(t, "cloneset-controller", l.namespace)
	l.process.Kill()
	_, err := l.kubectl(webManifest, "apply", "-f", "-")
	require.Error(t, err)
	l.open()
	harness.Eventually(t, "an object that nobody has looked at", harness.Patience, func(context.Context) error {
		out, err := l.kubectl(webManifest, "apply", "-f", "-")
		if err != nil {
			return errors.New(out)
		}
		return nil
	})
	require.Nil(t, value(t, l.web(), "spec", "updateStrategy"), "nobody has filled in defaults")

	t.Run("Scenario056_the same apply works, and the controller has defaults of its own", func(t *testing.T) {
		image := func(image string) {
			t.Helper()
			harness.Eventually(t, "a Pod of "+image, harness.Patience, func(ctx context.Context) error {
				pods, err := cluster.Kube.CoreV1().Pods(l.namespace).List(ctx, metav1.ListOptions{})
				if err != nil {
					return err
				}
				for _, p := range pods.Items {
					if p.Spec.Containers[0].Image == image && p.Spec.Containers[0].ImagePullPolicy == corev1.PullAlways {
						return nil
					}
				}
				return fmt.Errorf("not among %d", len(pods.Items))
			})
		}
		image("registry.example/web:1")
		l.works(strings.Replace(webManifest, "web:1", "web:2", 1), "apply", "-f", "-")
		image("registry.example/web:2")
		out, err := l.kubectl(strings.ReplaceAll(webManifest, "app: web", "app: other"), "apply", "-f", "-")
		require.Error(t, err)
		require.Contains(t, out, "spec.selector")
		require.NotContains(t, out, ".kb.io")
	})

	t.Run("Scenario057_the schema refuses what could never work", func(t *testing.T) {
		job := finite()
		two := map[string]any{
			"jobTemplate":          map[string]any{"spec": map[string]any{"template": job}},
			"broadcastJobTemplate": map[string]any{"spec": map[string]any{"template": job}},
		}
		for resource, bad := range map[string]struct {
			object *unstructured.Unstructured
			field  string
		}{
			"advancedcronjobs": {object("AdvancedCronJob", "v1beta1", "bad", map[string]any{"schedule": "@daily", "template": two}), "spec.template"},
			"statefulsets":     {statefulSet("v1beta1", "bad", map[string]any{"serviceName": "x", "ordinals": map[string]any{"start": int64(-1)}}), "spec.ordinals.start"},
			"clonesets":        {cloneSet("v1beta1", map[string]any{"selector": map[string]any{}}), "spec.selector"},
		} {
			bad.object.SetName("bad")
			_, err := l.create(t, resource, "v1beta1", bad.object)
			require.True(t, apierrors.IsInvalid(err), "%s: %v", resource, err)
			require.Contains(t, causes(t, err), bad.field)
			require.NotContains(t, err.Error(), ".kb.io")
		}
	})
}
