package admission

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// Some bytes of text can become kilobytes of memory: "{}" is a container, which gets defaults. So texts are weighed before they
// are decoded. A weight is about the bytes of memory that lists and maps take, beside what is written in them.
const (
	// maxWeight is far above what real objects weigh, of which the largest have some thousand settings or ports: it is that of
	// 640 containers, of 1,000 volumes, or of 18,000 ports.
	maxWeight = 1 << 20
	// What is as large as heavy has many members, and gets many defaults: it counts heavyTimes.
	heavy, heavyTimes = 128, 4
	// heaviest is more than anything weighs that there can be many of.
	heaviest = 4 * 512
	// mapEntry is what a map takes for each of its members, beside the member.
	mapEntry = 48
)

// shape is what matters of a type. With nothing below, values take no more than they are long.
type shape struct {
	// own is what a value weighs by itself, where it is no part of another: as an element, or behind a pointer.
	own       int
	isPointer bool
	members   map[string]*shape // of a struct
	element   *shape            // of a list, or of a map
	isMap     bool
}

// shapes are those of types that have been looked at.
type shapes map[reflect.Type]*shape

func (known shapes) of(t reflect.Type) *shape {
	if s, is := known[t]; is {
		return s
	}
	s := &shape{own: int(t.Size())}
	known[t] = s
	if s.own >= heavy {
		s.own *= heavyTimes
	}
	switch {
	case t.Kind() == reflect.Pointer:
		*s = *known.of(t.Elem())
		s.isPointer = true
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
	case t.Kind() == reflect.Struct:
		s.members = map[string]*shape{}
		known.addMembers(s, t)
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
		s.isMap = t.Kind() == reflect.Map
		s.element = known.of(t.Elem())
	}
	return s
}

// addMembers adds those of a struct, and of what is embedded in it.
func (known shapes) addMembers(s *shape, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			known.addMembers(s, f.Type)
		case name != "" && name != "-":
			s.members[name] = known.of(f.Type)
		}
	}
}

// member is the shape of a member, by its name in quotes; nil, if nothing of the kind is known.
func (s *shape) member(quoted []byte) *shape {
	switch {
	case s == nil || s.isMap:
		return s.below()
	case bytes.IndexByte(quoted, '\\') < 0:
		return s.members[string(quoted[1:max(1, len(quoted)-1)])]
	}
	name, err := rawjson.String(quoted)
	if err != nil {
		return nil
	}
	return s.members[name]
}

func (s *shape) below() *shape {
	if s == nil {
		return nil
	}
	return s.element
}

// scale goes through a text, once, and sums up what is in it.
type scale struct {
	text       []byte
	at, weight int
}

// weigh is what a text weighs beside the value itself.
func (s *shape) weigh(text []byte) int {
	w := scale{text: text}
	w.value(s)
	return w.weight
}

func (w *scale) value(s *shape) {
	switch {
	case s == nil || w.at == len(w.text):
	case w.text[w.at] == '{' && (s.members != nil || s.isMap):
		w.object(s)
		return
	case w.text[w.at] == '[' && s.element != nil && !s.isMap:
		w.list(s)
		return
	}
	w.at = rawjson.End(w.text, w.at)
}

func (w *scale) object(s *shape) {
	for w.at = rawjson.Next(w.text, w.at+1); w.at < len(w.text) && w.text[w.at] == '"'; w.at = rawjson.Next(w.text, w.at) {
		from := w.at
		w.at = rawjson.EndOfString(w.text, from)
		m := s.member(w.text[from:w.at])
		switch {
		case s.isMap:
			w.weight += mapEntry + m.own
		case m != nil && m.isPointer:
			w.weight += m.own
		}
		w.at = rawjson.Next(w.text, w.at)
		w.value(m)
	}
	w.at = min(w.at+1, len(w.text))
}

func (w *scale) list(s *shape) {
	for w.at = rawjson.Next(w.text, w.at+1); w.at < len(w.text) && w.text[w.at] != ']'; w.at = rawjson.Next(w.text, w.at) {
		from := w.at
		w.weight += s.element.own
		if w.value(s.element); w.at == from {
			break
		}
	}
	w.at = min(w.at+1, len(w.text))
}

// isTooMuch tells whether a text would weigh too much as a value of the shape.
func (s *shape) isTooMuch(text []byte) bool {
	// Each of the things in a small object may weigh as much as any.
	return (bytes.Count(text, []byte(","))+bytes.Count(text, []byte("[")))*heaviest > maxWeight && s.weigh(text) > maxWeight
}

// isTooMuchTree tells whether a text would weigh too much as a tree.
func isTooMuchTree(text []byte) bool {
	most := bytes.Count(text, []byte("{"))*(object+entries) + bytes.Count(text, []byte("["))*list + bytes.Count(text, []byte(","))*entry
	return most > maxTreeWeight && weighTree(nil, text) > maxTreeWeight
}

// excess is a text that is not decoded because of what it would weigh, as a value of the shape or, without one, as a tree.
type excess struct {
	text  []byte
	shape *shape
}

func (excess) Error() string { return "too much to be read" }

// refusal names the place that most of the weight is at.
func (e excess) refusal() *field.Error {
	weigh, limit := (*shape).weigh, maxWeight
	if e.shape == nil {
		weigh, limit = weighTree, maxTreeWeight
	}
	at, n := worst(e.text, e.shape, weigh, nil, 0)
	if at == nil {
		at = field.NewPath("spec")
	}
	// So many would do, were each as heavy as they are on average.
	return field.TooMany(at, n, int(int64(n)*int64(limit)/int64(weigh(e.shape, e.text))))
}

// deepest bounds how deep the search goes: places below say no more to anybody.
const deepest = 20

// worst is the place that more than half of the weight is at, and how many things are there.
func worst(text []byte, s *shape, weigh func(*shape, []byte) int, at *field.Path, depth int) (*field.Path, int) {
	half, n := weigh(s, text)/2, 0
	for name, value := range rawjson.Members(text) {
		below := s.below()
		if s != nil && s.members != nil {
			below = s.members[string(name)]
		}
		if (s == nil || below != nil) && depth < deepest && weigh(below, value) > half {
			return worst(value, below, weigh, at.Child(string(name)), depth+1)
		}
		n++
	}
	for value := range rawjson.Elements(text) {
		if depth < deepest && weigh(s.below(), value) > half {
			return worst(value, s.below(), weigh, at.Index(n), depth+1)
		}
		n++
	}
	return at, n
}

// maxTreeWeight is what an object may weigh as a tree, which does not get defaults, beyond what is usual for its text.
const maxTreeWeight = 512 << 10

// What parts of a tree weigh, and how many times what is written is usual. Long strings take no more than they are long, so
// only their beginnings count as written.
const (
	object      = 48
	entries     = 280 // of an object that has any
	list        = 24
	entry       = 48 // of an object or a list, each further one
	usual       = 12
	writtenMost = 64
)

// weighTree goes through a text that may be of any depth, and of any shape.
func weighTree(_ *shape, text []byte) int {
	weight := 0
	var last byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		weight -= usual
		switch c {
		case ' ', '\n', '\t', '\r':
			weight += usual
			continue
		case '"':
			end := rawjson.EndOfString(text, i)
			weight -= usual * min(end-i, writtenMost)
			i = end - 1
		case '{':
			weight += object + entries
		case '}':
			if last == '{' {
				weight -= entries
			}
		case '[':
			weight += list
		case ',':
			weight += entry
		}
		last = c
	}
	return weight
}
