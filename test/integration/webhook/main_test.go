// Package webhook runs webhook-server and cert-rotator against a real API server, each by its own role. Tests with a number
// carry out the scenario of that number.
package webhook

import (
	"os"
	"testing"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "integration-webhook"}, &cluster))
}
