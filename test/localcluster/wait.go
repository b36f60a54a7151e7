package localcluster

import (
	"context"
	"fmt"
	"time"
)

// Await waits until check returns nil, or returns its last error after the deadline.
func Await(ctx context.Context, deadline time.Duration, check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			// That time is up while something is asked says nothing about it.
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}
