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

type options struct {
	pods, nodes int
	idle        time.Duration
	// sets is how many sets are changed at once, deletions how many Pods are deleted one after the other.
	sets, deletions int
	keep            bool
}

func main() {
	var o options
	flag.IntVar(&o.pods, "pods", 500, "Pods of the workload")
	flag.IntVar(&o.nodes, "nodes", 20, "simulated nodes")
	flag.IntVar(&o.sets, "sets", 200, "sets of 20 Pods that are changed at once")
	flag.IntVar(&o.deletions, "deletions", 100, "Pods that are deleted to see how soon they are replaced")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to watch for writes when nothing happens")
	flag.BoolVar(&o.keep, "keep", false, "leave the cluster running")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	dir := filepath.Join(localcluster.Root(), ".cluster", "bench")
	cluster, err := localcluster.Up(localcluster.Options{
		Dir: dir, SimNodes: o.nodes, Without: []string{"deployment-controller", "replicaset-controller"},
	})
	if err != nil {
		return err
	}
	if !o.keep {
		defer func() {
			if downErr := cluster.Down(); err == nil {
				err = downErr
			}
		}()
	}
	b := &bench{cluster: cluster, audit: filepath.Join(dir, "audit.log"), options: o}
	native, err := b.native(ctx)
	if err != nil {
		return fmt.Errorf("native Deployment: %w", err)
	}
	ours, err := b.ours(ctx)
	if err != nil {
		return fmt.Errorf("CloneSet: %w", err)
	}
	report(os.Stdout, o, native, ours)
	return nil
}
