package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Tree is a JSON object. Numbers are json.Number, so that none loses a digit.
type Tree = map[string]any

// Decode reads a JSON object.
func Decode(raw []byte) (Tree, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var t Tree
	if err := decoder.Decode(&t); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	if t == nil {
		return nil, fmt.Errorf("decoding: not an object")
	}
	return t, nil
}

// Encode writes compact JSON with members in lexical order, characters as they are.
func Encode(t any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(t); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

func deepCopy(v any) any {
	switch t := v.(type) {
	case Tree:
		out := make(Tree, len(t))
		for k, v := range t {
			out[k] = deepCopy(v)
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i, v := range t {
			out[i] = deepCopy(v)
		}
		return out
	default:
		return v
	}
}

// child is the object at the path below t, or nil if there is none.
func child(t Tree, path ...string) Tree {
	for _, name := range path {
		t, _ = t[name].(Tree)
	}
	return t
}

// ensure is child, made where it is missing. It is nil where something else is in the way.
func ensure(t Tree, path ...string) Tree {
	for _, name := range path {
		if _, ok := t[name]; !ok {
			if t == nil {
				return nil
			}
			t[name] = Tree{}
		}
		t, _ = t[name].(Tree)
	}
	return t
}

// move moves a member, and says whether it was there.
func move(from, to Tree, name string) bool {
	v, ok := from[name]
	if !ok || to == nil {
		return false
	}
	delete(from, name)
	to[name] = v
	return true
}

func text(t Tree, name string) string {
	s, _ := t[name].(string)
	return s
}

func has(t Tree, name string) bool {
	_, ok := t[name]
	return ok
}

func has2(t Tree, name string) (any, bool) {
	v, ok := t[name]
	return v, ok
}

// setMeta sets a label or annotation; it is left out where metadata is not what it should be.
func setMeta(t Tree, kind, key, value string) {
	if m := ensure(t, "metadata", kind); m != nil {
		m[key] = value
	}
}

func getMeta(t Tree, kind, key string) (string, bool) {
	s, ok := child(t, "metadata", kind)[key].(string)
	return s, ok
}

// removeMeta removes a label or annotation, and the map with the last of them.
func removeMeta(t Tree, kind, key string) {
	m := child(t, "metadata", kind)
	if !has(m, key) {
		return
	}
	delete(m, key)
	if len(m) == 0 {
		delete(child(t, "metadata"), kind)
	}
}

const (
	labels      = "labels"
	annotations = "annotations"
)
