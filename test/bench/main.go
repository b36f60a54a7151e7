package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

type options struct {
	pods, nodes int
	idle        time.Duration
	// sets is how many sets are changed at once, deletions how many Pods are deleted one after the other.
	sets, deletions int
	keep            bool
	parts           map[string]bool
	// Of the webhooks: how many objects in one review, reviews of one object, SidecarSets, caBundles that are wiped, Secrets that
	// are nobody's business, objects that are stored while their CRD changes; and how long a steady load lasts.
	list, reviews, sidecarSets, repairs, secrets, stored int
	load                                                 time.Duration
}

// Parts that can be chosen.
const (
	partCloneSet   = "cloneset"
	partStateful   = "statefulset"
	partIdle       = "idle"
	partConversion = "conversion"
	partAdmission  = "admission"
	partRotation   = "rotation"
	partRepair     = "repair"
	partSecrets    = "secrets"
	partStorage    = "storage"

	// partWebhook is all of the webhooks.
	partWebhook = "webhook"
)

func webhookParts() []string {
	return []string{partIdle, partConversion, partAdmission, partRotation, partRepair, partSecrets, partStorage}
}

func (o options) has(part string) bool { return o.parts[part] }

// choose reads a list of parts.
func (o *options) choose(list string) error {
	o.parts = map[string]bool{}
	for name := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		switch {
		case name == partWebhook:
			for _, p := range webhookParts() {
				o.parts[p] = true
			}
		case name == partCloneSet || name == partStateful || slices.Contains(webhookParts(), name):
			o.parts[name] = true
		default:
			return fmt.Errorf("--parts has %q: must be of %s, %s, %s (all that follow), %s", name, partCloneSet, partStateful, partWebhook, strings.Join(webhookParts(), ", "))
		}
	}
	if len(o.parts) == 0 {
		return errors.New("--parts is empty")
	}
	return nil
}

func main() {
	var o options
	flag.IntVar(&o.pods, "pods", 500, "Pods of the workload")
	flag.IntVar(&o.nodes, "nodes", 20, "simulated nodes")
	flag.IntVar(&o.sets, "sets", 200, "sets of 20 Pods that are changed at once")
	flag.IntVar(&o.deletions, "deletions", 100, "Pods that are deleted to see how soon they are replaced")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to watch for writes when nothing happens")
	flag.BoolVar(&o.keep, "keep", false, "leave the cluster running")
	parts := flag.String("parts", partCloneSet+","+partStateful+","+partWebhook, "what to measure: "+partCloneSet+", "+partStateful+", "+partWebhook+" or of it "+strings.Join(webhookParts(), ", "))
	flag.IntVar(&o.list, "list", 1000, "objects in one conversion review")
	flag.IntVar(&o.reviews, "reviews", 5000, "conversion reviews of one object")
	flag.IntVar(&o.sidecarSets, "sidecarsets", 1000, "SidecarSets that are there when admission is measured")
	flag.IntVar(&o.repairs, "repairs", 50, "caBundles that are wiped")
	flag.IntVar(&o.secrets, "secrets", 20000, "Secrets that the rotator must not notice")
	flag.IntVar(&o.stored, "stored", 5000, "objects that are stored while their CRD changes")
	flag.DurationVar(&o.load, "load", 10*time.Second, "how long a steady load lasts")
	flag.Parse()
	if err := o.choose(*parts); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(2)
	}
	// What the API server says beside its answers is not what is measured.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
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
		Dir: dir, SimNodes: o.nodes, Without: []string{"deployment-controller", "replicaset-controller", "statefulset-controller"},
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
	if o.has(partCloneSet) {
		native, err := b.native(ctx)
		if err != nil {
			return fmt.Errorf("native Deployment: %w", err)
		}
		ours, err := b.ours(ctx)
		if err != nil {
			return fmt.Errorf("CloneSet: %w", err)
		}
		report(os.Stdout, o, native, ours)
	}
	if o.has(partStateful) {
		if err := b.stateful(ctx, os.Stdout); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(webhookParts(), o.has) {
		return nil
	}
	told, err := b.webhooks(ctx)
	// What was measured before an error is worth seeing, too.
	told.print(os.Stdout, "webhook-server and cert-rotator on a real API server, one run")
	if err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	return nil
}
