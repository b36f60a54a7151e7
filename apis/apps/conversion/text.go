package conversion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// ConvertText is [Convert] for an object as JSON text; it appends the result, or nothing if there is an error. Members that no
// mapping looks at, and lists, are neither decoded nor copied into a tree: they go from text to text, in the order and the
// spelling that they have, without the space between them. An object that is in the desired version already is appended as it is.
//
// data must be valid JSON: what is not may be read in part. A member that is there twice counts once where it is decoded, the
// last one, and stays as it is where it is not.
func ConvertText(to *bytes.Buffer, data []byte, desiredAPIVersion string) error {
	return ConvertTextIf(func(int) error { return nil }, to, data, desiredAPIVersion)
}

// ErrTooMuch says that an object takes more memory than can ever be afforded.
var ErrTooMuch = errors.New("the object takes too much memory")

// ConvertTextIf is [ConvertText] if what it takes can be afforded: afford is told of the bytes of memory, beside some times the
// text, before they are taken, and its error is returned as it is. But for [ErrTooMuch]: as what is stored must be readable, such an
// object is nothing but said to be in the other version. In v1alpha1 its carrier says [TooLarge], where there is room for that, so that
// admission refuses to write it in that version.
func ConvertTextIf(afford func(bytes int) error, to *bytes.Buffer, data []byte, desiredAPIVersion string) error {
	said, err := header(data)
	if err != nil {
		return err
	}
	m, have, err := mappingFor(said, desiredAPIVersion)
	switch {
	case err != nil:
		return err
	case have == desiredAPIVersion:
		to.Write(data)
		return nil
	}
	switch err := afford(m.weigh(data)); {
	case errors.Is(err, ErrTooMuch):
		m.convertBare(to, data, desiredAPIVersion)
		return nil
	case err != nil:
		return err
	}
	obj, err := sketch(data, m.reach())
	if err != nil {
		return fmt.Errorf("decode object: %w", err)
	}
	maps.Copy(obj, said)
	return encodeTo(to, m.convert(obj, desiredAPIVersion))
}

// VersionOf returns the API version of an object as JSON text, which must be valid. It fails for what there is no conversion for.
func VersionOf(data []byte) (string, error) {
	obj, err := header(data)
	if err != nil {
		return "", err
	}
	_, have, err := mappingFor(obj, Group+"/"+V1beta1)
	return have, err
}

// header is what an object says to be, as far as these are strings. Nothing else is decoded: it has not been weighed.
func header(data []byte) (Tree, error) {
	if !isObject(data) {
		return nil, errNoObject
	}
	said := Tree{}
	for name, value := range rawjson.Members(data) {
		member := string(name)
		if member != "apiVersion" && member != "kind" {
			continue
		}
		delete(said, member)
		if value[0] != '"' {
			continue
		}
		text, err := rawjson.String(value)
		if err != nil {
			return nil, fmt.Errorf("decode object: %s: %w", member, err)
		}
		said[member] = text
	}
	return said, nil
}

// reach says what is looked at in an object: members, each as a whole if there is nothing below. In a tree that was made by
// it all other members are json.RawMessage: they stay where they are, so an object that is looked at in part is never removed
// or carried, and comparing the text with itself is all that the way back needs.
type reach []glance

type glance struct {
	member string
	below  reach
}

// whole looks at all that is in some members.
func whole(members ...string) reach {
	r := make(reach, len(members))
	for i, m := range members {
		r[i].member = m
	}
	return r
}

func metadataReach() reach { return whole("labels", "annotations") }

// reach is that of an object.
func (m mapping) reach() reach {
	r := reach{{"metadata", metadataReach()}}
	if len(m.spec) > 0 {
		r = append(r, glance{"spec", m.spec})
	}
	if len(m.status) > 0 {
		r = append(r, glance{"status", m.status})
	}
	return r
}

// place is where a path leads to, as seen from a reach.
type place int

const (
	outside place = iota
	// above: to what something in reach is in.
	above
	inside
)

// look returns, of a path above, also what is in reach below it.
func (r reach) look(path []string) (place, reach) {
	if len(path) == 0 {
		return above, r
	}
	switch below, known := r.below(path[0]); {
	case !known:
		return outside, nil
	case len(below) == 0:
		return inside, nil
	default:
		return below.look(path[1:])
	}
}

// below is what is looked at in a member, nothing if that is the whole of it, and whether it is looked at.
func (r reach) below(member string) (below reach, known bool) {
	for _, g := range r {
		if g.member == member {
			return g.below, true
		}
	}
	return nil, false
}

