// Command demo shows the product's main job on a real API server with simulated nodes: it creates
// CloneSets and an Advanced StatefulSet from examples/, changes them, draws what happens, and fails if it saw
// anything else than what it promises.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	dir := flags.String("dir", filepath.Join(".cluster", "demo"), "folder of the demo's cluster")
	nodes := flags.Int("sim-nodes", 10, "number of simulated nodes")
	if code, ok := parse(flags, os.Args[1:]); !ok {
		os.Exit(code)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *dir, *nodes); err != nil {
		fmt.Fprintf(os.Stderr, "\nThe demo did not show what it should: %v\n", err)
		fmt.Fprintf(os.Stderr, "Logs are in %s. `make cluster-down` stops everything.\n", filepath.Join(*dir, "logs"))
		os.Exit(exitFailure)
	}
}

// parse reads the flags. Unless it is ok, the process ends with that code.
func parse(flags *pflag.FlagSet, args []string) (code int, ok bool) {
	flags.Usage = func() {
		fmt.Printf("Shows the controllers at work on a local Kubernetes.\n\nFlags:\n%s", flags.FlagUsages())
	}
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q: only flags are allowed", flags.Arg(0))
	}
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0, false
	case err != nil:
		fmt.Fprintf(os.Stderr, "demo: %v (--help lists the flags)\n", app.PlainFlagError(err))
		return exitUsage, false
	}
	return 0, true
}

func run(ctx context.Context, dir string, nodes int) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("resolving %s: %w", dir, err)
	}
	step("A Kubernetes control plane with %d simulated nodes", nodes)
	cluster, err := localcluster.Up(localcluster.Options{Dir: abs, SimNodes: nodes})
	if err != nil {
		return err
	}
	if err := startAll(ctx, cluster); err != nil {
		return err
	}
	d := &demo{cluster: cluster, screen: newScreen(os.Stdout)}
	seen, err := d.play(ctx)
	fmt.Println()
	for _, s := range seen {
		fmt.Println(s)
	}
	if err != nil {
		return err
	}
	fmt.Printf(`
The cluster is left running. Have a look, change something:

  export KUBECONFIG=%s
  export PATH=%s:$PATH
  kubectl get clonesets,asts,pods -n %s     # the sets: %s
  kubectl patch cloneset -n %s %s --type merge -p '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}'

and when you are done:  make cluster-down
`, cluster.Kubeconfig, filepath.Join(cluster.Dir, "bin"), namespace, strings.Join([]string{rolling, holding, older, reserving}, ", "), namespace, holding)
	return nil
}

// startAll starts what the product consists of.
func startAll(ctx context.Context, cluster *localcluster.Cluster) error {
	step("cloneset-controller, statefulset-controller, webhook-server and the cert-rotator, as local processes, each under its own ServiceAccount")
	if err := protect(cluster); err != nil {
		return err
	}
	if err := startWebhooks(ctx, cluster); err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	doing("starting the controllers")
	for _, controller := range []string{"cloneset-controller", "statefulset-controller"} {
		if err := start(ctx, cluster, controller, "--leader-elect=false", "--health-probe-bind-address=0"); err != nil {
			return err
		}
	}
	return nil
}

// start replaces a process that an earlier demo left, so that the one just built is shown.
func start(ctx context.Context, cluster *localcluster.Cluster, component string, args ...string) error {
	kubeconfig, err := cluster.KubeconfigFor(ctx, component, cluster.Scratch())
	if err != nil {
		return err
	}
	return cluster.StartDetached(component, append([]string{
		"--kubeconfig", kubeconfig, "--metrics-bind-address=0", "--pprof-bind-address=0",
	}, args...)...)
}

func step(format string, args ...any) {
	fmt.Printf("\n==> %s\n", fmt.Sprintf(format, args...))
}

// doing says what is waited for.
func doing(format string, args ...any) {
	fmt.Printf("  %s ...\n", fmt.Sprintf(format, args...))
}

// within bounds every wait: a loaded machine is slow, a broken product is slower.
const within = 2 * time.Minute
