package test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

// processes reads the recorded process ids by name.
func (c cluster) processes(t *testing.T) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Processes []struct {
			Name string
			Pid  int
		}
	}
	if err := json.Unmarshal(raw, &recorded); err != nil {
		t.Fatal(err)
	}
	pids := map[string]int{}
	for _, p := range recorded.Processes {
		pids[p.Name] = p.Pid
	}
	return pids
}

func exists(pid int) bool {
	_, alive := state.StartOf(pid)
	return alive
}

func TestASecondClusterIsRepairedAndLeavesNoTrace(t *testing.T) {
	t.Parallel()
	c := cluster{dir: filepath.Join(t.TempDir(), "second")}
	do := func(want, verb string, args ...string) {
		t.Helper()
		if out, err := c.do(verb, args...); err != nil || !strings.Contains(out, want) {
			t.Fatalf("%s: %v, output without %q:\n%s", verb, err, want, out)
		}
	}
	t.Cleanup(func() { _, _ = c.do("down") })
	do("export KUBECONFIG="+c.dir, "up", "--sim-nodes", "2", "--without-controllers", "deployment-controller")
	first := c.processes(t)
	do("joined", "up", "--sim-nodes", "2", "--without-controllers", "deployment-controller")
	if out, err := c.do("up", "--sim-nodes", "3"); err == nil || !strings.Contains(out, "other options") {
		t.Fatalf("other options: %v\n%s", err, out)
	}
	for _, name := range []string{"kube-apiserver", "kwok", "etcd"} {
		if err := syscall.Kill(first[name], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := c.do("status"); err == nil {
		t.Fatalf("status of a broken cluster is good:\n%s", out)
	}
	do("not whole", "up", "--sim-nodes", "2")
	do("2 of 2 ready", "status")
	do("runs", "run", "--name", "mine", "--", "/bin/sleep", "1000")
	replaced := c.processes(t)["mine"]
	do("runs", "run", "--name", "mine", "--", "/bin/sleep", "1000")
	if exists(replaced) {
		t.Error("the earlier process still runs")
	}
	second := c.processes(t)
	do("gone", "down")
	for _, pids := range []map[string]int{first, second} {
		for name, pid := range pids {
			if exists(pid) {
				t.Errorf("%s still runs", name)
			}
		}
	}
	if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
	do("No cluster", "down")
}

func TestAComponentThatDiesAtStartShowsItsLog(t *testing.T) {
	t.Parallel()
	c := cluster{dir: t.TempDir()}
	t.Cleanup(func() { _, _ = c.do("down") })
	out, err := c.do("up", "--without-controllers", "no-such-controller")
	if err == nil || !strings.Contains(out, "kube-controller-manager ended at start") || !strings.Contains(out, "no-such-controller") {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, pid := range c.processes(t) {
		if exists(pid) {
			t.Errorf("%s still runs", name)
		}
	}
}

func TestAWriteIsInTheAuditLogWhenItIsAnswered(t *testing.T) {
	s := newSpace(t)
	s.do("create", "configmap", "marker")
	log, err := os.ReadFile(filepath.Join(s.dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), `"namespace":"`+s.name+`","name":"marker"`) {
		t.Error("the write is not in the log")
	}
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no command":         nil,
		"an unknown command": {"start"},
		"an unknown flag":    {"up", "--nodes", "3"},
		"no folder":          {"up"},
		"too many nodes":     {"up", "--dir", "x", "--sim-nodes", "99999"},
		"not a number":       {"up", "--dir", "x", "--sim-nodes", "many"},
		"a privileged port":  {"up", "--dir", "x", "--api-port", "80"},
		"an argument":        {"down", "--dir", "x", "y"},
		"nothing to run":     {"run", "--dir", "x", "--name", "y"},
		"a reserved name":    {"run", "--dir", "x", "--name", "etcd", "--", "/bin/true"},
	} {
		out, err := exec.Command(command, args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "allowed") && !strings.Contains(string(out), "and none of") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}
