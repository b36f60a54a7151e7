// Package policies installs the admission policies as shipped, on a real API server and with no process of ours running. Tests
// with a number carry out the scenario of that number.
package policies

import (
	"os"
	"testing"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "integration-policies"}, &cluster))
}
