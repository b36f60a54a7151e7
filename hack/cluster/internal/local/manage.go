package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

// Down ends the cluster of a folder and removes its files.
func Down(ctx context.Context, dir string, out io.Writer) error {
	l, err := newLayout(dir)
	if err != nil {
		return err
	}
	c, unlock, err := l.open(out)
	if errors.Is(err, errNoCluster) {
		fmt.Fprintf(out, "No cluster in %s.\n", l)
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := stop(ctx, c); err != nil {
		return fmt.Errorf("%w (run the command again when it has ended)", err)
	}
	if err := l.clear(false); err != nil {
		return err
	}
	fmt.Fprintf(out, "The cluster in %s is gone.\n", l)
	return nil
}

var errNoCluster = errors.New("no cluster")

// open locks the folder and reads the state of the cluster in it.
func (l layout) open(out io.Writer) (*state.Cluster, func(), error) {
	unlock, err := l.lock(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errNoCluster
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := state.Load(string(l))
	if err == nil && c == nil {
		err = errNoCluster
	}
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return c, unlock, nil
}

// absent is the message of commands that need a cluster.
func (l layout) absent() error {
	return fmt.Errorf("no cluster in %s; start one with `cluster up --dir %s`", l, l)
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func Kubeconfig(dir string) (string, error) {
	l, err := newLayout(dir)
	if err != nil {
		return "", err
	}
	c, err := state.Load(string(l))
	if err != nil {
		return "", err
	}
	if c == nil {
		return "", l.absent()
	}
	if !c.Complete {
		return "", fmt.Errorf("the cluster in %s is not up; run `cluster up --dir %s`", l, l)
	}
	return l.kubeconfig(), nil
}

var processName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// CheckName says whether a process that is started on a cluster may have that name.
func CheckName(name string) error {
	if !processName.MatchString(name) || slices.Contains(running, name) {
		return fmt.Errorf("--name is %q; allowed: lower-case letters, digits, '-' and '.', and none of %s", name, strings.Join(running, ", "))
	}
	return nil
}

// Run starts a process that ends with the cluster. An earlier one of that name is ended first.
func Run(ctx context.Context, dir, name, path string, args []string, out io.Writer) error {
	l, err := newLayout(dir)
	if err != nil {
		return err
	}
	c, unlock, err := l.open(out)
	if errors.Is(err, errNoCluster) {
		return l.absent()
	}
	if err != nil {
		return err
	}
	defer unlock()
	if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("finding %s: %w", path, err)
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("there is nothing to run: %w", err)
	}
	if old := c.Find(name); old != nil {
		if err := state.Stop(ctx, []state.Process{*old}, grace); err != nil {
			return err
		}
	}
	if err := launch(l, c, name, path, args, []string{"KUBECONFIG=" + l.kubeconfig()}); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s runs; its output is in %s\n", name, l.log(name))
	return nil
}

// Status prints what runs in each of the folders. It returns an error if a cluster is not whole.
func Status(ctx context.Context, dirs []string, out io.Writer) error {
	var ill []string
	for _, dir := range dirs {
		whole, err := status(ctx, dir, out)
		if err != nil {
			return err
		}
		if !whole {
			ill = append(ill, dir)
		}
	}
	if len(ill) > 0 {
		return fmt.Errorf("not whole: %s; `cluster up` with the same --dir starts it anew", strings.Join(ill, ", "))
	}
	return nil
}

func status(ctx context.Context, dir string, out io.Writer) (whole bool, err error) {
	l, err := newLayout(dir)
	if err != nil {
		return false, err
	}
	c, err := state.Load(string(l))
	if err != nil {
		return false, err
	}
	if c == nil {
		return false, l.absent()
	}
	fmt.Fprintf(out, "%s\n  server      %s\n  kubeconfig  %s\n", l, c.Server, l.kubeconfig())
	for _, p := range c.Processes {
		word := "runs"
		if !p.Alive() {
			word = "does not run (" + p.Log + ")"
		}
		fmt.Fprintf(out, "  %-24s pid %-8d %s\n", p.Name, p.Pid, word)
	}
	broken := l.broken(ctx, c)
	if broken != nil {
		fmt.Fprintf(out, "  broken: %s\n", firstLine(broken))
		return false, nil
	}
	a, err := newAPI(l.kubeconfig())
	if err != nil {
		return false, err
	}
	var list nodeList
	if err := a.get(ctx, "/api/v1/nodes", &list); err != nil {
		return false, fmt.Errorf("listing nodes: %w", err)
	}
	fmt.Fprintf(out, "  nodes       %d of %d ready\n", list.ready(), len(list.Items))
	return true, nil
}
