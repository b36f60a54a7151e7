package conversion

import (
	"fmt"
	"maps"
	"slices"
)

// CarriedProblem tells admission what is wrong with the carrier of a v1beta1 object, that says what of the object only v1alpha1
// has: "" if nothing is or there is none. It belongs to the field metadata.annotations. old is nil on CREATE; what was wrong
// with it already is not wrong.
//
// A conversion writes there only what makes no difference to v1beta1. Anything else would have those who read v1alpha1 see what
// is not stored, and what their types cannot hold would fail every list of theirs that the object is in.
func CarriedProblem(old, updated Tree) string {
	m, known := mappingOf(text(updated, "kind"))
	if !known || m.up == nil {
		return ""
	}
	key := CarrierKey(m.kind, V1alpha1)
	value, ok := child(updated, "metadata", "annotations")[key]
	if !ok || value == TooLarge {
		return ""
	}
	carrier := carrierOf(updated, key)
	const mend = "leave the annotation out, or keep it as it is"
	if was, had := child(old, "metadata", "annotations")[key]; !had || was != value {
		if carrier == nil {
			return fmt.Sprintf("%s: must be a JSON object as written by the conversion: %s", key, mend)
		}
		if strange := m.strangeCarried(carrier); strange != "" {
			return fmt.Sprintf("%s: must be as written by the conversion: %s is not; %s", key, strange, mend)
		}
	}
	if !m.isFaithful(updated) && (old == nil || m.isFaithful(old)) {
		return fmt.Sprintf("%s: says of the object what v1beta1 does not: %s", key, mend)
	}
	return ""
}

// strangeCarried names what no conversion restores in an object that is not stored yet: its status is none.
func (m mapping) strangeCarried(carrier Tree) string {
	said, given := carrier[restoreMember]
	if !given {
		return ""
	}
	entries, ok := said.(Tree)
	if !ok {
		return pointer([]string{restoreMember})
	}
	for _, p := range slices.Sorted(maps.Keys(entries)) {
		entry, ok := entries[p].(Tree)
		if path := parsePointer(p); !ok || !m.mayRestore(path, entry) || path[0] == "status" {
			return pointer([]string{restoreMember, p})
		}
	}
	return ""
}

// isFaithful tells whether the carrier of a v1beta1 object makes no difference to it: nothing of the object comes back from
// v1alpha1 as another value because of it.
func (m mapping) isFaithful(beta Tree) bool {
	bare := deepCopyTree(beta)
	setAnnotation(bare, CarrierKey(m.kind, V1alpha1), "")
	with, without := m.lost(beta, bare), m.lost(bare, bare)
	for p, entry := range with {
		// Labels and annotations that are none at all are there in one way or another.
		if !equal(entry, without[p]) && !holdsMetadata(parsePointer(p)) {
			return false
		}
	}
	return true
}

// lost is how an object differs from another once it has been there and back, without what is carried back.
func (m mapping) lost(beta, from Tree) Tree {
	back, _ := m.plainDown(beta)
	m.up(back, nil)
	return differences(masked(back, m.maskBeta), masked(from, m.maskBeta))
}
