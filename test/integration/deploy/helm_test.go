package deploy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestHelmInstallsUpgradesAndLeavesBundlesAlone is what the rotator's contract promises of Helm, on a release that Helm made itself.
func TestHelmInstallsUpgradesAndLeavesBundlesAlone(t *testing.T) {
	clean(t)
	t.Cleanup(func() {
		if _, err := tryHelmAfter(t, "uninstall", "flotilla", "--ignore-not-found", "--namespace", system); err != nil {
			t.Error(err)
		}
	})
	out := helm(t, "install", "flotilla", chart(), "--set", "webhooks.podMode=guarded")
	require.Contains(t, out, "kubectl label namespace "+system)
	require.NotContains(t, out, "The CRDs are not there")
	for name := range deployments {
		available(t, name)
	}

	policies := cluster.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	_, err := policies.Get(t.Context(), guard, metav1.GetOptions{})
	require.NoError(t, err)
	hooks := cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	before, err := hooks.Get(t.Context(), mutating, metav1.GetOptions{})
	require.NoError(t, err)
	var patch []string
	for i := range before.Webhooks {
		patch = append(patch, fmt.Sprintf(`{"op":"add","path":"/webhooks/%d/clientConfig/caBundle","value":"Y2E="}`, i))
	}
	before, err = hooks.Patch(t.Context(), mutating, types.JSONPatchType, []byte("["+strings.Join(patch, ",")+"]"), metav1.PatchOptions{FieldManager: "flotilla-cert-rotator"})
	require.NoError(t, err)

	t.Log("an upgrade that changes nothing writes nothing")
	helm(t, "upgrade", "flotilla", chart(), "--set", "webhooks.podMode=guarded")
	after, err := hooks.Get(t.Context(), mutating, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, before.ResourceVersion, after.ResourceVersion)

	t.Log("one that changes the hooks keeps their bundles")
	helm(t, "upgrade", "flotilla", chart(), "--set", "webhooks.failurePolicy=Ignore,webhooks.podMode=strict")
	after, err = hooks.Get(t.Context(), mutating, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, admissionv1.Fail, *after.Webhooks[0].FailurePolicy)
	require.Equal(t, admissionv1.Ignore, *after.Webhooks[1].FailurePolicy)
	for _, w := range after.Webhooks {
		require.Equal(t, "ca", string(w.ClientConfig.CABundle), w.Name)
	}
	_, err = policies.Get(t.Context(), guard, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	t.Log("uninstalling leaves CRDs, and with them all objects")
	helm(t, "uninstall", "flotilla", "--wait")
	_, err = hooks.Get(t.Context(), mutating, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.Contains(t, kubectl(t, "", "get", "crd", "-o", "name"), "clonesets.apps.kruise.io")
}
