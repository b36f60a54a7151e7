package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

// unusedAfter is how long a set that nobody asks for is kept.
const unusedAfter = 30 * 24 * time.Hour

// Set is one consistent set of binaries.
type Set struct {
	// Key names the content.
	Key string
	// Kube holds etcd and every component of Kubernetes, Kwok the simulator of nodes.
	Kube, Kwok string
}

// Root is the folder that has the sets.
func Root() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder (set XDG_CACHE_HOME or HOME): %w", err)
	}
	return filepath.Join(cache, "flotilla", "cluster"), nil
}

// Key is the name of the set that these sources give with this compiler on this platform.
func Key(sources fs.FS) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildFlags())
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(sources, path)
		fmt.Fprintln(h, path, len(content))
		h.Write(content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading the embedded sources: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil))[:20], nil
}

// Ensure returns the set that belongs to the sources, and compiles it if the cache does not have it.
func Ensure(ctx context.Context, sources fs.FS, out io.Writer) (Set, error) {
	root, err := Root()
	if err != nil {
		return Set{}, err
	}
	key, err := Key(sources)
	if err != nil {
		return Set{}, err
	}
	dir := filepath.Join(root, key)
	set := Set{Key: key, Kube: filepath.Join(dir, "kube"), Kwok: filepath.Join(dir, "kwok")}
	if set.exists() {
		touch(dir)
		return set, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Set{}, fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := state.Lock(dir, func() {
		fmt.Fprintln(out, "Another command compiles the same binaries; waiting for it.")
	})
	if err != nil {
		return Set{}, err
	}
	defer unlock()
	if set.exists() {
		return set, nil
	}
	if err := compile(ctx, sources, set, dir, out); err != nil {
		return Set{}, err
	}
	prune(root, key, time.Now())
	return set, nil
}

func (s Set) exists() bool {
	for _, path := range []string{s.Kube, s.Kwok} {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return true
}

// touch marks a set as used. A cache that cannot be written to is still good to read from.
func touch(dir string) {
	now := time.Now()
	_ = os.Chtimes(dir, now, now)
}

// prune removes sets that were not used for long. What cannot be removed is left: it only takes space.
func prune(root, keep string, now time.Time) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || e.Name() == keep || now.Sub(info.ModTime()) < unusedAfter {
			continue
		}
		_ = os.RemoveAll(filepath.Join(root, e.Name()))
	}
}
