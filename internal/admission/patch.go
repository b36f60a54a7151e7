package admission

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
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
// say.
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
			if there && next != nil && !last {
				here = next
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
			here = at[index]
		default:
			return Operation{}, false
		}
	}
	return Operation{}, false
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
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, step := range path {
		b.WriteByte('/')
		switch s := step.(type) {
		case string:
			b.WriteString(escape.Replace(s))
		case int:
			b.WriteString(strconv.Itoa(s))
		}
	}
	return b.String()
}
