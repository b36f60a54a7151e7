package binaries

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func tree(main string) fstest.MapFS {
	return fstest.MapFS{"go.mod": {Data: []byte("module m")}, "kwok.mod": {Data: []byte("module k")}, "kube/main.go": {Data: []byte(main)}}
}

func TestTheKeyFollowsTheContentOnly(t *testing.T) {
	key := func(fs fstest.MapFS) string {
		k, err := Key(fs)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	older := tree("a")
	older["go.mod"].ModTime = time.Unix(1, 0)
	if key(tree("a")) != key(older) {
		t.Error("the time of a file changes the key")
	}
	if key(tree("a")) == key(tree("b")) {
		t.Error("the content of a file does not change the key")
	}
}

func TestASetThatIsThereIsNotCompiled(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", "")
	var out bytes.Buffer
	_, err := Ensure(t.Context(), tree("a"), &out)
	if err == nil || !strings.Contains(err.Error(), "needs Go") {
		t.Fatalf("without Go: %v", err)
	}
	key, err := Key(tree("a"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kube", "kwok"} {
		if err := os.WriteFile(filepath.Join(root, key, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	set, err := Ensure(t.Context(), tree("a"), &out)
	if err != nil || set.Key != key || set.Kube != filepath.Join(root, key, "kube") {
		t.Fatalf("%+v, %v", set, err)
	}
}

func TestSourcesBecomeTwoModules(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "src")
	if err := extract(tree("a"), dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"go.mod": "module m", "kwok/go.mod": "module k", "kube/main.go": "a"} {
		if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func TestPruneRemovesWhatWasNotUsedForLong(t *testing.T) {
	root, now := t.TempDir(), time.Now()
	for name, age := range map[string]time.Duration{"current": 90 * 24 * time.Hour, "old": 31 * 24 * time.Hour, "recent": 29 * 24 * time.Hour} {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	prune(root, "current", now)
	left, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "current" || filepath.Base(left[1]) != "recent" {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestTheBarCountsPackagesAndKeepsComplaints(t *testing.T) {
	var out bytes.Buffer
	b := newBar("Program", &out)
	b.total(4)
	complaints := follow(strings.NewReader("go: downloading m v1\na/b\nc\n# broken\n./x.go:1:2: wrong\n"), b)
	if got := strings.Join(complaints, "|"); got != "# broken|./x.go:1:2: wrong" {
		t.Errorf("complaints: %s", got)
	}
	if line := b.line(61500 * time.Millisecond); line != "Program ["+strings.Repeat("#", 15)+strings.Repeat("-", 15)+"] 2/4 packages 1m1s c" {
		t.Error(line)
	}
	b.close()
	if out.Len() > 0 {
		t.Errorf("a build that failed counts as done: %s", &out)
	}
}
