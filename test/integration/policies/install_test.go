package policies

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

const system = "flotilla-system"

// install applies a policy and its binding until the test ends.
func install(t *testing.T, name string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(cluster.Root, "deploy", "policies", name+".yaml"))
	require.NoError(t, err)
	documents := strings.Split(string(raw), "\n---\n")
	require.Len(t, documents, 2)
	var policy admissionv1.ValidatingAdmissionPolicy
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[0]), &policy))
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[1]), &binding))
	api := cluster.Kube.AdmissionregistrationV1()
	_, err = api.ValidatingAdmissionPolicies().Create(t.Context(), &policy, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = api.ValidatingAdmissionPolicyBindings().Create(t.Context(), &binding, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		// The test's own context has ended by now.
		_ = api.ValidatingAdmissionPolicyBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{})
		_ = api.ValidatingAdmissionPolicies().Delete(context.Background(), policy.Name, metav1.DeleteOptions{})
	})
}

// namespace makes one in which Pods can be created.
func namespace(t *testing.T, name string, labels map[string]string) string {
	t.Helper()
	o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if name == "" {
		o.GenerateName = "policies-"
	}
	ns, err := cluster.Kube.CoreV1().Namespaces().Create(t.Context(), o, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
		name = ns.Name
		t.Cleanup(func() {
			_ = cluster.Kube.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
	harness.Eventually(t, "the namespace's ServiceAccount", harness.Patience, func(ctx context.Context) error {
		_, err := cluster.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return name
}
