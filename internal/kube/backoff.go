package kube

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Backoff remembers parts of an owner's work that failed, so that a part is tried again later and later while the rest of
// the work goes on. It is no state that anything depends on: a process that begins anew merely tries sooner.
type Backoff struct {
	// First is the wait after one failure; it doubles with each further one up to Longest.
	First, Longest time.Duration

	mu     sync.Mutex
	owners map[types.UID]map[string]failures
}

type failures struct {
	goal  string
	count int
	until time.Time
}

// Failed notes that the part failed on the way to a goal, and returns when to try again. A failure on the way to another
// goal counts no more.
func (b *Backoff) Failed(owner types.UID, part, goal string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owners == nil {
		b.owners = map[types.UID]map[string]failures{}
	}
	if b.owners[owner] == nil {
		b.owners[owner] = map[string]failures{}
	}
	f := b.owners[owner][part]
	if f.goal != goal {
		f = failures{goal: goal}
	}
	wait := b.First
	for range f.count {
		wait = min(2*wait, b.Longest)
	}
	f.count++
	f.until = now.Add(wait)
	b.owners[owner][part] = f
	return wait
}

// Wait returns how long the part is still not to be tried, and whether it failed last time.
func (b *Backoff) Wait(owner types.UID, part, goal string, now time.Time) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok := b.owners[owner][part]
	if !ok || f.goal != goal {
		return 0, false
	}
	return max(0, f.until.Sub(now)), true
}

// Waits returns how long each part that failed last time is still not to be tried.
func (b *Backoff) Waits(owner types.UID, goal string, now time.Time) map[string]time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[string]time.Duration, len(b.owners[owner]))
	for part, f := range b.owners[owner] {
		if f.goal == goal {
			out[part] = max(0, f.until.Sub(now))
		}
	}
	return out
}

// Succeeded forgets the failures of a part.
func (b *Backoff) Succeeded(owner types.UID, part string) {
	b.Keep(owner, func(p string) bool { return p != part })
}

// Keep forgets all parts but the wanted ones.
func (b *Backoff) Keep(owner types.UID, wanted func(part string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.owners[owner], func(part string, _ failures) bool { return !wanted(part) })
	if len(b.owners[owner]) == 0 {
		delete(b.owners, owner)
	}
}

// Forget drops an owner that is gone.
func (b *Backoff) Forget(owner types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.owners, owner)
}
