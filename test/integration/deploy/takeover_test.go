package deploy

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/internal/certs"
)

// commands are the shell commands of README.md that follow a text.
func commands(t *testing.T, after string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(cluster.Root, "deploy", "README.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(raw), after)
	require.True(t, found, after)
	block := regexp.MustCompile("(?s)```\n(.*?)```").FindStringSubmatch(rest)
	require.NotNil(t, block)
	return block[1]
}

// TestTakingOverConversionByTheCommandsOfTheManual runs step 4 on CRDs that call nobody, as some of the reference's do.
func TestTakingOverConversionByTheCommandsOfTheManual(t *testing.T) {
	authority, err := certs.NewAuthority(rand.Reader, time.Now(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	secrets := cluster.Kube.CoreV1().Secrets(system)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "flotilla-webhook-ca"}, Data: map[string][]byte{certs.KeyBundle: authority.PEM()}}
	_ = secrets.Delete(t.Context(), secret.Name, metav1.DeleteOptions{})
	_, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = secrets.Delete(context.Background(), secret.Name, metav1.DeleteOptions{}) })

	client, err := apiextensions.NewForConfig(cluster.Config)
	require.NoError(t, err)
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	shipped := map[string]*apiextensionsv1.CustomResourceConversion{}
	list, err := crds.List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=flotilla"})
	require.NoError(t, err)
	require.Len(t, list.Items, 6)
	for _, crd := range list.Items {
		shipped[crd.Name] = crd.Spec.Conversion
		_, err := crds.Patch(t.Context(), crd.Name, types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/conversion","value":{"strategy":"None"}}]`), metav1.PatchOptions{})
		require.NoError(t, err)
	}

	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands(t, "4. Conversion."))
	shell.Dir = cluster.Root
	shell.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig, "PATH="+filepath.Join(cluster.Dir, "bin")+":"+os.Getenv("PATH"))
	out, err := shell.CombinedOutput()
	require.NoError(t, err, string(out))

	for name, want := range shipped {
		crd, err := crds.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		if want.Strategy == apiextensionsv1.WebhookConverter {
			require.Equal(t, string(authority.PEM()), string(crd.Spec.Conversion.Webhook.ClientConfig.CABundle), name)
			want.Webhook.ClientConfig.CABundle = authority.PEM()
		}
		require.Equal(t, want, crd.Spec.Conversion, name)
	}
}
