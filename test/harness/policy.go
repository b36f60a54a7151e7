package harness

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// InstallPolicy applies an admission policy and its binding, as shipped, until the test ends. The file is one below deploy.
func (c *Cluster) InstallPolicy(t testing.TB, name string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.Root, "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	var policy admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	documents := strings.Split(string(raw), "\n---\n")
	if len(documents) != 2 {
		t.Fatalf("%s has %d documents: must be a policy and its binding", name, len(documents))
	}
	for i, into := range []any{&policy, &binding} {
		if err := yaml.UnmarshalStrict([]byte(documents[i]), into); err != nil {
			t.Fatalf("reading %s: %v", name, err)
		}
	}
	api := c.Kube.AdmissionregistrationV1()
	if _, err := api.ValidatingAdmissionPolicies().Create(t.Context(), &policy, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating the policy %s: %v", name, err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		_ = api.ValidatingAdmissionPolicyBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{})
		_ = api.ValidatingAdmissionPolicies().Delete(context.Background(), policy.Name, metav1.DeleteOptions{})
	})
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), &binding, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating the binding of %s: %v", name, err)
	}
}
