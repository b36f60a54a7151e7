package modelcluster

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// Alarm stands in for the loop, in the model's time: it knows when the owner is to be synced next, and nothing else wakes
// it. A wait that nobody ends shows as an owner that never comes to rest.
type Alarm struct {
	cluster  *Cluster
	at       time.Time
	set      bool
	failures int
	// quietUntil is when events may wake an owner whose last sync failed.
	quietUntil time.Time
}

func (a *Alarm) in(d time.Duration) {
	if at := a.cluster.Clock.Now().Add(d); !a.set || at.Before(a.at) {
		a.at, a.set = at, true
	}
}

// Add has the owner synced now.
func (a *Alarm) Add(cache.ObjectName) {
	a.failures, a.quietUntil = 0, time.Time{}
	a.in(0)
}

// AddInitial has the owner synced now; what failed before stays failed.
func (a *Alarm) AddInitial(cache.ObjectName) { a.in(0) }

// AddSoon has the owner synced in a moment.
func (a *Alarm) AddSoon(cache.ObjectName) {
	a.in(max(10*time.Millisecond, a.quietUntil.Sub(a.cluster.Clock.Now())))
}

// Forget does nothing: there is one owner only.
func (a *Alarm) Forget(cache.ObjectName) {}

// Run does nothing: the model rings.
func (a *Alarm) Run(context.Context, int) {}

// IsDue says whether a worker would take the owner up now.
func (a *Alarm) IsDue() bool { return a.set && !a.cluster.Clock.Now().Before(a.at) }

// Next is when the owner is to be synced; false: never, unless something happens.
func (a *Alarm) Next() (time.Time, bool) { return a.at, a.set }

// Ring runs the sync that is due and does with its result what the loop does.
func (a *Alarm) Ring() error {
	a.set = false
	again, err := a.cluster.Sync()
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
		a.quietUntil = a.cluster.Clock.Now().Add(min(backoff, time.Second))
		a.in(backoff)
	}
	if again > 0 {
		a.in(again)
	}
	return err
}

// Live lets time pass: the owner is synced when something wakes it, and everybody else does at once what they have to do.
// It returns the number of syncs.
func (m *Cluster) Live(d time.Duration) int {
	end := m.Clock.Now().Add(d)
	syncs := 0
	for {
		m.Settle()
		m.ShowAll()
		if m.Alarm.IsDue() {
			syncs++
			// A failure is retried, as in life.
			_ = m.Alarm.Ring()
			continue
		}
		if !m.Alarm.set || m.Alarm.at.After(end) {
			m.Clock.SetTime(end)
			return syncs
		}
		m.Clock.SetTime(m.Alarm.at)
	}
}
