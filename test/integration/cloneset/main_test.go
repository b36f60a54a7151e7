// Package cloneset runs CloneSet scenarios on a real API server with simulated nodes, against the
// controller's own binary. Tests with a number carry out the scenario of that number.
package cloneset

import (
	"os"
	"testing"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// cluster is shared by all tests; each has a namespace and a controller of its own.
var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "integration-cloneset", SimNodes: 6}, &cluster))
}
