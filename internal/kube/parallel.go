package kube

import (
	"errors"
	"sync"
)

// ForEach calls f for 0 to n-1, at most limit at a time, and returns all errors joined. One item's failure does not keep
// the others from being tried.
func ForEach(n, limit int, f func(i int) error) error {
	errs := make([]error, n)
	slots := make(chan struct{}, max(1, limit))
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(i)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// SlowStart calls f for 0 to n-1 in batches of 1, 2, 4, 8…, each in parallel with at most limit at a time. After a batch
// with a failure no further one begins: what fails once, such as an exhausted quota, is not tried n times. It returns
// how many calls succeeded, and the errors.
func SlowStart(n, limit int, f func(i int) error) (int, error) {
	succeeded := 0
	for done, size := 0, 1; done < n; size *= 2 {
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
