package admission

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// Operation is one of a JSON patch.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// place is where something is: a member of an object, or an element of a list, of what is at another place. The root is nil.
type place struct {
	in    *place
	name  string
	index int // -1: it is a member
}

func (p *place) member(name string) *place { return &place{p, name, -1} }

func (p *place) element(index int) *place { return &place{p, "", index} }

// appendTo appends the way to a place from the root.
func (p *place) appendTo(way []*place) []*place {
	if p == nil {
		return way
	}
	return append(p.in.appendTo(way), p)
}

// assignment is a place that got a value.
type assignment struct {
	at    *place
	value json.RawMessage
}

// changes are the assignments from one text to another, both as the same encoder writes them: members that were added or
// changed. Nothing is ever removed by defaulting. What is the same is not looked into.
func changes(before, after []byte) []assignment {
	var d differ
	d.compare(before, after, nil)
	return d.found
}

// differ compares texts. Parts are those of all objects and lists that are being compared.
type differ struct {
	found []assignment
	parts []part
}

// part is a member of an object or, without a name, an element of a list, as text.
type part struct{ name, value []byte }

func (d *differ) compare(before, after []byte, at *place) {
	if bytes.Equal(before, after) {
		return
	}
	first := len(d.parts)
	defer func() { d.parts = d.parts[:first] }()
	switch {
	case isOpen(before, '{') && isOpen(after, '{'):
		d.compareMembers(d.members(before), d.members(after), at)
	case isOpen(before, '[') && isOpen(after, '['):
		old, fresh := d.elements(before), d.elements(after)
		if len(old) != len(fresh) {
			d.found = append(d.found, assignment{at, after})
			return
		}
		for i := range fresh {
			if !bytes.Equal(old[i].value, fresh[i].value) {
				d.compare(old[i].value, fresh[i].value, at.element(i))
			}
		}
	default:
		d.found = append(d.found, assignment{at, after})
	}
}

func isOpen(text []byte, bracket byte) bool { return len(text) > 0 && text[0] == bracket }

// members are those of an object in the order of their names.
func (d *differ) members(object []byte) []part {
	first := len(d.parts)
	for name, value := range rawjson.Members(object) {
		d.parts = append(d.parts, part{name, value})
	}
	out := d.parts[first:]
	slices.SortFunc(out, func(a, b part) int { return bytes.Compare(a.name, b.name) })
	return out
}

func (d *differ) elements(list []byte) []part {
	first := len(d.parts)
	for value := range rawjson.Elements(list) {
		d.parts = append(d.parts, part{nil, value})
	}
	return d.parts[first:]
}

func (d *differ) compareMembers(old, fresh []part, at *place) {
	for _, m := range fresh {
		for len(old) > 0 && bytes.Compare(old[0].name, m.name) < 0 {
			old = old[1:]
		}
		switch had := len(old) > 0 && bytes.Equal(old[0].name, m.name); {
		case !had:
			d.found = append(d.found, assignment{at.member(string(m.name)), m.value})
		case !bytes.Equal(old[0].value, m.value):
			d.compare(old[0].value, m.value, at.member(string(m.name)))
		}
	}
}

// assign carries the assignments out on a tree. Only the parents that are missing are made. A place that the tree has no room for
// is left out: what is there is of another shape, which the schema will say. What the tree has as text is decoded as far as a
// way leads.
func assign(tree map[string]any, list []assignment) {
	t := target{tree: tree}
	for _, a := range list {
		t.assign(a)
	}
}

// patchOf is the patch that assigns. The tree is what it is for; of the values that it gets then only those are put in that
// others may go into.
func patchOf(tree map[string]any, list []assignment) []Operation {
	t := target{tree: tree, isDraft: true, ops: make([]Operation, 0, len(list))}
	for _, a := range list {
		t.assign(a)
	}
	return t.ops
}

// target is what is assigned to. Of a draft the operations count.
type target struct {
	tree    map[string]any
	isDraft bool
	ops     []Operation
	way     []*place
}

