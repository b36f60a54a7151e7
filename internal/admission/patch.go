package admission

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// Operation is one of a JSON patch.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// assignment is a member that got a value.
type assignment struct {
	path  []any // names of members and indices of lists
	value any
}

// assignments are what differs from before to after: members that were added or changed. Nothing is ever removed by
// defaulting.
func assignments(before, after any, at []any) []assignment {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	switch a := after.(type) {
	case map[string]any:
		b, ok := before.(map[string]any)
		if !ok {
			break
		}
		var out []assignment
		for _, name := range sortedNames(a) {
			if old, had := b[name]; had {
				out = append(out, assignments(old, a[name], append(slices.Clone(at), name))...)
			} else {
				out = append(out, assignment{append(slices.Clone(at), name), a[name]})
			}
		}
		return out
	case []any:
		b, ok := before.([]any)
		if !ok || len(a) != len(b) {
			break
		}
		var out []assignment
		for i := range a {
			out = append(out, assignments(b[i], a[i], append(slices.Clone(at), i))...)
		}
		return out
	}
	return []assignment{{at, after}}
}

// changes are the assignments from one text to another, both as the same encoder writes them: what is the same is not decoded.
func changes(before, after []byte, at []any) ([]assignment, error) {
	switch {
	case bytes.Equal(before, after):
		return nil, nil
	case before[0] == '{' && after[0] == '{':
		return memberChanges(before, after, at)
	case before[0] == '[' && after[0] == '[':
		b, a := slices.Collect(rawjson.Elements(before)), slices.Collect(rawjson.Elements(after))
		if len(a) != len(b) {
			break
		}
		var out []assignment
		for i := range a {
			below, err := changes(b[i], a[i], append(slices.Clone(at), i))
			if err != nil {
				return nil, err
			}
			out = append(out, below...)
		}
		return out, nil
	}
	return assigned(after, at)
}

func memberChanges(before, after []byte, at []any) ([]assignment, error) {
	type member struct {
		name  string
		value []byte
	}
	old := map[string][]byte{}
	for name, value := range rawjson.Members(before) {
		old[string(name)] = value
	}
	var members []member
	for name, value := range rawjson.Members(after) {
		if !bytes.Equal(old[string(name)], value) {
			members = append(members, member{string(name), value})
		}
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	var out []assignment
	for _, m := range members {
		path := append(slices.Clone(at), m.name)
		var below []assignment
		var err error
		if was, had := old[m.name]; had {
			below, err = changes(was, m.value, path)
		} else {
			below, err = assigned(m.value, path)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return out, nil
}

func assigned(text []byte, at []any) ([]assignment, error) {
	value, err := conversion.DecodeValue(text)
	if err != nil {
		return nil, fmt.Errorf("decoding %s: %w", pointer(at), err)
	}
	return []assignment{{at, value}}, nil
}

func sortedNames(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// assign carries the assignments out on a tree, and returns the patch that does the same. Only the parents that are missing
// are made. A path that the tree has no place for is left out: what is there is of another shape, which the schema will
// say. What the tree has as text is decoded as far as a path leads.
func assign(tree map[string]any, list []assignment) []Operation {
	var ops []Operation
	for _, a := range list {
		if op, ok := assignOne(tree, a); ok {
			ops = append(ops, op)
		}
	}
	return ops
}

func assignOne(tree map[string]any, a assignment) (Operation, bool) {
	var here any = tree
	for i, step := range a.path {
		last := i == len(a.path)-1
		switch at := here.(type) {
		case map[string]any:
			name, ok := step.(string)
			if !ok {
				return Operation{}, false
			}
			next, there := at[name]
			if next = opened(next); next != nil && !last {
				at[name], here = next, next
				continue
			}
			value, ok := nested(a.path[i+1:], a.value)
			if !ok {
				return Operation{}, false
			}
			op := Operation{"add", pointer(a.path[:i+1]), value}
			if there {
				op.Op = "replace"
			}
			// Later assignments may go into it, and are operations of their own.
			at[name] = runtime.DeepCopyJSONValue(value)
			return op, true
		case []any:
			index, ok := step.(int)
			if !ok || index >= len(at) {
				return Operation{}, false
			}
			if last {
				at[index] = a.value
				return Operation{"replace", pointer(a.path), a.value}, true
			}
			at[index] = opened(at[index])
			here = at[index]
		default:
			return Operation{}, false
		}
	}
	return Operation{}, false
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
func nested(path []any, value any) (any, bool) {
	for _, step := range slices.Backward(path) {
		name, ok := step.(string)
		if !ok {
			return nil, false
		}
		value = map[string]any{name: value}
	}
	return value, true
}

func pointer(path []any) string {
	var b strings.Builder
	for _, step := range path {
		b.WriteByte('/')
		switch s := step.(type) {
		case string:
			b.WriteString(strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1"))
		case int:
			b.WriteString(strconv.Itoa(s))
		}
	}
	return b.String()
}
