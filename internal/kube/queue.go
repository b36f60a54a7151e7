package kube

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// levels is a queue with two levels: items that were marked as initial wait until all others are done. It is guarded by
// the workqueue that it belongs to; only the marks are shared with others.
type levels[T comparable] struct {
	high, low []T

	mu      sync.Mutex
	initial map[T]bool
}

var _ workqueue.Queue[string] = &levels[string]{}

func (l *levels[T]) mark(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.initial == nil {
		l.initial = map[T]bool{}
	}
	l.initial[item] = true
}

// takeMark says whether the item was marked since it was last asked.
func (l *levels[T]) takeMark(item T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	marked := l.initial[item]
	delete(l.initial, item)
	return marked
}

// Push adds an item that is not in the queue.
func (l *levels[T]) Push(item T) {
	if l.takeMark(item) {
		l.low = append(l.low, item)
		return
	}
	l.high = append(l.high, item)
}

// Touch is called for an item that waits already. It keeps its place: an item of the initial list that changes is
// reached after those that changed before it, which is soon enough.
func (l *levels[T]) Touch(item T) { l.takeMark(item) }

// Len is the number of items that wait.
func (l *levels[T]) Len() int { return len(l.high) + len(l.low) }

// Pop returns the next item.
func (l *levels[T]) Pop() T {
	from := &l.high
	if len(l.high) == 0 {
		from = &l.low
	}
	item := (*from)[0]
	var zero T
	// The array that backs the slice must not keep the item alive.
	(*from)[0] = zero
	*from = (*from)[1:]
	return item
}
