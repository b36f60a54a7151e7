package conversion

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// KeepCarrier is what admission does to a v1alpha1 object before it is judged. Both objects are v1alpha1, old is nil on
// CREATE; neither is changed. The answer is the new object itself when there is nothing to do, and whether it is another.
//
// A client that left the carrier out, as a plain PUT of an old manifest does, gets that of the old object, and nothing is
// erased. A client that means to clear what the carrier holds sets it to `{}`; what it says beside an edited field is stale
// and never wins. For AdvancedCronJob the carrier stands for a third template, so it is not kept beside one of the two others.
// A carrier that says [TooLarge] is kept too, so that validation sees that this object must not be written in v1alpha1.
//
// What a carrier says of the status is always that of the old object: as the API server has it for the status itself.
func KeepCarrier(old, updated Tree) (kept Tree, changed bool) {
	kind := text(updated, "kind")
	m, known := mappingOf(kind)
	if !known || old != nil && text(old, "kind") != kind || !hasHome(updated) {
		return updated, false
	}
	key := CarrierKey(kind, V1beta1)
	if _, ok := child(updated, "metadata", "annotations")[key]; ok {
		return m.keepStatus(old, updated, key)
	}
	value, _ := child(old, "metadata", "annotations")[key].(string)
	if value == "" || kind == "AdvancedCronJob" && hasVisibleTemplate(updated) {
		return updated, false
	}
	return annotated(updated, key, value), true
}

func annotated(obj Tree, key, value string) Tree {
	obj = deepCopyTree(obj)
	setAnnotation(obj, key, value)
	return obj
}

func (m mapping) keepStatus(old, updated Tree, key string) (Tree, bool) {
	carrier := carrierOf(updated, key)
	if carrier == nil {
		return updated, false
	}
	kept := fork(carrier)
	was := carrierOf(old, key)
	replaceMember(kept, was, "status")
	entries := fork(child(kept, restoreMember))
	said := child(was, restoreMember)
	for _, p := range slices.Concat(slices.Collect(maps.Keys(entries)), slices.Collect(maps.Keys(said))) {
		if path := parsePointer(p); len(path) > 0 && path[0] == "status" {
			replaceMember(entries, said, p)
		}
	}
	if !equal(entries, child(kept, restoreMember)) {
		kept[restoreMember] = entries
	}
	data, err := Encode(kept)
	if err != nil || equal(kept, carrier) {
		return updated, false
	}
	return annotated(updated, key, string(data)), true
}

// replaceMember gives a member the value that it has in another object, or none.
func replaceMember(t, from Tree, key string) {
	delete(t, key)
	if v, ok := from[key]; ok {
		t[key] = v
	}
}

// CarrierProblem tells admission what is wrong with the carrier of a v1alpha1 object, "" if nothing is or there is none.
// It belongs to the field metadata.annotations. old is nil on CREATE; what it had already is not wrong, unless it is [TooLarge].
func CarrierProblem(old, updated Tree) string {
	m, known := mappingOf(text(updated, "kind"))
	if !known {
		return ""
	}
	key := CarrierKey(m.kind, V1beta1)
	value, ok := child(updated, "metadata", "annotations")[key]
	was, had := child(old, "metadata", "annotations")[key]
	carrier := carrierOf(updated, key)
	said, _ := value.(string)
	switch {
	case value == TooLarge, was == TooLarge, m.mayLack(old, had, key):
		return key + ": this object has more fields than v1alpha1 can carry; edit this object through v1beta1"
	case !ok || had && value == was:
		return ""
	case carrier == nil:
		return key + ": must be a JSON object as written by the conversion"
	case depthOf([]byte(said)) > maxCarriedDepth:
		return fmt.Sprintf("%s: must not be nested deeper than %d levels", key, maxCarriedDepth)
	}
	if strange := m.strange(old, carrier); strange != "" {
		return fmt.Sprintf("%s: must be as written by the conversion: %s is not; leave the annotation out to keep what it says, or set it to {}", key, strange)
	}
	return ""
}

// mayLack tells whether an old object may have had more than v1alpha1 can say, and no room to say so.
func (m mapping) mayLack(old Tree, carried bool, key string) bool {
	return m.up != nil && old != nil && !carried && lackingRoom(old, key) > 0
}

