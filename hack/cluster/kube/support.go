package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// simSupport does for simulated nodes what the stages of kwok cannot: it provisions and expands volumes, and
// lets a node fail.
const simSupport = "sim-support"

// annotationPrefix begins every annotation that tells the simulation what to do.
const annotationPrefix = "sim.flotilla.io/"

func newSupportCommand() *cobra.Command {
	cmd := &cobra.Command{Use: simSupport, Short: "Volumes and outages of simulated nodes", SilenceUsage: true}
	path := cmd.Flags().String("kubeconfig", "", "kubeconfig of the API server")
	cmd.RunE = func(*cobra.Command, []string) error {
		ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer cancel()
		config, err := clientcmd.BuildConfigFromFlags("", *path)
		if err != nil {
			return fmt.Errorf("reading the kubeconfig: %w", err)
		}
		config.QPS = -1
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("building the client: %w", err)
		}
		return newSupport(client).run(ctx)
	}
	return cmd
}

// support reconciles by key: "claim/NAMESPACE/NAME", "volume/NAME" or "node/NAME".
type support struct {
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	queue   workqueue.TypedRateLimitingInterface[string]
}

func newSupport(client kubernetes.Interface) *support {
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 10*time.Second)
	return &support{
		client:  client,
		factory: informers.NewSharedInformerFactory(client, 0),
		queue:   workqueue.NewTypedRateLimitingQueue(limit),
	}
}

func (s *support) run(ctx context.Context) error {
	core := s.factory.Core().V1()
	watched := map[string]cache.SharedIndexInformer{
		"claim":  core.PersistentVolumeClaims().Informer(),
		"volume": core.PersistentVolumes().Informer(),
		"node":   core.Nodes().Informer(),
	}
	for kind, informer := range watched {
		if _, err := informer.AddEventHandler(s.enqueuer(kind)); err != nil {
			return fmt.Errorf("watching each %s: %w", kind, err)
		}
	}
	s.factory.Start(ctx.Done())
	s.factory.WaitForCacheSync(ctx.Done())
	const workers = 8
	for range workers {
		go s.work(ctx)
	}
	<-ctx.Done()
	s.queue.ShutDown()
	return nil
}

func (s *support) enqueuer(kind string) cache.ResourceEventHandler {
	add := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			s.queue.Add(kind + "/" + key)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }}
}

func (s *support) work(ctx context.Context) {
	for {
		key, stopped := s.queue.Get()
		if stopped {
			return
		}
		switch err := s.reconcile(ctx, key); {
		case err != nil && !errors.Is(err, context.Canceled):
			klog.FromContext(ctx).Error(err, "Retrying", "key", key)
			s.queue.AddRateLimited(key)
		default:
			s.queue.Forget(key)
		}
		s.queue.Done(key)
	}
}

func (s *support) reconcile(ctx context.Context, key string) error {
	kind, name, _ := strings.Cut(key, "/")
	switch kind {
	case "claim":
		namespace, name, _ := strings.Cut(name, "/")
		return s.reconcileClaim(ctx, namespace, name)
	case "volume":
		return s.reconcileVolume(ctx, name)
	default:
		return s.reconcileNode(ctx, key, name)
	}
}