func (t *target) assign(a assignment) {
	t.way = a.at.appendTo(t.way[:0])
	var here any = t.tree
	for i, step := range t.way {
		isLast := i == len(t.way)-1
		switch in := here.(type) {
		case map[string]any:
			if step.index >= 0 {
				return
			}
			next, there := in[step.name]
			next = opened(next)
			if here = next; next == nil {
				t.create(in, there, i, a.value)
				return
			}
			if in[step.name] = next; isLast {
				t.overwrite(in, next, a)
			}
		case []any:
			if step.index < 0 || step.index >= len(in) {
				return
			}
			if isLast {
				in[step.index] = a.value
				t.tell(true, t.way, a.value)
				return
			}
			if t.isMember(in[step.index], i+1, a.value) {
				return
			}
			in[step.index] = opened(in[step.index])
			here = in[step.index]
		default:
			return
		}
	}
}

// create puts a value where there is none, at the i-th step of the way, with the parents that it needs.
func (t *target) create(in map[string]any, there bool, i int, value json.RawMessage) {
	made, ok := nested(t.way[i+1:], value)
	if !ok {
		return
	}
	// Later assignments may go into it, and are operations of their own.
	in[t.way[i].name], _ = nested(t.way[i+1:], value)
	t.tell(there, t.way[:i+1], made)
}

// overwrite puts a value where there is another. Of an object all stays that the value does not say: nothing is ever removed.
func (t *target) overwrite(in map[string]any, before any, a assignment) {
	if _, isObject := before.(map[string]any); !isObject || !isOpen(a.value, '{') {
		in[a.at.name] = a.value
		t.tell(true, t.way, a.value)
		return
	}
	for _, m := range new(differ).members(a.value) {
		t.assign(assignment{a.at.member(string(m.name)), m.value})
	}
}

// isMember settles an assignment to a draft that ends, at the i-th step, in an object that nobody else has looked into, and that
// nobody can go into: that is what most are like.
func (t *target) isMember(of any, i int, value json.RawMessage) bool {
	text, isText := of.(json.RawMessage)
	if !t.isDraft || !isText || i != len(t.way)-1 || !isOpen(text, '{') || t.way[i].index >= 0 || isOpen(value, '{') || isOpen(value, '[') {
		return false
	}
	t.tell(rawjson.Member(text, t.way[i].name) != nil, t.way, value)
	return true
}

func (t *target) tell(replaces bool, way []*place, value any) {
	if !t.isDraft {
		return
	}
	op := Operation{"add", pointer(way), value}
	if replaces {
		op.Op = "replace"
	}
	t.ops = append(t.ops, op)
}

// opened is a value one level of which is decoded, if it was text.
func opened(v any) any {
	text, isText := v.(json.RawMessage)
	switch {
	case !isText:
		return v
	case rawjson.IsNull(text):
		return nil
	case text[0] == '{':
		tree := map[string]any{}
		for name, value := range rawjson.Members(text) {
			tree[string(name)] = json.RawMessage(value)
		}
		return tree
	case text[0] == '[':
		list := []any{}
		for value := range rawjson.Elements(text) {
			list = append(list, json.RawMessage(value))
		}
		return list
	}
	return v
}

// nested is the value with the parents that it needs. Lists cannot be made up.
func nested(way []*place, value json.RawMessage) (any, bool) {
	var out any = value
	for _, step := range slices.Backward(way) {
		if step.index >= 0 {
			return nil, false
		}
		out = map[string]any{step.name: out}
	}
	return out, true
}

func pointer(way []*place) string {
	size := 0
	for _, step := range way {
		size += len(step.name) + len("/00000")
	}
	var b strings.Builder
	b.Grow(size)
	for _, step := range way {
		b.WriteByte('/')
		if step.index >= 0 {
			b.WriteString(strconv.Itoa(step.index))
		} else {
			b.WriteString(strings.ReplaceAll(strings.ReplaceAll(step.name, "~", "~0"), "/", "~1"))
		}
	}
	return b.String()
}
