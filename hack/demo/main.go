// Command demo shows the product's main job on a real API server with simulated nodes: it creates
// CloneSets and an Advanced StatefulSet from examples/, changes them, draws what happens, and fails if it saw
// anything else than what it promises.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

func main() {
	dir := flag.String("dir", filepath.Join(".cluster", "demo"), "folder of the demo's cluster")
	nodes := flag.Int("sim-nodes", 10, "number of simulated nodes")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *dir, *nodes); err != nil {
		fmt.Fprintf(os.Stderr, "\nThe demo did not show what it should: %v\n", err)
		fmt.Fprintf(os.Stderr, "Logs are in %s. `make cluster-down` stops everything.\n", filepath.Join(*dir, "logs"))
		os.Exit(1)
	}
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
	step("cloneset-controller, statefulset-controller, webhook-server and the cert-rotator, as local processes, each under its own ServiceAccount")
	if err := startWebhooks(ctx, cluster); err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	for _, controller := range []string{"cloneset-controller", "statefulset-controller"} {
		if err := start(ctx, cluster, controller, "--leader-elect=false", "--health-probe-bind-address=0"); err != nil {
			return err
		}
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
  kubectl get clonesets,asts,pods -n %s
  kubectl patch cloneset canary -n %s --type merge -p '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}'

and when you are done:  make cluster-down
`, cluster.Kubeconfig, filepath.Join(cluster.Dir, "bin"), namespace, namespace)
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

// within bounds every wait: a loaded machine is slow, a broken product is slower.
const within = 2 * time.Minute
