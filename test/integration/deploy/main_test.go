// Package deploy installs what deploy/ ships on a real API server, as users do: by kustomize and by Helm. The nodes are simulated, so Pods
// are admitted, scheduled, drained and replaced as they would be, and run nothing; what a process does is tested where it is run as
// one. Tests with a number carry out the scenario of that number.
package deploy

import (
	"os"
	"testing"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

var cluster *harness.Cluster

// nodes are one in each of three zones.
const nodes = 3

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "integration-deploy", SimNodes: nodes}, &cluster))
}
