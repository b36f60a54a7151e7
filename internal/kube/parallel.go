package kube

import (
	"errors"
	"sync"
)

// ForEach calls f for 0 to n-1, at most limit at a time, and returns all errors joined. One item's failure does not keep
// the others from being tried. A panic of one is that of the caller, after those that had begun have ended.
func ForEach(n, limit int, f func(i int) error) error {
	errs := make([]error, n)
	slots := make(chan struct{}, max(1, limit))
	panicked := make(chan any, n)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		if len(panicked) > 0 {
			break
		}
		wg.Go(func() {
			// In this order: whoever gets the slot sees the panic.
			defer func() { <-slots }()
			defer func() {
				if r := recover(); r != nil {
					panicked <- r
				}
			}()
			errs[i] = f(i)
		})
	}
	wg.Wait()
	if len(panicked) > 0 {
		panic(<-panicked)
	}
	return errors.Join(errs...)
}

// largestBatch bounds what is tried in vain when everything begins to fail.
const largestBatch = 64

// SlowStart calls f for 0 to n-1 in batches of 1, 2, 4, 8… up to 64, each in parallel with at most limit at a time. After a
// batch with a failure no further one begins: what fails once, such as an exhausted quota, is not tried n times. It returns
// how many calls succeeded, and the errors.
func SlowStart(n, limit int, f func(i int) error) (int, error) {
	succeeded := 0
	for done, size := 0, 1; done < n; size = min(2*size, largestBatch) {
		batch := min(size, n-done)
		first := done
		var mu sync.Mutex
		err := ForEach(batch, limit, func(i int) error {
			err := f(first + i)
			if err == nil {
				mu.Lock()
				succeeded++
				mu.Unlock()
			}
			return err
		})
		if err != nil {
			return succeeded, err
		}
		done += batch
	}
	return succeeded, nil
}