// sketch decodes what is in reach of an object.
func sketch(data []byte, r reach) (Tree, error) {
	t := Tree{}
	for name, value := range rawjson.Members(data) {
		t[string(name)] = json.RawMessage(value)
	}
	return t, decodeReach(t, r)
}

// decodeReach decodes what is in reach of a tree that has been sketched. What is no object has nothing below and is decoded
// whole, but for lists: they are moved and compared as they are, and who looks into one reads its elements.
func decodeReach(t Tree, r reach) error {
	for _, g := range r {
		raw, ok := t[g.member].(json.RawMessage)
		if !ok {
			continue
		}
		var v any
		var err error
		if len(g.below) > 0 && isObject(raw) {
			v, err = sketch(raw, g.below)
		} else {
			v, err = decodeBut(raw, isList)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", g.member, err)
		}
		t[g.member] = v
	}
	return nil
}

func isObject(data []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) }

// DecodeValue reads any JSON value as [Decode] reads objects. raw must be valid, without space around it.
func DecodeValue(raw []byte) (any, error) {
	return decodeBut(raw, func([]byte) bool { return false })
}

// decodeBut leaves values as they are written where that is said of them.
func decodeBut(raw []byte, stays func([]byte) bool) (any, error) {
	d := decoder{raw, stays}
	v, _, err := d.value(0)
	return v, err
}

// decoder goes through a text once, however deep it is nested.
type decoder struct {
	text  []byte
	stays func([]byte) bool
}

// value decodes what begins at i, and returns where that ends.
func (d decoder) value(i int) (any, int, error) {
	switch {
	case d.stays(d.text[i:]):
		end := rawjson.End(d.text, i)
		return json.RawMessage(d.text[i:end]), end, nil
	case d.text[i] == '{':
		return d.object(i)
	case d.text[i] == '[':
		return d.list(i)
	}
	end := rawjson.End(d.text, i)
	v, err := decodeScalar(d.text[i:end])
	return v, end, err
}

func (d decoder) object(i int) (any, int, error) {
	t := Tree{}
	for i++; ; {
		i = rawjson.Next(d.text, i)
		if i == len(d.text) || d.text[i] != '"' {
			return t, min(i+1, len(d.text)), nil
		}
		end := rawjson.End(d.text, i)
		name, err := rawjson.String(d.text[i:end])
		if err != nil {
			return nil, i, err //nolint:wrapcheck // The caller says what was read.
		}
		if i = rawjson.Next(d.text, end); i == len(d.text) {
			return t, i, nil
		}
		if t[name], i, err = d.value(i); err != nil {
			return nil, i, err
		}
	}
}

func (d decoder) list(i int) (any, int, error) {
	l := []any{}
	for i++; ; {
		i = rawjson.Next(d.text, i)
		if i == len(d.text) || d.text[i] == ']' {
			return l, min(i+1, len(d.text)), nil
		}
		var v any
		var err error
		from := i
		if v, i, err = d.value(i); err != nil {
			return nil, i, err
		}
		if i == from {
			return l, i, nil
		}
		l = append(l, v)
	}
}

// isList tells whether a text is that of a list.
func isList(raw []byte) bool { return len(raw) > 0 && raw[0] == '[' }

// isSomeList tells whether a value is a list, decoded or not.
func isSomeList(v any) bool {
	_, isDecoded := v.([]any)
	raw, _ := v.(json.RawMessage)
	return isDecoded || isList(raw)
}

// isEmptyList is false of what is no list.
func isEmptyList(v any) bool {
	for range elements(v) {
		return false
	}
	return isSomeList(v)
}

// elements are those of a list, as they are written if nobody decoded it; nothing of what is no list.
func elements(v any) iter.Seq[any] {
	return func(yield func(any) bool) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				if !yield(e) {
					return
				}
			}
		case json.RawMessage:
			for e := range rawjson.Elements(v) {
				if !yield(json.RawMessage(e)) {
					return
				}
			}
		}
	}
}

// entry is an element that is an object, of which only some members are decoded if nobody decoded it; nil of any other.
func entry(element any, members ...string) Tree {
	if raw, ok := element.(json.RawMessage); ok {
		if !isObject(raw) {
			return nil
		}
		if t, err := sketch(raw, whole(members...)); err == nil {
			return t
		}
		return nil
	}
	t, _ := element.(Tree)
	return t
}

func decodeScalar(raw []byte) (any, error) {
	switch raw[0] {
	case '"':
		return rawjson.String(raw) //nolint:wrapcheck // The caller says what was read.
	case 't':
		return true, nil
	case 'f':
		return false, nil
	case 'n':
		return nil, nil
	}
	return json.Number(raw), nil
}
