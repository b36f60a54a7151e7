package admissiontest

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// OnceIsEnough applies the defaulting hook to its own output, for 1,000 random objects of either version, created and
// updated: nothing is lost, and the second time there is nothing to do. Some members are nulls, some are missing.
func OnceIsEnough[T any](t *testing.T, k admission.Kind) {
	t.Helper()
	seed := rand.Int64()
	t.Logf("seed %d", seed)
	filler := randfill.NewWithSeed(seed).NilChance(.7).NumElements(0, 2).MaxDepth(11).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1e6), resource.DecimalSI)
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			if *v = intstr.FromInt32(c.Int31n(9) - 1); c.Intn(3) == 0 {
				*v = intstr.FromString([]string{"20%", "3-5", "x", ""}[c.Intn(4)])
			}
		},
		func(r *runtime.RawExtension, _ randfill.Continue) { *r = runtime.RawExtension{} },
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			*m = metav1.ObjectMeta{Name: Name}
			c.Fill(&m.Labels)
		},
	)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	object := func(version string) string { return randomObject[T](t, k, filler, r, version) }
	patched := 0
	for range 1000 {
		version, old := []string{conversion.V1alpha1, conversion.V1beta1}[r.IntN(2)], ""
		input := object(version)
		switch r.IntN(4) {
		case 0:
			old = object(version)
		case 1:
			old = input
		}
		once := Defaulted(t, k, old, input)
		if once != input {
			patched++
		}
		requireKept(t, treeOf(t, input), treeOf(t, once), input)
		again := Mutate(t, k, old, once)
		require.Nil(t, again.Patch, "the second time: %s\nold: %s\nobject: %s", again.Patch, old, input)
	}
	require.Greater(t, patched, 500, "objects that have all their defaults prove nothing")
}

func treeOf(t *testing.T, object string) conversion.Tree {
	t.Helper()
	tree, err := conversion.Decode([]byte(object))
	require.NoError(t, err)
	return tree
}

// requireKept wants every member and element to be there still, whatever its value.
func requireKept(t *testing.T, before, after any, object string) {
	t.Helper()
	switch b := before.(type) {
	case conversion.Tree:
		a, _ := after.(conversion.Tree)
		for name, v := range b {
			require.Contains(t, a, name, object)
			requireKept(t, v, a[name], object)
		}
	case []any:
		a, _ := after.([]any)
		require.Len(t, a, len(b), object)
		for i := range b {
			requireKept(t, b[i], a[i], object)
		}
	}
}

func randomObject[T any](t *testing.T, k admission.Kind, filler *randfill.Filler, r *rand.Rand, version string) string {
	t.Helper()
	typed := new(T)
	filler.Fill(typed)
	raw, err := json.Marshal(typed)
	require.NoError(t, err)
	tree, err := conversion.Decode(raw)
	require.NoError(t, err)
	punch(tree, r)
	tree["apiVersion"], tree["kind"] = conversion.Group+"/"+conversion.V1beta1, k.Kind
	tree, err = conversion.Convert(tree, conversion.Group+"/"+version)
	require.NoError(t, err)
	raw, err = conversion.Encode(tree)
	require.NoError(t, err)
	return string(raw)
}

// punch takes members away, or their values.
func punch(value any, r *rand.Rand) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch r.IntN(40) {
			case 0:
				delete(v, name)
			case 1:
				v[name] = nil
			default:
				punch(v[name], r)
			}
		}
	case []any:
		for _, item := range v {
			punch(item, r)
		}
	}
}
