package cloneset

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// alarm stands in for the loop, in the model's time: it knows when the set is to be synced next, and nothing else wakes
// it. A wait that nobody ends shows as a set that never comes to rest.
type alarm struct {
	model    *model
	at       time.Time
	set      bool
	failures int
	// quietUntil is when events may wake a set whose last sync failed.
	quietUntil time.Time
}

func (a *alarm) in(d time.Duration) {
	if at := a.model.clock.Now().Add(d); !a.set || at.Before(a.at) {
		a.at, a.set = at, true
	}
}

func (a *alarm) Add(cache.ObjectName) {
	a.failures, a.quietUntil = 0, time.Time{}
	a.in(0)
}

func (a *alarm) AddInitial(cache.ObjectName) { a.in(0) }

func (a *alarm) AddSoon(cache.ObjectName) {
	a.in(max(10*time.Millisecond, a.quietUntil.Sub(a.model.clock.Now())))
}

func (a *alarm) Forget(cache.ObjectName) {}

func (a *alarm) Run(context.Context, int) {}

// isDue says whether a worker would take the set up now.
func (a *alarm) isDue() bool { return a.set && !a.model.clock.Now().Before(a.at) }

// ring runs the sync that is due and does with its result what the loop does.
func (a *alarm) ring() error {
	a.set = false
	again, err := a.model.sync()
	switch {
	case err == nil:
		a.failures, a.quietUntil = 0, time.Time{}
	case errors.Is(err, kube.Waiting(workload.GateDelay)):
		a.in(workload.GateDelay)
		return nil
	default:
		longest := 5 * time.Minute
		if kube.IsLost(err) {
			longest = 10 * time.Second
		}
		backoff := min(20*time.Millisecond<<min(a.failures, 20), longest)
		a.failures++
		a.quietUntil = a.model.clock.Now().Add(min(backoff, time.Second))
		a.in(backoff)
	}
	if again > 0 {
		a.in(again)
	}
	return err
}

// live lets time pass: the set is synced when something wakes it, and everybody else does at once what they have to do.
// It returns the number of syncs.
func (m *model) live(d time.Duration) int {
	end := m.clock.Now().Add(d)
	syncs := 0
	for {
		m.settle()
		m.show(len(m.history))
		if m.alarm.isDue() {
			syncs++
			// A failure is retried, as in life.
			_ = m.alarm.ring()
			continue
		}
		if !m.alarm.set || m.alarm.at.After(end) {
			m.clock.SetTime(end)
			return syncs
		}
		m.clock.SetTime(m.alarm.at)
	}
}
