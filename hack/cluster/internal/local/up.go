package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/binaries"
	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/ports"
	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

// startAttempts is how often `up` tries again when another process took a port that was free a moment ago.
const startAttempts = 4

// Up starts the cluster of a folder, or joins it if it already runs as asked for.
func Up(ctx context.Context, dir string, o state.Options, set binaries.Set, out io.Writer) error {
	l, err := newLayout(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(l), 0o700); err != nil {
		return fmt.Errorf("making the cluster's folder: %w", err)
	}
	unlock, err := l.lock(out)
	if err != nil {
		return err
	}
	defer unlock()
	joined, err := l.settle(ctx, o, set, out)
	if joined || err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		again, err := l.attempt(ctx, o, set, out)
		if err == nil || !again || attempt == startAttempts {
			return err
		}
		fmt.Fprintln(out, "Another process took one of the ports; starting again with others.")
		if err := l.clear(false); err != nil {
			return err
		}
	}
}

// attempt starts the cluster, or leaves nothing running; then it says whether other ports might help.
func (l layout) attempt(ctx context.Context, o state.Options, set binaries.Set, out io.Writer) (again bool, err error) {
	if err = l.start(ctx, o, set, out); err == nil {
		return false, nil
	}
	c, loadErr := state.Load(string(l))
	if loadErr != nil || c == nil {
		// Nothing was started; the folder stays if it was not empty before.
		_ = os.Remove(string(l))
		return false, errors.Join(err, loadErr)
	}
	// The caller's Ctrl-C must not keep the half-started cluster alive.
	stopErr := stop(context.WithoutCancel(ctx), c)
	again = stopErr == nil && portTaken(err) && (o.APIPort == 0 || ports.Check(o.APIPort) == nil)
	return again, errors.Join(err, stopErr)
}

func (l layout) lock(out io.Writer) (unlock func(), err error) {
	return state.Lock(string(l), func() {
		fmt.Fprintf(out, "Another command works on %s; waiting for it.\n", l)
	})
}

func portTaken(err error) bool {
	dead := (*deadError)(nil)
	return errors.As(err, &dead) && ports.Taken(tail(dead.log, 50))
}

// settle looks at what the folder has already: it joins a cluster that is as asked for and removes one that is broken.
func (l layout) settle(ctx context.Context, o state.Options, set binaries.Set, out io.Writer) (joined bool, err error) {
	c, err := state.Load(string(l))
	if err != nil {
		return false, fmt.Errorf("%w (end what still runs from there by hand and remove the folder)", err)
	}
	if c == nil {
		return false, nil
	}
	switch broken := l.broken(ctx, c); {
	case broken != nil:
		fmt.Fprintf(out, "The cluster in %s is not whole (%s); starting it anew.\n", l, firstLine(broken))
	case c.Build != build(set):
		fmt.Fprintf(out, "The cluster in %s was started by another build of this command; starting it anew.\n", l)
	case !reflect.DeepEqual(c.Options, o):
		return false, fmt.Errorf("a cluster with other options runs in %s (it has %s); join it with the same ones, or run `cluster down --dir %s` first",
			l, describe(c.Options), l)
	default:
		fmt.Fprintf(out, "The cluster in %s runs already; joined it.\n", l)
		return true, nil
	}
	if err := stop(ctx, c); err != nil {
		return false, err
	}
	if err := l.clear(false); err != nil {
		return false, err
	}
	return false, os.MkdirAll(string(l), 0o700)
}

// broken says why a recorded cluster cannot be used, or returns nil.
func (l layout) broken(ctx context.Context, c *state.Cluster) error {
	if !c.Complete {
		return errors.New("it never came up")
	}
	for _, name := range running {
		if p := c.Find(name); p == nil || !p.Alive() {
			return fmt.Errorf("%s does not run", name)
		}
	}
	a, err := newAPI(l.kubeconfig())
	if err != nil {
		return err
	}
	return a.get(ctx, "/readyz", nil)
}

// start makes the cluster from nothing.
func (l layout) start(ctx context.Context, o state.Options, set binaries.Set, out io.Writer) error {
	began := time.Now()
	plan, err := choosePorts(o.APIPort)
	if err != nil {
		return err
	}
	if err := l.make(); err != nil {
		return err
	}
	c := &state.Cluster{Created: began, Server: plan.server(), Build: build(set), Options: o, Processes: []state.Process{}}
	if err := c.Save(string(l)); err != nil {
		return err
	}
	if err := l.writeFiles(plan, set); err != nil {
		return err
	}
	fmt.Fprintf(out, "Starting Kubernetes %s with %d simulated nodes in %s\n", binaries.KubernetesVersion, o.SimNodes, l)
	for _, name := range []string{etcd, apiserver} {
		if err := launch(l, c, name, l.bin(name), l.arguments(name, plan, o), nil); err != nil {
			return err
		}
	}
	a, err := newAPI(l.kubeconfig())
	if err != nil {
		return err
	}
	if err := await(ctx, c, "the API server", time.Minute, func(ctx context.Context) error { return a.get(ctx, "/readyz", nil) }); err != nil {
		return err
	}
	for _, name := range []string{manager, scheduler, kwok, simSupport} {
		// kwok looks for files of the user's own clusters otherwise.
		if err := launch(l, c, name, l.bin(name), l.arguments(name, plan, o), []string{"KWOK_WORKDIR=" + l.config("kwok")}); err != nil {
			return err
		}
	}
	if err := furnish(ctx, a, c, plan); err != nil {
		return err
	}
	c.Complete = true
	if err := c.Save(string(l)); err != nil {
		return err
	}
	fmt.Fprintf(out, "The cluster is up after %s: %s\n", time.Since(began).Round(100*time.Millisecond), c.Server)
	return nil
}

func choosePorts(apiPort int) (portPlan, error) {
	free, err := ports.Free(5)
	if err != nil {
		return portPlan{}, err
	}
	p := portPlan{etcd: free[0], etcdPeer: free[1], api: free[2], manager: free[3], scheduler: free[4]}
	if apiPort != 0 {
		if err := ports.Check(apiPort); err != nil {
			return portPlan{}, fmt.Errorf("port %d is taken (%w); choose another with --api-port or leave the flag out", apiPort, err)
		}
		p.api = apiPort
	}
	return p, nil
}
