package workload

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Once remembers of which owners something was told. Nothing depends on it: a new process tells it again.
type Once struct {
	mu   sync.Mutex
	told sets.Set[types.UID]
}

// Tell says whether it is still to be told, and remembers that it was.
func (o *Once) Tell(owner types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told.Has(owner) {
		return false
	}
	if o.told == nil {
		o.told = sets.Set[types.UID]{}
	}
	o.told.Insert(owner)
	return true
}

// Forget drops an owner.
func (o *Once) Forget(owner types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told.Delete(owner)
}
