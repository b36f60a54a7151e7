package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

// layout names the files of a cluster's folder.
type layout string

func (l layout) path(parts ...string) string {
	return filepath.Join(append([]string{string(l)}, parts...)...)
}

func (l layout) kubeconfig() string        { return l.path("kubeconfig") }
func (l layout) audit() string             { return l.path("audit.log") }
func (l layout) log(name string) string    { return l.path("logs", name+".log") }
func (l layout) bin(name string) string    { return l.path("bin", name) }
func (l layout) config(name string) string { return l.path("config", name) }
func (l layout) etcd() string              { return l.path("etcd") }

// newLayout makes the path absolute: it is written into files that are read from anywhere.
func newLayout(dir string) (layout, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("finding the folder %s: %w", dir, err)
	}
	return layout(abs), nil
}

// make creates the folders that the components write to.
func (l layout) make() error {
	for _, dir := range []string{"logs", "bin", "config", "etcd"} {
		// Keys and cluster data are in there.
		if err := os.MkdirAll(l.path(dir), 0o700); err != nil {
			return fmt.Errorf("making the cluster's folder: %w", err)
		}
	}
	return nil
}

// clear removes what a cluster made and what was put into scratch, and nothing else that lies in the folder.
func (l layout) clear(keepLogs bool) error {
	own := []string{"kubeconfig", "audit.log", "config", "etcd", "scratch", state.File}
	if !keepLogs {
		own = append(own, "logs")
	}
	var errs []error
	for _, name := range own {
		errs = append(errs, os.RemoveAll(l.path(name)))
	}
	for _, name := range slices.Concat(kubeComponents, []string{kwok}) {
		errs = append(errs, ignoreMissing(os.Remove(l.bin(name))))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing the cluster's files: %w", err)
	}
	// Both stay if somebody else put files there.
	_ = os.Remove(l.path("bin"))
	_ = os.Remove(string(l))
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// tail is the end of a log.
func tail(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 16 << 10
	return lastLines(string(content[max(0, len(content)-most):]), lines)
}
