package kube

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Store is the part of an informer's store that tells how far it has come.
type Store interface {
	LastStoreSyncResourceVersion() string
	GetByKey(key string) (item any, exists bool, err error)
}

// Gate makes a controller read its own writes: a sync of an owner waits until the stores show everything that earlier
// syncs of it wrote. A write that got no answer may have been carried out: it is in doubt, and nothing is decided before
// the API server has told.
//
// A write is awaited by its resourceVersion. That cannot hang: the event of the write itself, any later event, and a
// fresh list all carry a version that is as high or higher, also if the object is gone by then. A deletion is awaited by
// the object's UID: the store shows it terminating, or no longer, or another object under its name.
type Gate struct {
	mu     sync.Mutex
	owners map[types.UID]*pendingWrites
}

type pendingWrites struct {
	versions map[Store]string
	deletes  map[deletion]bool
	doubts   map[doubt]func(context.Context) error
}

// doubt is an object of which it is not known whether the last write to it was carried out.
type doubt struct {
	store Store
	key   string
}

type deletion struct {
	store Store
	key   string
	uid   types.UID
}

// NewGate returns a gate that knows of no writes.
func NewGate() *Gate { return &Gate{owners: map[types.UID]*pendingWrites{}} }

func (g *Gate) pending(owner types.UID) *pendingWrites {
	p := g.owners[owner]
	if p == nil {
		p = &pendingWrites{versions: map[Store]string{}, deletes: map[deletion]bool{}, doubts: map[doubt]func(context.Context) error{}}
		g.owners[owner] = p
	}
	return p
}

// Wrote notes that an object in the store was written for the owner.
func (g *Gate) Wrote(owner types.UID, store Store, version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pending(owner)
	if isNewer(version, p.versions[store]) {
		p.versions[store] = version
	}
}

// Deleted notes that the object with that key and UID was deleted for the owner.
func (g *Gate) Deleted(owner types.UID, store Store, key string, uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending(owner).deletes[deletion{store, key, uid}] = true
}

// doubt notes that a write got no answer. ask finds out what became of it, and tells the gate what is to be awaited.
func (g *Gate) doubt(owner types.UID, d doubt, ask func(context.Context) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending(owner).doubts[d] = ask
}

// Settle asks what became of the writes in doubt. Those of which that cannot be learned stay in doubt, and are in the
// error.
func (g *Gate) Settle(ctx context.Context, owner types.UID) error {
	g.mu.Lock()
	var open map[doubt]func(context.Context) error
	if p := g.owners[owner]; p != nil {
		open = maps.Clone(p.doubts)
	}
	g.mu.Unlock()
	var errs []error
	order := slices.SortedFunc(maps.Keys(open), func(a, b doubt) int { return strings.Compare(a.key, b.key) })
	for _, d := range order {
		if err := open[d](ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		g.mu.Lock()
		if p := g.owners[owner]; p != nil {
			delete(p.doubts, d)
		}
		g.mu.Unlock()
	}
	return errors.Join(errs...)
}

// Open says whether the stores show all that was written for the owner. What they show is forgotten.
func (g *Gate) Open(owner types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.owners[owner]
	if p == nil {
		return true
	}
	for store, version := range p.versions {
		if !isNewer(version, store.LastStoreSyncResourceVersion()) {
			delete(p.versions, store)
		}
	}
	for d := range p.deletes {
		if d.isSeen() {
			delete(p.deletes, d)
		}
	}
	if len(p.versions)+len(p.deletes)+len(p.doubts) > 0 {
		return false
	}
	delete(g.owners, owner)
	return true
}

// Forget drops what is known of an owner that is gone.
func (g *Gate) Forget(owner types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.owners, owner)
}

// isNewer says whether a store that has come to seen still misses version. A version that cannot be compared is not
// waited for: it would be waited for for ever.
func isNewer(version, seen string) bool {
	if version == "" {
		return false
	}
	if seen == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(version, seen)
	return err == nil && order > 0
}

func (d deletion) isSeen() bool {
	item, exists, err := d.store.GetByKey(d.key)
	if err != nil || !exists {
		return true
	}
	object, err := meta.Accessor(item)
	return err != nil || object.GetUID() != d.uid || object.GetDeletionTimestamp() != nil
}
