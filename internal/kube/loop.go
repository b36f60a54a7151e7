package kube

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Sync works on one object. It returns when to look again, 0 for only when something happens; that holds beside an error
// too. An error is retried with backoff.
type Sync func(ctx context.Context, key cache.ObjectName) (time.Duration, error)

// Passing marks an error that only means that somebody else was faster: the caches will show it in a moment. It is
// retried like any other, but nobody is told.
func Passing(err error) error { return passing{err} }

type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// Waiting is what a sync returns that did nothing because it has to wait, such as for its caches. It is no failure, and
// no success either: what failed before it is still to be retried as late as it was to be.
func Waiting(d time.Duration) error { return waiting{d} }

type waiting struct{ time.Duration }

func (w waiting) Error() string { return "waiting " + w.String() }

// Loop calls a Sync for every key that was added, never twice at a time for one key.
type Loop struct {
	name    string
	sync    Sync
	clock   clock.WithTicker
	queue   workqueue.TypedDelayingInterface[cache.ObjectName]
	backoff workqueue.TypedRateLimiter[cache.ObjectName]
	order   *levels[cache.ObjectName]

	mu sync.Mutex
	// pace holds keys whose syncs take longer than minPace.
	pace map[cache.ObjectName]time.Duration
	// failed holds keys whose last sync failed: until when events do not wake them.
	failed map[cache.ObjectName]time.Time
}

const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 5 * time.Minute
	// lostBackoff is the longest wait while the API server does not answer at all.
	lostBackoff = 10 * time.Second
	// A burst of events is waited for as long as the last sync took, within bounds.
	paceFactor = 1
	minPace    = 10 * time.Millisecond
	maxPace    = 30 * time.Millisecond
	// A failing sync may cause events itself. They wake it no more often than this, however short or long the backoff is.
	failingPace = time.Second
)

// NewLoop returns a loop. Keys may be added before it runs.
func NewLoop(name string, c clock.WithTicker, sync Sync) *Loop {
	order := &levels[cache.ObjectName]{}
	return &Loop{
		name: name, sync: sync, clock: c, order: order,
		pace: map[cache.ObjectName]time.Duration{}, failed: map[cache.ObjectName]time.Time{},
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](minBackoff, maxBackoff),
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[cache.ObjectName]{
			Name: name, Clock: c,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[cache.ObjectName]{
				Name: name, Clock: c, Queue: order,
			}),
		}),
	}
}

// Add asks for a sync now: somebody has changed what is wanted, so that earlier failures mean nothing.
func (l *Loop) Add(key cache.ObjectName) {
	l.succeeded(key)
	l.queue.Add(key)
}

// AddInitial asks for a sync after all keys that changed.
func (l *Loop) AddInitial(key cache.ObjectName) {
	l.order.mark(key)
	l.queue.Add(key)
}

// AddSoon asks for a sync in a moment: a burst of events becomes one sync, and the longer a sync takes the more events
// it waits for. A sync that has just failed is not run again sooner than failingPace.
func (l *Loop) AddSoon(key cache.ObjectName) {
	l.mu.Lock()
	after := max(l.pace[key], minPace)
	if until, failed := l.failed[key]; failed {
		after = max(after, until.Sub(l.clock.Now()))
	}
	l.mu.Unlock()
	l.queue.AddAfter(key, after)
}

// Forget drops what is remembered of a key whose object is gone.
func (l *Loop) Forget(key cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pace, key)
	delete(l.failed, key)
}

// Run works with that many workers until the context ends, and returns when the last sync has.
func (l *Loop) Run(ctx context.Context, workers int) {
	var wg sync.WaitGroup
	// A worker that waits in Get only leaves it for an item or for good; so each item is handed over by one feeder.
	items := make(chan cache.ObjectName)
	go l.feed(ctx, items)
	for range workers {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case key := <-items:
					l.work(ctx, key)
				}
			}
		})
	}
	wg.Wait()
}

// feed ends when the context does, at the latest with the next item; that item goes back to the queue.
func (l *Loop) feed(ctx context.Context, items chan<- cache.ObjectName) {
	for {
		key, shutdown := l.queue.Get()
		if shutdown {
			return
		}
		select {
		case items <- key:
		case <-ctx.Done():
			l.queue.Done(key)
			l.queue.Add(key)
			return
		}
	}
}

// ShutDown ends the loop for good.
func (l *Loop) ShutDown() { l.queue.ShutDown() }

func (l *Loop) work(ctx context.Context, key cache.ObjectName) {
	defer l.queue.Done(key)
	log := logr.FromContextOrDiscard(ctx).WithValues(l.name, key.String())
	start := l.clock.Now()
	again, err := l.protected(logr.NewContext(ctx, log), key)
	l.setPace(key, l.clock.Since(start))
	var wait waiting
	switch {
	case errors.As(err, &wait):
		l.queue.AddAfter(key, wait.Duration)
		return
	case err == nil:
		l.succeeded(key)
	case ctx.Err() != nil:
		l.queue.Add(key)
	case errors.As(err, new(passing)):
		log.V(4).Info("overtaken, trying again", "error", err.Error())
		l.retry(key)
	case IsLost(err):
		// That the API server is away is told once, by the one who notices. It is asked again soon: everything waits for it.
		log.V(4).Info("no answer, trying again", "error", err.Error())
		l.retryWithin(key, lostBackoff)
	default:
		log.Error(err, "sync failed, trying again")
		l.retry(key)
	}
	if again > 0 {
		l.queue.AddAfter(key, again)
	}
}

// retry asks for a sync after the key's backoff, and keeps events from coming much before that.
func (l *Loop) retry(key cache.ObjectName) { l.retryWithin(key, maxBackoff) }

func (l *Loop) retryWithin(key cache.ObjectName, longest time.Duration) {
	after := min(l.backoff.When(key), longest)
	l.mu.Lock()
	l.failed[key] = l.clock.Now().Add(min(after, failingPace))
	l.mu.Unlock()
	l.queue.AddAfter(key, after)
}

func (l *Loop) succeeded(key cache.ObjectName) {
	l.backoff.Forget(key)
	l.mu.Lock()
	delete(l.failed, key)
	l.mu.Unlock()
}

// protected turns a panic into an error: one bad object must not stop the work on all others.
func (l *Loop) protected(ctx context.Context, key cache.ObjectName) (again time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return l.sync(ctx, key)
}

func (l *Loop) setPace(key cache.ObjectName, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pace := min(took*paceFactor, maxPace); pace > minPace {
		l.pace[key] = pace
	} else {
		delete(l.pace, key)
	}
}
