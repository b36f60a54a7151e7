package harness

import (
	"testing"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// StartController starts a controller for one namespace and ends it with the test.
// On failure of the test the end of its log is shown.
func (c *Cluster) StartController(t testing.TB, component, namespace string, args ...string) *localcluster.Process {
	t.Helper()
	dir := t.TempDir()
	kubeconfig, err := c.KubeconfigFor(t.Context(), component, dir)
	if err != nil {
		t.Fatalf("kubeconfig of %s: %v", component, err)
	}
	p, err := c.Start(component, dir, append([]string{
		"--kubeconfig", kubeconfig, "--namespace", namespace, "--leader-elect=false",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--pprof-bind-address=0", "-v=4",
	}, args...)...)
	if err != nil {
		t.Fatalf("starting %s: %v", component, err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("end of %s's log:\n%s", component, p.Tail(60))
		}
	})
	return p
}

// StartTask starts a task, which ends by itself, or with the test.
func (c *Cluster) StartTask(t testing.TB, component string, args ...string) *localcluster.Process {
	t.Helper()
	dir := t.TempDir()
	kubeconfig, err := c.KubeconfigFor(t.Context(), component, dir)
	if err != nil {
		t.Fatalf("kubeconfig of %s: %v", component, err)
	}
	p, err := c.Start(component, dir, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	if err != nil {
		t.Fatalf("starting %s: %v", component, err)
	}
	t.Cleanup(p.Kill)
	return p
}
