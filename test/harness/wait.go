package harness

import (
	"context"
	"testing"
	"time"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// Patience is how long Eventually waits: long enough for a loaded machine, short enough to notice.
const Patience = 60 * time.Second

// Eventually waits until check returns nil and fails the test with its last error after the deadline.
func Eventually(t testing.TB, what string, deadline time.Duration, check func(ctx context.Context) error) {
	t.Helper()
	if err := localcluster.Await(t.Context(), deadline, check); err != nil {
		t.Fatalf("%s did not happen within %s: %v", what, deadline, err)
	}
}

// Consistently fails the test as soon as check returns an error within the time.
func Consistently(t testing.TB, what string, span time.Duration, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := check(ctx); err != nil && ctx.Err() == nil {
			t.Fatalf("%s did not hold: %v", what, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
