package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// figures are what one phase cost one side.
type figures struct {
	pods      int
	wall      time.Duration
	cpu       time.Duration
	peak      int64
	writes    writes
	conflicts int
}

// side is one of the two that are compared.
type side struct {
	name    string
	user    string
	process *localcluster.Process
	phases  map[string]figures
	// idleWrites is what it wrote while nothing happened.
	idleWrites writes
	// heapPerPod is in bytes; 0 where it cannot be asked for.
	heapPerPod float64
	// replacements are the times from a deletion to the next creation, sorted.
	replacements []time.Duration
}

const (
	phaseCreate   = "create"
	phaseInPlace  = "in-place update"
	phaseRecreate = "recreate update"
)

// within bounds a phase.
const within = 10 * time.Minute

// measure runs one phase of that many Pods: do starts it, and it ends when done holds for the Pods of the namespace.
func (b *bench) measure(ctx context.Context, s *side, namespace, phase string, do func(context.Context) error, pods int, done func(localcluster.Pods) bool) error {
	pid := s.process.Pid()
	from, err := auditSize(b.audit)
	if err != nil {
		return err
	}
	if err := forgetPeak(pid); err != nil {
		return err
	}
	before, err := cpu(pid)
	if err != nil {
		return err
	}
	finished := make(chan struct{})
	closed := false
	stop, err := b.cluster.Observe(ctx, namespace, func(pods localcluster.Pods) error {
		if !closed && done(pods) {
			closed = true
			close(finished)
		}
		return nil
	})
	if err != nil {
		return err
	}
	start := time.Now()
	if err := do(ctx); err != nil {
		return err
	}
	deadline, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case <-finished:
	case <-s.process.Done():
		return fmt.Errorf("%s: the process of %s ended:\n%s", phase, s.name, s.process.Tail(20))
	case <-deadline.Done():
		return fmt.Errorf("%s: %w", phase, context.Cause(deadline))
	}
	f := figures{pods: pods, wall: time.Since(start)}
	if err := stop(); err != nil {
		return err
	}
	// What follows the last Pod, such as the final status, belongs to the phase.
	if err := b.quiet(ctx, s); err != nil {
		return err
	}
	after, err := cpu(pid)
	if err != nil {
		return err
	}
	f.cpu = after - before
	if f.peak, err = peakMemory(pid); err != nil {
		return err
	}
	f.writes, f.conflicts, err = auditWrites(b.audit, from, s.user)
	s.phases[phase] = f
	return err
}

// quiet waits until the side has written nothing for two seconds.
func (b *bench) quiet(ctx context.Context, s *side) error {
	const calm = 2 * time.Second
	last, since := -1, time.Now()
	return localcluster.Await(ctx, time.Minute, func(context.Context) error {
		w, _, err := auditWrites(b.audit, b.start, s.user)
		if err != nil {
			return err
		}
		if n := w.total(); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) < calm {
			return fmt.Errorf("%s is still writing", s.name)
		}
		return nil
	})
}

// idle counts writes while nothing happens.
func (b *bench) idle(ctx context.Context, s *side) error {
	from, err := auditSize(b.audit)
	if err != nil {
		return err
	}
	timer := time.NewTimer(b.options.idle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.idleWrites, _, err = auditWrites(b.audit, from, s.user)
	return err
}

// allReady tells whether exactly n Pods exist, all Ready and at that image.
func allReady(n int, image string) func(localcluster.Pods) bool {
	return func(pods localcluster.Pods) bool {
		if len(pods) != n {
			return false
		}
		for _, p := range pods {
			if p.DeletionTimestamp != nil || p.Spec.Containers[0].Image != image || !ready(p) {
				return false
			}
		}
		return true
	}
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
