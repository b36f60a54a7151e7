package state

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestStateSurvivesTheFile(t *testing.T) {
	dir := t.TempDir()
	if c, err := Load(dir); c != nil || err != nil {
		t.Fatalf("a folder without state gives %v, %v", c, err)
	}
	want := &Cluster{Complete: true, Created: time.Unix(1, 0).UTC(), Build: "b", Options: Options{SimNodes: 3, Without: []string{"a"}}}
	want.Put(Process{Name: "x", Pid: 1})
	want.Put(Process{Name: "y", Pid: 2})
	want.Put(Process{Name: "x", Pid: 3})
	if err := want.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if len(got.Processes) != 2 || got.Find("x").Pid != 3 || got.Find("z") != nil {
		t.Errorf("processes: %+v", got.Processes)
	}
}

func TestABrokenStateFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("no error")
	}
}

func TestParseStatCountsFieldsFromTheEndOfTheName(t *testing.T) {
	fields := " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"
	for name, c := range map[string]struct {
		stat, start string
		ok          bool
	}{
		"a plain name":               {"12 (etcd)" + fields, "4711", true},
		"a name with parentheses":    {"12 (a) b (c)" + fields, "4711", true},
		"a zombie has ended":         {"12 (etcd) Z" + fields[2:], "", false},
		"a line that is cut is none": {"12 (etcd) S 1", "", false},
	} {
		if start, ok := parseStat(c.stat); start != c.start || ok != c.ok {
			t.Errorf("%s: %q, %v", name, start, ok)
		}
	}
}

func startSleep(t *testing.T, script string) Process {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	start, ok := StartOf(cmd.Process.Pid)
	if !ok {
		t.Fatal("the process does not run")
	}
	return Process{Name: script, Pid: cmd.Process.Pid, Start: start}
}

func TestStopEndsProcessesByForceIfNeeded(t *testing.T) {
	polite, stubborn := startSleep(t, "exec sleep 100"), startSleep(t, `trap "" TERM; while :; do sleep 1; done`)
	if err := Stop(t.Context(), []Process{polite, stubborn}, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if polite.Alive() || stubborn.Alive() {
		t.Error("a process is left")
	}
}

func TestAnotherProcessWithTheSameIdIsNeverSignalled(t *testing.T) {
	p := startSleep(t, "exec sleep 100")
	imposter := Process{Name: "old", Pid: p.Pid, Start: "1"}
	if imposter.Alive() {
		t.Error("the recorded process counts as alive")
	}
	if err := Stop(t.Context(), []Process{imposter}, time.Second); err != nil {
		t.Fatal(err)
	}
	if !p.Alive() {
		t.Error("another process was ended")
	}
}

func TestALockIsHeldByOne(t *testing.T) {
	dir := t.TempDir()
	unlock, err := Lock(dir, func() {})
	if err != nil {
		t.Fatal(err)
	}
	waits, got := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(got)
		second, err := Lock(dir, func() { close(waits) })
		if err != nil {
			t.Error(err)
			return
		}
		second()
	}()
	<-waits
	select {
	case <-got:
		t.Error("two hold it")
	default:
	}
	unlock()
	<-got
	if _, err := Lock(filepath.Join(dir, "missing"), func() {}); !os.IsNotExist(err) {
		t.Errorf("a folder that is missing: %v", err)
	}
}
