package conversion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Tree is a JSON object. Its values are nil, bool, string, json.Number, []any and Tree; see [Decode]. Within this package lists
// and what nobody looks at may be json.RawMessage; see [ConvertText].
type Tree = map[string]any

var errNoObject = errors.New("decode object: not a JSON object")

// Decode reads one JSON object. Numbers keep their spelling, so integers beyond 2^53 survive.
func Decode(data []byte) (Tree, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var t Tree
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	if t == nil {
		return nil, errNoObject
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode object: data after the object")
	}
	return t, nil
}

// Encode writes compact JSON with the members of every object in lexical order: equal trees give equal bytes.
func Encode(t Tree) ([]byte, error) {
	var b bytes.Buffer
	err := encodeTo(&b, t)
	return b.Bytes(), err
}

// encodeTo appends any value as [Encode] writes trees, or nothing if there is an error.
func encodeTo(b *bytes.Buffer, v any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode object: %w", err)
	}
	// An encoder ends every value with a line.
	b.Truncate(b.Len() - 1)
	return nil
}

func deepCopy(v any) any {
	switch v := v.(type) {
	case Tree:
		return deepCopyTree(v)
	case []any:
		if v == nil {
			return v
		}
		c := make([]any, len(v))
		for i := range v {
			c[i] = deepCopy(v[i])
		}
		return c
	default:
		return v
	}
}

func deepCopyTree(t Tree) Tree {
	if t == nil {
		return nil
	}
	c := make(Tree, len(t))
	for k, v := range t {
		c[k] = deepCopy(v)
	}
	return c
}

// fork copies the top level only. Mappings start from a fork and reach what they change through own and ensure, which
// copy on the way; so several stages of a conversion share all that none of them touches.
func fork(t Tree) Tree {
	c := make(Tree, len(t)+1)
	for k, v := range t {
		c[k] = v
	}
	return c
}

// child returns an object below t for reading. Without one it returns nil, which is as good as empty for reading.
func child(t Tree, path ...string) Tree {
	for _, k := range path {
		c, ok := t[k].(Tree)
		if !ok {
			return nil
		}
		t = c
	}
	return t
}

// own returns a child object that the caller may change, nil if the member is no object. t itself must be owned.
func own(t Tree, key string) Tree {
	c, ok := t[key].(Tree)
	if !ok || c == nil {
		return nil
	}
	c = fork(c)
	t[key] = c
	return c
}

// ensure is own that creates an absent member. A member that is there and no object stays, and nil is returned.
func ensure(t Tree, key string) Tree {
	if _, ok := t[key]; !ok {
		c := Tree{}
		t[key] = c
		return c
	}
	return own(t, key)
}

// usable tells whether a member can be read as an object: it is one, or is absent.
func usable(t Tree, key string) bool {
	v, ok := t[key]
	if !ok {
		return true
	}
	c, ok := v.(Tree)
	return ok && c != nil
}

// setChild stores c under key, or nothing if c is empty. It is for objects that the mapping empties or fills: whether an
// empty one was there before is none of its business.
func setChild(t Tree, key string, c Tree) {
	if len(c) == 0 {
		delete(t, key)
		return
	}
	t[key] = c
}

// take removes a member and returns it.
func take(t Tree, key string) (any, bool) {
	v, ok := t[key]
	delete(t, key)
	return v, ok
}

// moveMember moves a member, replacing what the target has under that name.
func moveMember(from, to Tree, key string) {
	if v, ok := take(from, key); ok {
		to[key] = v
	}
}

// text returns a string member, "" for anything else.
func text(t Tree, key string) string {
	s, _ := t[key].(string)
	return s
}

// isZero tells whether a value means the same as an absent member of a plain (not pointer) field.
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case json.Number:
		return v == "0"
	case []any, json.RawMessage:
		return isEmptyList(v)
	default:
		return false
	}
}

// equal compares by spelling: 1 and 1.0 differ, null and absent members too. Shared subtrees cost nothing.
func equal(a, b any) bool {
	if raw, ok := b.(json.RawMessage); ok {
		return equalText(raw, a)
	}
	switch a := a.(type) {
	case json.RawMessage:
		return equalText(a, b)
	case Tree:
		b, ok := b.(Tree)
		return ok && equalTrees(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.EqualFunc(a, b, equal))
	case nil, bool, string, json.Number:
		return a == b
	default:
		return reflect.DeepEqual(a, b)
	}
}

func equalTrees(a, b Tree) bool {
	if len(a) != len(b) {
		return false
	}
	if sameTree(a, b) {
		return true
	}
	for k, v := range a {
		w, ok := b[k]
		if !ok || !equal(v, w) {
			return false
		}
	}
	return true
}

// equalText compares a text with a value, which may be a text that is written in another way.
func equalText(raw json.RawMessage, v any) bool {
	if other, ok := v.(json.RawMessage); ok {
		if bytes.Equal(raw, other) || raw[0] != other[0] {
			return bytes.Equal(raw, other)
		}
	}
	decoded, err := DecodeValue(raw)
	return err == nil && equal(decoded, v)
}

func sameTree(a, b Tree) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// pointer is an RFC 6901 JSON pointer that names members of objects only.
func pointer(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(p, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

func parsePointer(p string) []string {
	if !strings.HasPrefix(p, "/") {
		return nil
	}
	path := strings.Split(p[1:], "/")
	for i := range path {
		path[i] = strings.ReplaceAll(strings.ReplaceAll(path[i], "~1", "/"), "~0", "~")
	}
	return path
}
