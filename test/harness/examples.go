package harness

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApplyExamples applies every manifest of a folder of examples and waits until all objects of the resource are in order and
// every Pod runs.
func (c *Cluster) ApplyExamples(t testing.TB, namespace, folder, resource string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.Root, "examples", folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples in %s: %v", len(files), folder, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := c.KubectlInput(string(raw), "-n", namespace, "apply", "-f", "-"); err != nil {
			t.Fatalf("applying %s: %v: %s", file, err, out)
		}
	}
	if out, err := c.Kubectl("-n", namespace, "wait", "--for=condition=Ready", "--timeout=120s", resource, "--all"); err != nil {
		t.Fatalf("waiting for %s: %v: %s", resource, err, out)
	}
	pods, err := c.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d Pods: %v", len(pods.Items), err)
	}
	for _, p := range pods.Items {
		if p.Status.Phase != corev1.PodRunning {
			t.Errorf("Pod %s is %s", p.Name, p.Status.Phase)
		}
	}
}
