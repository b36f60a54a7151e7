package cloneset

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// memory is what the process remembers of sets so that it says things once, and wastes nothing on failures. Nothing
// depends on it: a new process begins without.
type memory struct {
	mu   sync.Mutex
	sets map[types.UID]*remembered
}

type remembered struct {
	// limit is what creation was throttled to at the last sync.
	limit int
	// named are Pods of the set that podsToDelete named when they still were there.
	named sets.Set[string]
	// unused are the ids of claims whose Pods were refused, at that generation of the set.
	unused     sets.Set[string]
	generation int64
	// replicas are those of the last sync, in by how many they were lowered since there was no surplus; nil: not known.
	replicas *int
	in       int
}

func (m *memory) of(uid types.UID) *remembered {
	if m.sets == nil {
		m.sets = map[types.UID]*remembered{}
	}
	r := m.sets[uid]
	if r == nil {
		r = &remembered{limit: unlimited, named: sets.Set[string]{}, unused: sets.Set[string]{}}
		m.sets[uid] = r
	}
	return r
}

// tidy drops what says nothing.
func (m *memory) tidy(uid types.UID) {
	if r := m.sets[uid]; r != nil && r.limit == unlimited && len(r.named) == 0 && len(r.unused) == 0 && r.replicas == nil {
		delete(m.sets, uid)
	}
}

func (m *memory) rememberNames(uid types.UID, names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(uid).named.Insert(names...)
	m.tidy(uid)
}

// wasNamed says whether the name was that of a Pod of the set, and forgets it.
func (m *memory) wasNamed(uid types.UID, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.tidy(uid)
	r := m.of(uid)
	was := r.named.Has(name)
	r.named.Delete(name)
	return was
}

// changedLimit notes what creation is throttled to and says whether that is news.
func (m *memory) changedLimit(uid types.UID, limit int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.tidy(uid)
	r := m.of(uid)
	changed := r.limit != limit
	r.limit = limit
	return changed
}

// scaledIn notes how many replicas there are to be, and returns how many of the Pods above that are left of a larger number.
func (m *memory) scaledIn(uid types.UID, replicas, pods int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(uid)
	if r.replicas != nil {
		r.in = max(0, r.in+*r.replicas-replicas)
	}
	if pods <= replicas {
		r.in = 0
	}
	r.replicas = &replicas
	return r.in
}

// forgetReplicas begins that count anew.
func (m *memory) forgetReplicas(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.sets[uid]; r != nil {
		r.replicas, r.in = nil, 0
	}
	m.tidy(uid)
}

// keepUnused notes that the claims of an id have no Pod, because it was refused.
func (m *memory) keepUnused(uid types.UID, generation int64, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of(uid)
	if r.generation != generation {
		r.unused = sets.Set[string]{}
	}
	r.generation = generation
	r.unused.Insert(id)
}

// use notes that the claims of an id have their Pod.
func (m *memory) use(uid types.UID, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.sets[uid]; r != nil {
		r.unused.Delete(id)
	}
	m.tidy(uid)
}

// unusedIDs are those that were noted at that generation: with another spec the claims may be other ones.
func (m *memory) unusedIDs(uid types.UID, generation int64) sets.Set[string] {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.sets[uid]
	if r == nil || r.generation != generation {
		return nil
	}
	return r.unused.Clone()
}

func (m *memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, uid)
}