// strange names what in a carrier on a v1alpha1 object no conversion writes; "" if there is nothing. On an update what is to be
// restored is what it was: another value would change the spec without a new generation.
func (m mapping) strange(old, carrier Tree) string {
	was := child(carrierOf(old, CarrierKey(m.kind, V1beta1)), restoreMember)
	for _, k := range slices.Sorted(maps.Keys(carrier)) {
		if k != restoreMember {
			if at := m.carries.strange(Tree{k: carrier[k]}); at != nil {
				return pointer(at)
			}
			continue
		}
		entries, ok := carrier[k].(Tree)
		if !ok {
			return pointer([]string{k})
		}
		for _, p := range slices.Sorted(maps.Keys(entries)) {
			entry, ok := entries[p].(Tree)
			if !ok || !m.mayRestore(parsePointer(p), entry) || old != nil && !equal(entry, was[p]) {
				return pointer([]string{k, p})
			}
		}
	}
	return ""
}

// NullProblem tells admission of a null in a list that a v1alpha1 object carries, beside what CarrierProblem does; "" if there is
// none that is new. Conversions carry it if it is there, but the schema of v1beta1 lets nobody store one.
func NullProblem(old, updated Tree) string {
	key := CarrierKey(text(updated, "kind"), V1beta1)
	value, was := child(updated, "metadata", "annotations")[key], child(old, "metadata", "annotations")[key]
	at := nullElement(carrierOf(updated, key))
	if at == nil || value == was {
		return ""
	}
	return fmt.Sprintf("%s: must not hold a null in a list, as %s is", key, pointer(at))
}

// nullElement is the path to a null in a list, which the types would take for a value; nil if there is none.
func nullElement(v any) []string {
	switch v := v.(type) {
	case Tree:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if at := nullElement(v[k]); at != nil {
				return append([]string{k}, at...)
			}
		}
	case []any:
		for i, e := range v {
			if at := nullElement(e); e == nil || at != nil {
				return append([]string{strconv.Itoa(i)}, at...)
			}
		}
	}
	return nil
}

// strange is the path to the first member that is not in reach, or that is no object although something is below; nil if
// there is none.
func (r reach) strange(t Tree) []string {
	for _, k := range slices.Sorted(maps.Keys(t)) {
		below, known := r.below(k)
		if !known {
			return []string{k}
		}
		if len(below) > 0 {
			c, ok := t[k].(Tree)
			if !ok {
				return []string{k}
			}
			if at := below.strange(c); at != nil {
				return append([]string{k}, at...)
			}
		}
	}
	return nil
}

// RoomProblem tells admission what is wrong with the annotations of a v1beta1 object that leave no room for its carrier, nor
// for [TooLarge]: whoever wrote it through v1alpha1 would erase what v1alpha1 lacks. "" if nothing is, or if old, which is nil
// on CREATE, was like that. Both are JSON text. It belongs to the field metadata.annotations.
func RoomProblem(old, updated []byte) string {
	if len(updated) < maxAnnotationBytes/2 {
		return ""
	}
	is, err := Decode(updated)
	if err != nil {
		return ""
	}
	missing := missingRoom(is)
	if missing == 0 {
		return ""
	}
	if was, err := Decode(old); err == nil && missingRoom(was) > 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes too many: of %d some must be left for what v1alpha1 cannot say", missing, maxAnnotationBytes)
}

// missingRoom is how many bytes the annotations have too little for those that v1alpha1 adds, where a carrier says [TooLarge] at least.
func missingRoom(beta Tree) int {
	key := CarrierKey(text(beta, "kind"), V1beta1)
	if carrierRoom(beta, key) >= len(TooLarge)+roomOfMirrors {
		return 0
	}
	has, needed := child(beta, "metadata", "annotations"), 0
	bare := fork(beta)
	if metadata := own(bare, "metadata"); metadata != nil {
		delete(metadata, "annotations")
	}
	alpha, err := Convert(bare, Group+"/"+V1alpha1)
	if err != nil {
		return 0
	}
	for k, v := range child(alpha, "metadata", "annotations") {
		value, _ := v.(string)
		was, _ := has[k].(string)
		switch {
		case k == key:
			needed += len(k) + len(TooLarge)
		case was == "":
			needed += len(k) + len(value)
		}
	}
	// The room for a carrier leaves its own key out.
	return max(0, needed-len(key)-carrierRoom(beta, key))
}

// lackingRoom is how many bytes even [TooLarge] has too little.
func lackingRoom(obj Tree, key string) int { return max(0, len(TooLarge)-carrierRoom(obj, key)) }

// roomOfMirrors is more than the annotations take that repeat a field.
const roomOfMirrors = 1 << 10
