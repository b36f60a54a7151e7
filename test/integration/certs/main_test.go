// Package certs runs the cert-rotator against a real API server, by its own role. Tests with a number carry out the scenario
// of that number.
package certs

import (
	"os"
	"testing"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "integration-certs"}, &cluster))
}
