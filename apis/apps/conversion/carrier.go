package conversion

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// TooLarge is the value of a carrier that would not fit into the annotations of an object. An object that shows it lacks
// fields: admission must refuse to write it in that version.
const TooLarge = "too-large"

// The API server refuses objects with more than 256 KiB of annotations. The margin is for what others add.
const (
	maxAnnotations     = 256 << 10
	maxAnnotationBytes = maxAnnotations - 1<<10
)

// CarrierKey returns the annotation that carries what only objects of version fieldsOf have, on objects of the other
// version.
func CarrierKey(kind, fieldsOf string) string {
	return Group + "/" + strings.ToLower(kind) + "-" + fieldsOf + "-fields"
}

// maxCarriedDepth is how deep what a client carries may be nested. Objects as deep as 1,000 levels pass the webhooks, and what
// comes out of a carrier is put into one.
const maxCarriedDepth = 900

// depthOf is how deep a text of JSON is nested.
func depthOf(text []byte) (deepest int) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = rawjson.EndOfString(text, i) - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// carrierOf returns the carrier of an object without removing it, nil if there is none that can be read.
func carrierOf(obj Tree, key string) Tree {
	s, ok := child(obj, "metadata", "annotations")[key].(string)
	if !ok || len(s) > maxAnnotations || !strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") {
		return nil
	}
	c, err := Decode([]byte(s))
	if err != nil {
		return nil
	}
	return c
}

// takeCarrier removes a carrier that can be read, and annotations that are empty then. obj must be owned.
func takeCarrier(obj Tree, key string) Tree {
	c := carrierOf(obj, key)
	if c != nil {
		setAnnotation(obj, key, "")
	}
	return c
}

// putCarrier writes a carrier; an empty one is none. obj must be owned and must have a home for it. Where not even [TooLarge]
// fits it is left out: annotations that are too large make the API server fail every list that the object is in.
func putCarrier(obj Tree, key string, c Tree) {
	if len(c) == 0 {
		return
	}
	room := carrierRoom(obj, key)
	data, err := encodeWithin(c, room)
	switch {
	case err == nil && len(data) <= room:
		setAnnotation(obj, key, string(data))
	case len(TooLarge) <= room:
		setAnnotation(obj, key, TooLarge)
	default:
		setAnnotation(obj, key, "")
	}
}

// spelling is how many bytes a character may take in a text that is one byte in the usual spelling.
const spelling = len(`\u0061`)

// encodeWithin is [Encode], also of lists that nobody decoded, if the result may fit into the room; otherwise it is as long as
// it is with these lists as they are written.
func encodeWithin(c Tree, room int) ([]byte, error) {
	data, err := Encode(c)
	if err != nil || !holdsText(c) || len(data) > spelling*room {
		return data, err
	}
	if c, err = Decode(data); err != nil {
		return nil, err
	}
	return Encode(c)
}

// holdsText tells whether there is something that nobody decoded.
func holdsText(v any) bool {
	switch v := v.(type) {
	case Tree:
		for _, member := range v {
			if holdsText(member) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, holdsText)
	case json.RawMessage:
		return true
	}
	return false
}

// carrierRoom is how many bytes the value of a carrier may have beside the other annotations; negative: not even its key fits.
func carrierRoom(obj Tree, key string) int {
	room := maxAnnotationBytes - len(key)
	for k, v := range child(obj, "metadata", "annotations") {
		if k != key {
			s, _ := v.(string)
			room -= len(k) + len(s)
		}
	}
	return room
}

// setAnnotation sets an annotation or, with the empty value, removes it. See setMetadata.
func setAnnotation(obj Tree, key, value string) { setMetadata(obj, "annotations", key, value) }

// setMetadata sets a label or annotation or, with the empty value, removes it together with the member that held it if
// nothing else is in there. A null is replaced like an absent member. hasHome must hold for obj.
func setMetadata(obj Tree, member, key, value string) {
	if _, ok := child(obj, "metadata", member)[key]; !ok && value == "" {
		return
	}
	metadata := ensureHome(obj, "metadata")
	values := ensureHome(metadata, member)
	if value != "" {
		values[key] = value
		return
	}
	delete(values, key)
	setChild(metadata, member, values)
}

func ensureHome(t Tree, key string) Tree {
	if v, ok := t[key]; ok && v == nil {
		delete(t, key)
	}
	return ensure(t, key)
}

// hasHome tells whether labels and annotations can be written: what should hold them is absent, null or an object, and
// their values are strings. The API server sends no other objects.
func hasHome(obj Tree) bool {
	if v, ok := obj["metadata"]; ok && v != nil && child(obj, "metadata") == nil {
		return false
	}
	metadata := child(obj, "metadata")
	for _, member := range []string{"labels", "annotations"} {
		v, ok := metadata[member]
		if ok && v != nil && child(metadata, member) == nil {
			return false
		}
		for _, v := range child(metadata, member) {
			if _, ok := v.(string); !ok {
				return false
			}
		}
	}
	return true
}
