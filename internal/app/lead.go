package app

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lead calls work whenever this process holds the lease, until the context ends. A lost lease ends the work, and the process
// only where that is wanted: with the API server away for a while the caches and the place in line are kept.
func lead(ctx context.Context, config *rest.Config, o *Options, work func(context.Context)) error {
	client, err := leaseClient(config, o)
	if err != nil {
		return err
	}
	lock := &lease{log: logr.FromContextOrDiscard(ctx), namespace: o.LeaderElectNamespace, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.LeaderElectNamespace, Name: o.LeaderElectLeaseName},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: newIdentity()},
	}}
	for ctx.Err() == nil {
		if err := leadOnce(ctx, lock, o, work); err != nil {
			return err
		}
		if o.endsWithLease {
			return nil
		}
	}
	return nil
}

// leaseClient has connections of its own and gives up early: a renewal must not wait behind the traffic of the work.
func leaseClient(config *rest.Config, o *Options) (kubernetes.Interface, error) {
	own := rest.CopyConfig(config)
	own.Timeout = o.RenewDeadline / 2
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("building the lease's client: %w", err)
	}
	return client, nil
}

// leadOnce returns when the lease was lost, or when the context ended, the work was finished and the lease given back.
func leadOnce(ctx context.Context, lock resourcelock.Interface, o *Options, work func(context.Context)) error {
	log := logr.FromContextOrDiscard(ctx)
	// The lease outlives the work: it is given back when nothing more is written under it.
	leaseCtx, giveBack := context.WithCancel(logr.NewContext(context.WithoutCancel(ctx), logr.New(quiet{log.GetSink()})))
	defer giveBack()
	var tenure tenure
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: o.LeaderElectLeaseName, ReleaseOnCancel: true,
		LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) {
				log.Info("leading", "lease", lock.Describe(), "identity", lock.Identity())
				tenure.run(logr.NewContext(held, log), ctx, work)
				if ctx.Err() != nil {
					giveBack()
				}
			},
			OnStoppedLeading: func() { log.V(2).Info("the lease is not held any more", "lease", lock.Describe()) },
			OnNewLeader: func(leader string) {
				if leader != lock.Identity() {
					log.Info("another replica leads; standing by", "leader", leader)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("setting up leader election: %w", err)
	}
	// A process that does not lead has nothing to finish.
	stop := context.AfterFunc(ctx, func() {
		if !elector.IsLeader() {
			giveBack()
		}
	})
	defer stop()
	elector.Run(leaseCtx)
	tenure.end()
	return nil
}

// tenure is the time for which one lease is held. client-go begins the work in a goroutine and does not wait for it.
type tenure struct {
	mu    sync.Mutex
	ended bool
	work  sync.WaitGroup
}

// run works until one of the contexts ends. After end it does nothing.
func (t *tenure) run(held, ctx context.Context, work func(context.Context)) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	t.work.Add(1)
	t.mu.Unlock()
	defer t.work.Done()
	both, cancel := context.WithCancel(held)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	work(both)
}

// end returns when no work is going on, and none will begin.
func (t *tenure) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.work.Wait()
}
