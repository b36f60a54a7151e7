package modelcluster

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// dependents are the resources whose objects an object of the resource may own.
func (m *Cluster) dependents(resource string) []string {
	switch resource {
	case m.kind.Resource:
		return []string{Pods, Claims, Revisions}
	case Pods:
		return []string{Claims}
	}
	return nil
}

// collect does what the garbage collector does once an owner is gone: objects all of whose owners are gone are deleted, and
// others lose the reference.
func (m *Cluster) collect(resource string, owner types.UID) {
	for _, dependent := range m.dependents(resource) {
		var keys []string
		for key, o := range m.Objects[dependent] {
			if slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner }) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			m.release(dependent, key)
		}
	}
}

// recollect does what the garbage collector does with an object that got an owner which is gone already. What owns the owners
// is of kinds that are not in the model.
func (m *Cluster) recollect(resource, key string) {
	o := m.Objects[resource][key]
	if o != nil && resource != m.kind.Resource && slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return m.uids[r.UID] <= 0 }) {
		m.release(resource, key)
	}
}

// release takes the owners that are gone off an object, or deletes it if none is left.
func (m *Cluster) release(resource, key string) {
	o := m.Objects[resource][key]
	if o == nil {
		return
	}
	left := slices.DeleteFunc(slices.Clone(o.GetOwnerReferences()), func(r metav1.OwnerReference) bool { return m.uids[r.UID] <= 0 })
	if len(left) == 0 {
		m.Delete(resource, key)
		return
	}
	o = copyOf(o)
	o.SetOwnerReferences(left)
	m.Put(resource, o)
}
