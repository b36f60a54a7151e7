package certs

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/internal/certs"
	"github.com/flotilla-k8s/flotilla/test/harness"
)

// manifest is the configuration as somebody keeps it in a repository: without any caBundle.
func manifest(t *testing.T, hooks ...string) string {
	t.Helper()
	type object = map[string]any
	var list []any
	for _, name := range hooks {
		list = append(list, object{
			"name": name, "sideEffects": "None", "admissionReviewVersions": []string{"v1"}, "failurePolicy": "Ignore",
			"clientConfig": object{"service": object{"namespace": namespace, "name": "flotilla-webhook", "path": "/validate"}},
			"rules": []any{object{
				"operations": []string{"CREATE"}, "apiGroups": []string{"example.com"}, "apiVersions": []string{"*"}, "resources": []string{"nothing"},
			}},
		})
	}
	raw, err := json.Marshal(object{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
		"metadata": object{"name": configuration}, "webhooks": list,
	})
	require.NoError(t, err)
	return string(raw)
}

func (l *lab) kubectl(stdin string, args ...string) {
	l.Helper()
	out, err := cluster.KubectlInput(stdin, args...)
	require.NoError(l, err, out)
}

func TestScenario031To036_GitOpsToolsAndTheRotatorLeaveEachOtherAlone(t *testing.T) {
	l := newLab(t)
	both, one := manifest(t, "a.example.com", "b.example.com"), manifest(t, "a.example.com")
	l.kubectl(both, "apply", "--server-side", "-f", "-")
	l.start(oneCRD)
	published := func(ctx context.Context) error { return l.published(ctx, 2) }
	harness.Eventually(t, "publishing", harness.Patience, published)

	t.Log("32: applied again, it stays as it is")
	before := l.versions()
	l.kubectl(both, "apply", "--server-side", "-f", "-")
	require.Equal(t, before, l.versions())
	l.kubectl(both, "diff", "--server-side", "-f", "-")
	l.kubectl(both, "apply", "-f", "-", "--server-side=false")
	require.NoError(t, published(t.Context()))

	t.Log("35: other fields are not reverted")
	_, err := cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), configuration, types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/webhooks/1/timeoutSeconds","value":7}]`), metav1.PatchOptions{})
	require.NoError(t, err)

	t.Log("36: a hook that is dropped stays dropped")
	l.kubectl(one, "apply", "--server-side", "--force-conflicts", "-f", "-")
	l.kubectl(both, "replace", "-f", "-")
	harness.Eventually(t, "filling what was replaced without", harness.Patience, published)
	hooks, err := l.hooks(t.Context())
	require.NoError(t, err)
	require.Len(t, hooks.Webhooks, 2)

	t.Log("31: deleted and created anew")
	l.kubectl(one, "replace", "--force", "-f", "-")
	harness.Eventually(t, "filling what was created anew", harness.Patience, published)
	hooks, err = l.hooks(t.Context())
	require.NoError(t, err)
	require.Len(t, hooks.Webhooks, 1)
	require.EqualValues(t, 10, *hooks.Webhooks[0].TimeoutSeconds)
}

func TestScenario033_ACRDReplacedWithoutBundleIsRepaired(t *testing.T) {
	l := newLab(t)
	l.configure()
	l.start(oneCRD)
	harness.Eventually(t, "publishing", harness.Patience, func(ctx context.Context) error { return l.published(ctx, 2) })
	crds := l.crds.ApiextensionsV1().CustomResourceDefinitions()
	crd, err := crds.Get(t.Context(), clonesets, metav1.GetOptions{})
	require.NoError(t, err)
	crd.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
	crd, err = crds.Update(t.Context(), crd, metav1.UpdateOptions{FieldManager: "gitops"})
	require.NoError(t, err)
	begin := time.Now()
	harness.Eventually(t, "the repair", harness.Patience, func(ctx context.Context) error { return l.published(ctx, 2) })
	t.Logf("repaired after %s", time.Since(begin))
	after, err := crds.Get(t.Context(), clonesets, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, crd.Generation+1, after.Generation, "by one write")
	harness.Eventually(t, "the event", harness.Patience, func(ctx context.Context) error { return l.told(ctx, "CABundleRepaired") })
}

func TestScenario037_AToolThatResetsACRDIsNamed(t *testing.T) {
	l := newLab(t)
	l.configure()
	l.start(oneCRD)
	repaired := func(ctx context.Context) error { return l.published(ctx, 2) }
	harness.Eventually(t, "publishing", harness.Patience, repaired)
	other, err := certs.NewAuthority(rand.Reader, time.Now(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	reset := fmt.Appendf(nil, `[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":%q}]`, base64.StdEncoding.EncodeToString(other.PEM()))
	wipe := func() {
		_, err := l.crds.ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), clonesets, types.JSONPatchType,
			reset, metav1.PatchOptions{FieldManager: "gitops-tool"})
		require.NoError(t, err)
	}
	for range 3 {
		wipe()
		harness.Eventually(t, "a repair", harness.Patience, repaired)
	}
	harness.Eventually(t, "the event", harness.Patience, func(ctx context.Context) error {
		events, err := cluster.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=CABundleContested"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, `"gitops-tool"`) {
				return nil
			}
		}
		return errors.New("nobody is named")
	})
	begin := time.Now()
	wipe()
	harness.Eventually(t, "a repair that takes its time", harness.Patience, repaired)
	require.Greater(t, time.Since(begin), 5*time.Second, "a CRD's watches are not closed all the time")
}
