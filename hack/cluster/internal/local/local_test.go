package local

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

func TestClearRemovesOnlyItsOwnFiles(t *testing.T) {
	l := layout(t.TempDir())
	if err := l.make(); err != nil {
		t.Fatal(err)
	}
	if err := l.writeCredentials("https://127.0.0.1:1", time.Now()); err != nil {
		t.Fatal(err)
	}
	foreign := []string{"notes.txt", "bin/mine"}
	for _, name := range foreign {
		if err := os.WriteFile(l.path(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := link("/nowhere", l.bin(kubectl)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(l.path("scratch", "of", "somebody"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.clear(false); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, pattern := range []string{"*", "bin/*"} {
		found, err := filepath.Glob(l.path(pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	if want := []string{l.path("bin"), l.path("notes.txt"), l.path("bin/mine")}; !slices.Equal(left, want) {
		t.Errorf("left: %v", left)
	}
}

func TestTheControllersThatAreLeftOutAreNamed(t *testing.T) {
	args := layout("/d").arguments(manager, portPlan{}, state.Options{Without: []string{"a", "b"}})
	if !slices.Contains(args, "--controllers=*,-a,-b") {
		t.Errorf("%v", args)
	}
}

func TestEveryComponentHasArgumentsAndNoneIsExposed(t *testing.T) {
	for _, name := range running {
		args := layout("/d").arguments(name, portPlan{1, 2, 3, 4, 5}, state.Options{})
		if len(args) == 0 {
			t.Errorf("%s has no arguments", name)
		}
		if strings.Contains(strings.Join(args, " "), "0.0.0.0") {
			t.Errorf("%s listens on every address", name)
		}
	}
}

func TestAKubeconfigReadsBack(t *testing.T) {
	l := layout(t.TempDir())
	if err := l.make(); err != nil {
		t.Fatal(err)
	}
	if err := l.writeCredentials("https://127.0.0.1:4711", time.Now()); err != nil {
		t.Fatal(err)
	}
	a, err := newAPI(l.kubeconfig())
	if err != nil || a.server != "https://127.0.0.1:4711" {
		t.Fatalf("%+v, %v", a, err)
	}
	info, err := os.Stat(l.kubeconfig())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the administrator's key: %v, %v", info, err)
	}
}

func TestCreateAcceptsWhatExistsAndReportsTheRest(t *testing.T) {
	code := http.StatusConflict
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	defer server.Close()
	a := &api{server: server.URL, client: server.Client()}
	if err := a.create(t.Context(), "/x", object{}); err != nil {
		t.Error(err)
	}
	code = http.StatusForbidden
	if err := a.create(t.Context(), "/x", object{}); err == nil {
		t.Error("a refusal counts as success")
	}
}

type object = map[string]any

func TestAwaitEndsWithTheLastErrorOrADeadComponent(t *testing.T) {
	failing := func(context.Context) error { return errors.New("not yet") }
	err := await(t.Context(), &state.Cluster{}, "it", 50*time.Millisecond, failing)
	if err == nil || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("%v", err)
	}
	c := &state.Cluster{Processes: []state.Process{{Name: etcd, Pid: 1, Start: "never", Log: filepath.Join(t.TempDir(), "log")}}}
	dead := (*deadError)(nil)
	if err := await(t.Context(), c, "it", time.Minute, failing); !errors.As(err, &dead) {
		t.Errorf("%v", err)
	}
}

func TestNamesOfProcesses(t *testing.T) {
	for name, good := range map[string]bool{"cloneset-controller": true, "a.b": true, "": false, "../x": false, "etcd": false, "A": false, "-a": false} {
		if err := CheckName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestReadyCountsNodesWithoutTaints(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[
			{"status":{"conditions":[{"type":"Ready","status":"True"}]}},
			{"spec":{"taints":[{"key":"x"}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}},
			{"status":{"conditions":[{"type":"Ready","status":"False"}]}}]}`))
	}))
	defer server.Close()
	a := &api{server: server.URL, client: server.Client()}
	if err := nodesReady(t.Context(), a, 1); err != nil {
		t.Error(err)
	}
	if err := nodesReady(t.Context(), a, 2); err == nil || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("%v", err)
	}
}
