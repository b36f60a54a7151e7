package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// GateDelay is how soon a sync looks again whether the caches show the last one's writes. Their events mostly come first.
const GateDelay = 25 * time.Millisecond

// Stalled is when to look again at an owner whose spec cannot be worked on: never, its correction is an event.
const Stalled time.Duration = -1

// What failed is tried again after a wait between these two.
const (
	FirstRetry   = 100 * time.Millisecond
	LongestRetry = time.Minute
)

// Loop runs the syncs that it is woken for.
type Loop interface {
	kube.Waker
	Forget(key cache.ObjectName)
	Run(ctx context.Context, workers int)
}

// Syncer is the frame of a kind's syncs.
type Syncer[T metav1.Object] struct {
	Kind    string
	Store   cache.Store
	Gate    *kube.Gate
	Clock   clock.PassiveClock
	Metrics *Metrics
	// Recorder is told of owners that cannot be read.
	Recorder record.EventRecorder
	// Gone is told of a key without an object, Forget of an owner that was deleted.
	Gone   func(key cache.ObjectName)
	Forget func(uid types.UID)
	// Work brings an owner closer to its spec. The object is the cache's: it is not to be changed.
	Work func(ctx context.Context, owner T) (time.Duration, error)

	unreadable Once
}

// Sync works on the owner of that key, once the caches show what earlier syncs wrote for it.
func (s *Syncer[T]) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	owner, exists, err := s.read(key)
	if err != nil {
		return 0, err
	}
	if !exists {
		s.Gone(key)
		return 0, nil
	}
	if err := s.Gate.Settle(ctx, owner.GetUID()); err != nil {
		s.Metrics.syncs.WithLabelValues(resultError).Inc()
		return 0, err
	}
	if !s.Gate.Open(owner.GetUID()) {
		s.Metrics.syncs.WithLabelValues(resultWaiting).Inc()
		return 0, kube.Waiting(GateDelay)
	}
	// What was read before may be older than what the gate has seen in the caches. Of another owner an event tells.
	uid := owner.GetUID()
	owner, exists, err = s.read(key)
	if err != nil || !exists || owner.GetUID() != uid {
		return 0, err
	}
	start := s.Clock.Now()
	again, err := s.work(ctx, owner)
	s.Metrics.duration.Observe(s.Clock.Since(start).Seconds())
	s.forgetIfGone(key, owner.GetUID())
	s.Metrics.syncs.WithLabelValues(resultOf(again, err)).Inc()
	return max(again, 0), err
}

// work leaves an owner alone that cannot be read: its Pods stay as they are.
func (s *Syncer[T]) work(ctx context.Context, owner T) (time.Duration, error) {
	why := kube.Unreadable(owner)
	if why == "" {
		s.unreadable.Forget(owner.GetUID())
		return s.Work(ctx, owner)
	}
	object, ok := any(owner).(runtime.Object)
	if ok && s.unreadable.Tell(owner.GetUID()) {
		logr.FromContextOrDiscard(ctx).Info("left alone: it cannot be read", "reason", why)
		s.Recorder.Eventf(object, corev1.EventTypeWarning, ReasonInvalidSpec, "cannot be read, and is left alone until it is mended: %s", why)
	}
	return Stalled, nil
}

func resultOf(again time.Duration, err error) string {
	switch {
	case err != nil && kube.IsPassing(err):
		return resultOvertaken
	case err != nil:
		return resultError
	case again == Stalled:
		return resultStalled
	}
	return resultOK
}

func (s *Syncer[T]) read(key cache.ObjectName) (owner T, exists bool, err error) {
	item, exists, err := s.Store.GetByKey(key.String())
	if err != nil {
		return owner, false, fmt.Errorf("reading %s %s: %w", s.Kind, key, err)
	}
	owner, ok := item.(T)
	return owner, exists && ok, nil
}

// forgetIfGone drops what a sync has remembered of an owner that was deleted meanwhile: its event has passed.
func (s *Syncer[T]) forgetIfGone(key cache.ObjectName, uid types.UID) {
	owner, exists, err := s.read(key)
	if err == nil && (!exists || owner.GetUID() != uid) {
		s.unreadable.Forget(uid)
		s.Forget(uid)
	}
}
