package harness

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// PodNamespace makes a namespace in which Pods can be created, and which goes with the test; one of that name that is there
// is taken as it is. Without a name it gets one.
func (c *Cluster) PodNamespace(t testing.TB, name string, labels map[string]string) string {
	t.Helper()
	namespaces := c.Kube.CoreV1().Namespaces()
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if name == "" {
		wanted.GenerateName = "pods-"
	}
	ns, err := namespaces.Create(t.Context(), wanted, metav1.CreateOptions{})
	switch {
	case err == nil:
		name = ns.Name
		t.Cleanup(func() {
			// The test's own context has ended by now.
			_ = namespaces.Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	case !apierrors.IsAlreadyExists(err):
		t.Fatalf("creating a namespace: %v", err)
	}
	Eventually(t, "the namespace's ServiceAccount", Patience, func(ctx context.Context) error {
		_, err := c.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return name
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
