package conversion

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

const objectsPerDirection = 10_000

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func kinds() []string {
	return []string{"AdvancedCronJob", "BroadcastJob", "CloneSet", "SidecarSet", "StatefulSet", "UnitedDeployment"}
}

func seed(t *testing.T) uint64 {
	t.Helper()
	s := rand.Uint64()
	if v := os.Getenv("FLOTILLA_SEED"); v != "" {
		var err error
		s, err = strconv.ParseUint(v, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("FLOTILLA_SEED=%d repeats this run", s)
	return s
}

func other(version string) string {
	if version == V1alpha1 {
		return V1beta1
	}
	return V1alpha1
}

// random runs a check on objects of all kinds and versions, half of them plausible, with a generator of its own for each.
func random(t *testing.T, n int, check func(t *testing.T, g generator, x Tree, kind, version string)) {
	s := seed(t)
	for _, kind := range kinds() {
		for _, version := range []string{V1alpha1, V1beta1} {
			t.Run(kind+" from "+version, func(t *testing.T) {
				for i := range n {
					g := generator{r: rand.New(rand.NewPCG(s, uint64(i))), wild: 0}
					if i%2 == 1 {
						g.wild = 12
					}
					check(t, g, g.object(kind, version), kind, version)
					if t.Failed() {
						t.Fatalf("object %d", i)
					}
				}
			})
		}
	}
}

// 28. For each of the six kinds and 10,000 random objects per direction: there-and-back equal.
func TestScenario28ThereAndBackIsTheSameObject(t *testing.T) {
	random(t, objectsPerDirection, func(t *testing.T, _ generator, x Tree, kind, version string) {
		in := encode(t, x)
		there, err := Convert(x, Group+"/"+other(version))
		require.NoError(t, err)
		back, err := Convert(there, Group+"/"+version)
		require.NoError(t, err)
		if in != encode(t, x) {
			t.Fatalf("the input was changed: %s", in)
		}
		if child(carrierOf(x, CarrierKey(kind, other(version))), restoreMember) != nil {
			return // Written by hand, it is a way to edit the object.
		}
		x = replaced(x, back, CarrierKey(kind, other(version)))
		if diff := cmp.Diff(canonical(x), canonical(back)); diff != "" {
			t.Errorf("there and back (-was +is):\n%s\ninput  %s\nthere  %s\nback   %s", diff, in, encode(t, there), encode(t, back))
		}
	})
}

func TestAnAnnotationBesideOneThatRepeatsAMemberLeavesNothingBehind(t *testing.T) {
	x := object(t, "CloneSet", V1beta1, `{"metadata":{"annotations":{"apps.kruise.io/image-predownload-min-updated-ready-pods":"3"}},"spec":{"updateStrategy":{"rollingUpdate":{"inPlaceUpdateStrategy":{"imagePreDownloadParallelism":"33.3%"}}}}}`)
	back := convert(t, convert(t, x, V1alpha1), V1beta1)
	require.Empty(t, cmp.Diff(canonical(x), canonical(back)))
}

// replaced gives the input the carrier that took the place of a text that cannot be read.
func replaced(x, back Tree, key string) Tree {
	if _, ok := child(x, "metadata", "annotations")[key]; !ok || carrierOf(x, key) != nil || carrierOf(back, key) == nil {
		return x
	}
	x = deepCopyTree(x)
	setAnnotation(x, key, text(child(back, "metadata", "annotations"), key))
	return x
}

// canonical drops what need not come back, and nothing else: see the package's documentation.
func canonical(obj Tree) Tree {
	obj = deepCopyTree(obj)
	if !hasHome(obj) {
		return obj
	}
	kind, version := text(obj, "kind"), strings.TrimPrefix(text(obj, "apiVersion"), Group+"/")
	// The carrier on the side where it is consumed; not one that cannot be read.
	if kind != "BroadcastJob" {
		takeCarrier(obj, CarrierKey(kind, other(version)))
	}
	if kind != "CloneSet" {
		return obj
	}
	if version == V1beta1 {
		if text(child(obj, "metadata", "labels"), excludePreparingDeleteLabel) == "true" {
			setMetadata(obj, "labels", excludePreparingDeleteLabel, "")
		}
		repeats := false
		for _, p := range preDownloads() {
			if _, ok := p.parse(text(child(obj, "metadata", "annotations"), p.annotation)); ok {
				setAnnotation(obj, p.annotation, "")
			}
			_, given := p.format(child(obj, "spec", "updateStrategy", "rollingUpdate", inPlace)[p.member])
			repeats = repeats || given
		}
		if repeats {
			// What would hold an annotation that repeats a member need not be the same either.
			dropEmpty(child(obj, "metadata"), "annotations")
			dropEmpty(obj, "metadata")
		}
		return obj
	}
	strategy := child(obj, "spec", "updateStrategy")
	params := child(strategy, inPlace)
	for _, p := range preDownloads() {
		_, said := p.parse(text(child(obj, "metadata", "annotations"), p.annotation))
		_, given := p.format(params[p.member])
		if said || given {
			setAnnotation(obj, p.annotation, "")
			dropEmpty(child(obj, "metadata"), "annotations")
			dropEmpty(obj, "metadata")
		}
		if given {
			// An object that held nothing else is not needed for an annotation.
			delete(params, p.member)
			dropEmpty(strategy, inPlace)
			dropEmpty(child(obj, "spec"), "updateStrategy")
		}
	}
	return obj
}

func encode(t *testing.T, obj Tree) string {
	t.Helper()
	data, err := Encode(obj)
	require.NoError(t, err)
	return string(data)
}

func TestEqualInputBytesGiveEqualOutputBytesAndNothingIsShared(t *testing.T) {
	random(t, objectsPerDirection/10, func(t *testing.T, _ generator, x Tree, _, version string) {
		in := encode(t, x)
		first, err := Convert(x, Group+"/"+other(version))
		require.NoError(t, err)
		out := encode(t, first)
		copied, err := Decode([]byte(in))
		require.NoError(t, err)
		second, err := Convert(copied, Group+"/"+other(version))
		require.NoError(t, err)
		require.Equal(t, out, encode(t, second))
		scramble(first)
		require.Equal(t, in, encode(t, x))
	})
}

// scramble changes everything that can be reached.
func scramble(v any) {
	switch v := v.(type) {
	case Tree:
		for _, w := range v {
			scramble(w)
		}
		v["scrambled"] = true
	case []any:
		for i, w := range v {
			scramble(w)
			v[i] = "scrambled"
		}
	}
}

func TestScenario34MetadataKeepsAllButLabelsAndAnnotationsAndStaysWritable(t *testing.T) {
	random(t, objectsPerDirection/10, func(t *testing.T, _ generator, x Tree, _, version string) {
		y, err := Convert(x, Group+"/"+other(version))
		require.NoError(t, err)
		require.Equal(t, x["kind"], y["kind"])
		if !hasHome(x) {
			return
		}
		for _, k := range sortedKeys(child(y, "metadata")) {
			if k != "labels" && k != "annotations" {
				require.Equal(t, x["metadata"].(Tree)[k], y["metadata"].(Tree)[k])
			}
		}
		was := child(x, "metadata", "labels")
		for k, v := range child(y, "metadata", "labels") {
			require.True(t, was[k] == v || validLabel(v.(string)), "%s: %v", k, v)
		}
	})
}
