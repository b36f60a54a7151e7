package conversion

import (
	"maps"
	"regexp"
	"slices"
)

// restoreMember is the member of a carrier that holds what the mapping alone would not bring back: JSON pointers with
// {"from": what the mapping yields, "to": what it was}; an absent member stands for an absent value.
const restoreMember = "restore"

// differences lists where from and to differ. Lists are compared as a whole.
func differences(from, to Tree) Tree {
	out := Tree{}
	diffTrees(from, to, nil, out)
	return out
}

func diffTrees(from, to Tree, path []string, out Tree) {
	if len(from) == len(to) && sameTree(from, to) {
		return
	}
	for k, v := range from {
		w, ok := to[k]
		diffMember(v, w, true, ok, append(path[:len(path):len(path)], k), out)
	}
	for k, w := range to {
		if _, ok := from[k]; !ok {
			diffMember(nil, w, false, true, append(path[:len(path):len(path)], k), out)
		}
	}
}

func diffMember(from, to any, hasFrom, hasTo bool, path []string, out Tree) {
	fromTree, fromIsTree := from.(Tree)
	toTree, toIsTree := to.(Tree)
	switch {
	case fromIsTree && toIsTree:
		diffTrees(fromTree, toTree, path, out)
		return
	case hasFrom && hasTo && equal(from, to):
		return
	case !holdsMetadata(path):
	case len(toTree) > 0:
		// Whatever else gets or loses a label or annotation in the meantime, each is restored for itself.
		diffTrees(nil, toTree, path, out)
		return
	case len(fromTree) > 0:
		diffTrees(fromTree, nil, path, out)
		from = Tree{}
	}
	entry := Tree{}
	if hasFrom {
		entry["from"] = from
	}
	if hasTo {
		entry["to"] = to
	}
	out[pointer(path)] = entry
}

// holdsMetadata tells whether a path leads to what labels or annotations are in.
func holdsMetadata(path []string) bool { return path[0] == "metadata" && len(path) < 3 }

// restore applies the entries of a carrier to an owned object where the object (as masked) still has what the entry was
// written for. Labels and annotations come before what they are in. Carriers can be written by hand, so entries that could
// make an object unreadable are passed over.
func (m mapping) restore(obj, carrier Tree, mask func(Tree)) {
	entries := child(carrier, restoreMember)
	if len(entries) == 0 {
		return
	}
	view := masked(obj, mask)
	pointers := slices.Sorted(maps.Keys(entries))
	slices.Reverse(pointers)
	for _, p := range pointers {
		entry, ok := entries[p].(Tree)
		path := parsePointer(p)
		if !ok || !m.mayRestore(path, entry) {
			continue
		}
		if holdsMetadata(path) {
			view = masked(obj, mask)
		}
		from, expected := entry["from"]
		now, present := lookup(view, path)
		if expected == present && equal(from, now) {
			set(obj, path, entry)
		}
	}
}

func lookup(t Tree, path []string) (any, bool) {
	last := len(path) - 1
	v, ok := child(t, path[:last]...)[path[last]]
	return v, ok
}

func set(obj Tree, path []string, entry Tree) {
	last := len(path) - 1
	to, ok := entry["to"]
	for _, k := range path[:last] {
		if path[0] == "metadata" && ok {
			obj = ensureHome(obj, k)
		} else {
			obj = own(obj, k)
		}
		if obj == nil {
			return
		}
	}
	if ok {
		obj[path[last]] = deepCopy(to)
		return
	}
	delete(obj, path[last])
}

// mayRestore allows what conversions write: what their mappings look at; in metadata only the labels and annotations that
// they know; and what any of that is in, when it is empty. Anything else would be a way to write what the API server guards
// otherwise: the status, or a spec without a new generation. It would refuse the result, and with it every list that the
// object is in, if anything else in metadata changed or a label were malformed.
func (m mapping) mayRestore(path []string, entry Tree) bool {
	if len(path) == 0 {
		return false
	}
	to, given := entry["to"]
	at, below := m.reach().look(path)
	switch at {
	case above:
		return below.isHollow(entry["from"]) && below.isHollow(to)
	case outside:
		return false
	}
	switch {
	case path[0] != "metadata":
		return true
	case len(path) < 3:
		return isEmpty(entry["from"]) && isEmpty(to)
	case len(path) > 3:
		return false
	case given:
		return writable(m.kind, path[1], path[2], to)
	}
	return knownKey(m.kind, path[1], path[2])
}

func isEmpty(v any) bool { return v == nil || equal(v, Tree{}) }

// isHollow tells whether a value says nothing: it is absent, null, or an object that has only such members, and only what is
// in reach.
func (r reach) isHollow(v any) bool {
	t, ok := v.(Tree)
	for k, w := range t {
		if below, known := r.below(k); !known || !below.isHollow(w) {
			return false
		}
	}
	return ok || v == nil
}

func writable(kind, member, key string, value any) bool {
	s, ok := value.(string)
	return ok && knownKey(kind, member, key) && (member == "annotations" || validLabel(s))
}

func knownKey(kind, member, key string) bool {
	if member == "labels" {
		return key == excludePreparingDeleteLabel || key == customVersionLabel
	}
	if key == CarrierKey(kind, V1alpha1) || key == CarrierKey(kind, V1beta1) || key == shapeAnnotation {
		return true
	}
	for _, p := range preDownloads() {
		if key == p.annotation {
			return true
		}
	}
	return false
}

// labelValue is compiled once and never changed.
var labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$`)

func validLabel(s string) bool { return labelValue.MatchString(s) }
