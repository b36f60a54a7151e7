// Package test proves the local cluster and its simulated nodes live: `go test -C hack/cluster ./test`.
package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const deadline = 30 * time.Second

var (
	// command is the binary under test, main the cluster that most tests share.
	command string
	main    cluster
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "flotilla-cluster-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		command = filepath.Join(dir, "cluster")
		build := exec.Command("go", "build", "-C", "..", "-trimpath", "-o", command, ".")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the command: %v\n%s", err, out)
			return 1
		}
		main = cluster{dir: filepath.Join(dir, "main")}
		if out, err := main.do("up", "--sim-nodes", "5"); err != nil {
			fmt.Fprintf(os.Stderr, "starting the cluster: %v\n%s", err, out)
			return 1
		}
		code := m.Run()
		if out, err := main.do("down"); err != nil {
			fmt.Fprintf(os.Stderr, "ending the cluster: %v\n%s", err, out)
			return 1
		}
		return code
	}())
}

// cluster is the folder of a cluster.
type cluster struct{ dir string }

// do runs a command on the folder and returns everything it printed.
func (c cluster) do(verb string, args ...string) (string, error) {
	out, err := exec.Command(command, append([]string{verb, "--dir", c.dir}, args...)...).CombinedOutput()
	return string(out), err
}

func (c cluster) kubectl(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.dir, "bin", "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"))
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// space is a namespace of a test on a cluster.
type space struct {
	*testing.T
	cluster
	name string
}

func newSpace(t *testing.T) space {
	t.Helper()
	t.Parallel()
	s := space{T: t, cluster: main, name: strings.ToLower(strings.NewReplacer("_", "-", "/", "-").Replace(t.Name()))}
	s.must(s.kubectl("", "create", "namespace", s.name))
	return s
}

func (s space) must(out string, err error) string {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// do runs kubectl in the namespace.
func (s space) do(args ...string) string {
	s.Helper()
	return s.must(s.kubectl("", append([]string{"-n", s.name}, args...)...))
}

func (s space) apply(manifest string) {
	s.Helper()
	s.must(s.kubectl(manifest, "-n", s.name, "apply", "-f", "-"))
}

// object reads an object as nested maps.
func (s space) object(kind, name string) fields {
	s.Helper()
	var o fields
	if err := json.Unmarshal([]byte(s.do("get", kind, name, "-o", "json")), &o); err != nil {
		s.Fatal(err)
	}
	return o
}

// await polls until the jsonpath of an object gives the wanted text.
func (s space) await(kind, name, jsonpath, want string) {
	s.Helper()
	var got string
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		got, _ = s.kubectl("", "-n", s.name, "get", kind, name, "--ignore-not-found", "-o", "jsonpath="+jsonpath)
		if got == want {
			return
		}
	}
	s.Fatalf("%s %s: %s is %q, not %q\n%s", kind, name, jsonpath, got, want, s.do("get", kind, name, "-o", "yaml"))
}

// stays checks that the jsonpath keeps its text for a while.
func (s space) stays(kind, name, jsonpath, want string, span time.Duration) {
	s.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if got := s.do("get", kind, name, "-o", "jsonpath="+jsonpath); got != want {
			s.Fatalf("%s %s: %s became %q, not %q", kind, name, jsonpath, got, want)
		}
	}
}

type fields map[string]any

// at walks down; a number is an index of a list.
func (f fields) at(path ...any) any {
	var v any = map[string]any(f)
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			l, _ := v.([]any)
			if key >= len(l) {
				return nil
			}
			v = l[key]
		}
	}
	return v
}

// pod is the manifest of a Pod with one container, its annotations and further fields of the spec.
func pod(name, image, annotations, spec string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, annotations: {%s}}, spec: {containers: [{name: main, image: "registry.example/app:%s"}]%s}}`,
		name, annotations, image, spec)
}

const (
	ready    = `{.status.conditions[?(@.type=="Ready")].status}`
	waiting  = `{.status.containerStatuses[0].state.waiting.reason}`
	restarts = `{.status.containerStatuses[0].restartCount}`
	phase    = `{.status.phase}`
)
