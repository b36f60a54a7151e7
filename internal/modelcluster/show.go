package modelcluster

import "k8s.io/client-go/tools/cache"

// Changes is how many changes the history has.
func (m *Cluster) Changes() int { return len(m.history) }

// Shown is how many of them the caches show.
func (m *Cluster) Shown() int { return m.shown }

// Lag is how many of them the caches do not show.
func (m *Cluster) Lag() int { return len(m.history) - m.shown }

// ShowAll moves the caches on to the end of the history.
func (m *Cluster) ShowAll() { m.Show(len(m.history)) }

// Show moves the caches on to a point of the history, and tells the controller of what happened up to it.
func (m *Cluster) Show(until int) {
	for ; m.shown < min(until, len(m.history)); m.shown++ {
		if c := m.history[m.shown]; m.watches[c.resource].Informer != nil {
			m.deliver(c)
		}
	}
}

func (m *Cluster) deliver(c change) {
	store, handler := m.watches[c.resource].Informer.GetStore(), m.watches[c.resource].Handler
	old, exists, err := store.GetByKey(c.key)
	must(err)
	switch {
	case c.object != nil && exists:
		fresh := m.trimmed(c)
		must(store.Update(fresh))
		handler.OnUpdate(old, fresh)
	case c.object != nil:
		fresh := m.trimmed(c)
		must(store.Add(fresh))
		handler.OnAdd(fresh, false)
	case exists:
		// A watch delivers a removal with the version at which it happened.
		gone := copyOf(old.(Object))
		gone.SetResourceVersion(c.version)
		must(store.Delete(gone))
		handler.OnDelete(gone)
	}
}

// Miss takes an object out of its cache and tells the controller as a watch does that has missed the removal.
func (m *Cluster) Miss(resource string, last Object) {
	must(m.watches[resource].Informer.GetStore().Delete(last))
	m.watches[resource].Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: cache.MetaObjectToName(last).String(), Obj: last})
}

// trimmed is the object as the informer's transform leaves it.
func (m *Cluster) trimmed(c change) any {
	out, err := m.watches[c.resource].Transform(copyOf(c.object))
	must(err)
	return out
}
