package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

// grace is how long a process may take to end in order. Its data is thrown away, so nothing is lost by force.
const grace = 5 * time.Second

// launch starts a process that outlives this command, and records it.
func launch(l layout, c *state.Cluster, name, path string, args, env []string) error {
	log, err := os.OpenFile(l.log(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), env...)
	// A session of its own: neither Ctrl-C nor a closed terminal reaches it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	start, alive := state.StartOf(cmd.Process.Pid)
	// Reaped here if it ends while this command still runs; a zombie is not alive.
	go func() { _ = cmd.Wait() }()
	if !alive {
		return &deadError{name: name, log: l.log(name)}
	}
	c.Put(state.Process{Name: name, Pid: cmd.Process.Pid, Start: start, Log: l.log(name)})
	return c.Save(string(l))
}

// deadError is a component that ended by itself.
type deadError struct{ name, log string }

func (e *deadError) Error() string {
	return fmt.Sprintf("%s ended at start; the end of %s:\n%s", e.name, e.log, tail(e.log, 15))
}

// checkAlive returns an error that names the first component that is recorded and has ended.
func checkAlive(c *state.Cluster) error {
	for _, name := range running {
		if p := c.Find(name); p != nil && !p.Alive() {
			return &deadError{name: name, log: p.Log}
		}
	}
	return nil
}

// stop ends all processes of the cluster: first those that were started on it, the store last.
func stop(ctx context.Context, c *state.Cluster) error {
	clients := slices.DeleteFunc(slices.Clone(c.Processes), func(p state.Process) bool {
		return slices.Contains(running, p.Name)
	})
	groups := [][]state.Process{clients, pick(c, kwok, simSupport, scheduler, manager), pick(c, apiserver), pick(c, etcd)}
	var errs []error
	for _, group := range groups {
		errs = append(errs, state.Stop(ctx, group, grace))
	}
	return errors.Join(errs...)
}

func pick(c *state.Cluster, names ...string) []state.Process {
	var picked []state.Process
	for _, name := range names {
		if p := c.Find(name); p != nil {
			picked = append(picked, *p)
		}
	}
	return picked
}

// await polls until check returns nil. It gives up at once when a component has died or the caller ends.
func await(ctx context.Context, c *state.Cluster, what string, within time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if dead := checkAlive(c); dead != nil {
			return dead
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s (%w): %w", what, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
