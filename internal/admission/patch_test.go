package admission

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
)

// grower makes random objects, and others that are alike.
type grower struct{ *rand.Rand }

func (g grower) value(depth int) any {
	switch n := g.IntN(8); {
	case n < 3 && depth > 0:
		t := conversion.Tree{}
		for range g.IntN(4) {
			t[g.name()] = g.value(depth - 1)
		}
		return t
	case n < 5 && depth > 0:
		l := []any{}
		for range g.IntN(3) {
			l = append(l, g.value(depth-1))
		}
		return l
	}
	return []any{nil, true, "", "a<&>\"", json.Number("0"), json.Number("9007199254740993"), json.Number("1.50")}[g.IntN(7)]
}

func (g grower) name() string { return []string{"a", "b", "c", "d/~", "e"}[g.IntN(5)] }

// like changes, adds and removes some of a value.
func (g grower) like(v any, depth int) any {
	switch v := v.(type) {
	case conversion.Tree:
		out := conversion.Tree{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if g.IntN(8) > 0 {
				out[name] = g.like(v[name], depth-1)
			}
		}
		if g.IntN(3) == 0 {
			out[g.name()] = g.value(max(0, depth-1))
		}
		return out
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, g.like(e, depth-1))
		}
		if g.IntN(6) == 0 {
			out = append(out, g.value(max(0, depth-1)))
		}
		return out
	}
	if g.IntN(4) == 0 {
		return g.value(0)
	}
	return v
}

func (g grower) object() conversion.Tree {
	for {
		if t, ok := g.value(5).(conversion.Tree); ok {
			return t
		}
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}

func decoded(t *testing.T, text []byte) conversion.Tree {
	t.Helper()
	tree, err := conversion.Decode(text)
	require.NoError(t, err)
	return tree
}

// plainly are the assignments between trees, which are easier to understand than those between texts.
func plainly(before, after any, at *place) []assignment {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	var out []assignment
	switch a := after.(type) {
	case map[string]any:
		b, ok := before.(map[string]any)
		if !ok {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(a)) {
			if old, had := b[name]; had {
				out = append(out, plainly(old, a[name], at.member(name))...)
			} else {
				out = append(out, plainly(missing{}, a[name], at.member(name))...)
			}
		}
		return out
	case []any:
		b, ok := before.([]any)
		if !ok || len(a) != len(b) {
			break
		}
		for i := range a {
			out = append(out, plainly(b[i], a[i], at.element(i))...)
		}
		return out
	}
	raw, err := json.Marshal(after)
	if err != nil {
		panic(err)
	}
	return []assignment{{at, raw}}
}

type missing struct{}

func TestTextsAndTreesLeadToTheSamePatch(t *testing.T) {
	seed := rand.Uint64()
	if v := os.Getenv("FLOTILLA_SEED"); v != "" {
		var err error
		seed, err = strconv.ParseUint(v, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("FLOTILLA_SEED=%d repeats this run", seed)
	g := grower{rand.New(rand.NewPCG(seed, 0))}
	patched := 0
	for i := range 20_000 {
		object := g.object()
		before, text := encoded(t, object), encoded(t, g.like(object, 5))
		after, _ := g.like(object, 5).(conversion.Tree)
		wanted := plainly(decoded(t, before), decoded(t, encoded(t, after)), nil)
		list := changes(before, encoded(t, after))
		require.Equal(t, wanted, list, "object %d: from %s to %s", i, before, encoded(t, after))
		opens, ok := opened(json.RawMessage(text)).(map[string]any)
		require.True(t, ok)
		wantedOps, ops := patchOf(decoded(t, text), wanted), patchOf(opens, list)
		require.Equal(t, string(encoded(t, wantedOps)), string(encoded(t, ops)), "object %d: from %s to %s of %s", i, before, encoded(t, after), text)
		patched += len(ops)
	}
	require.Greater(t, patched, 10_000, "the objects are too much alike")
}

func TestAPathIsEscaped(t *testing.T) {
	var root *place
	require.Equal(t, "/a~1b/3/~0~1", pointer(root.member("a/b").element(3).member("~/").appendTo(nil)))
}

// TestAValueIsWhatItWasWhenItWasAssigned: what comes later is an operation of its own.
func TestAValueIsWhatItWasWhenItWasAssigned(t *testing.T) {
	var root *place
	ops := patchOf(conversion.Tree{"x": json.RawMessage(`{"y":{"old":1},"z":null}`)}, []assignment{
		{root.member("a").member("b"), []byte(`1`)}, {root.member("a").member("c"), []byte(`2`)},
		{root.member("x").member("y"), []byte(`{"new":3}`)}, {root.member("x").member("z").member("w"), []byte(`4`)}, {root.member("x").element(0), []byte(`5`)},
	})
	require.JSONEq(t, `[{"op":"add","path":"/a","value":{"b":1}},{"op":"add","path":"/a/c","value":2},{"op":"add","path":"/x/y/new","value":3},
		{"op":"replace","path":"/x/z","value":{"w":4}}]`, string(encoded(t, ops)))
}
