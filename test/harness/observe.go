package harness

import (
	"testing"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// Observe calls check after every change of any Pod in the namespace and fails the test, when it ends,
// if one call returned an error. The returned function stops observing earlier and gives the first one.
func (c *Cluster) Observe(t testing.TB, namespace string, check func(localcluster.Pods) error) (stop func() error) {
	t.Helper()
	stop, err := c.Cluster.Observe(t.Context(), namespace, check)
	if err != nil {
		t.Fatalf("observing: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("an invariant broke: %v", err)
		}
	})
	return stop
}
