package harness

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// Namespace makes a namespace that goes with the test.
func (c *Cluster) Namespace(t testing.TB, prefix string) string {
	t.Helper()
	namespaces := c.Kube.CoreV1().Namespaces()
	ns, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		_ = namespaces.Delete(context.Background(), ns.Name, metav1.DeleteOptions{})
	})
	return ns.Name
}

// FreeAddress is one that nothing listens on just now.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := localcluster.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
