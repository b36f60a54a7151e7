// Package statefulset runs scenarios of Advanced StatefulSets on a real API server with simulated nodes, against the
// controller's own binary. Tests with a number carry out the scenario of that number. No webhook runs here.
package statefulset

import (
	"os"
	"testing"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// cluster is shared by all tests; each has a namespace and a controller of its own.
var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "integration-statefulset", SimNodes: 6, Parallel: 8}, &cluster))
}
