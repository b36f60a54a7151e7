package admission

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// TestNothingIsHeavierThanTheHeaviest: small objects are not weighed.
func TestNothingIsHeavierThanTheHeaviest(t *testing.T) {
	known := shapes{}
	for _, kind := range []reflect.Type{
		reflect.TypeFor[v1beta1.CloneSet](), reflect.TypeFor[v1beta1.StatefulSet](), reflect.TypeFor[v1beta1.SidecarSet](),
		reflect.TypeFor[v1beta1.BroadcastJob](), reflect.TypeFor[v1beta1.AdvancedCronJob](), reflect.TypeFor[v1beta1.UnitedDeployment](),
	} {
		known.of(kind)
	}
	elements := 0
	for of, s := range known {
		if s.element == nil {
			continue
		}
		elements++
		require.LessOrEqual(t, s.element.own, heaviest, "an element of %s", of)
		for name, m := range s.element.members {
			if m.isPointer {
				require.LessOrEqual(t, m.own, heaviest, "%s of an element of %s", name, of)
			}
		}
	}
	require.Greater(t, elements, 50)
}

// TestALongStringExcusesNothing: it is no heavier than it is long, so nothing else may be heavier for it.
func TestALongStringExcusesNothing(t *testing.T) {
	weight := func(length int) int {
		return weighTree(nil, []byte(`{"a":"`+strings.Repeat("x", length)+`","b":[{},{},{"c":1}]}`))
	}
	require.Less(t, weight(10), weight(5))
	require.Equal(t, weight(100), weight(1_000_000))
	require.Equal(t, weighTree(nil, []byte(`{"a":[1,2]}`)), weighTree(nil, []byte("{ \"a\" :\n[ 1,\t2 ] }")))
	require.Greater(t, weighTree(nil, []byte(`[{"":{}}]`)), weighTree(nil, []byte(`[{},1234]`)))
}

func TestATextIsWeighedByWhatItBecomes(t *testing.T) {
	known := shapes{}
	s := known.of(reflect.TypeFor[v1beta1.CloneSet]())
	for text, want := range map[string]int{
		`{}`: 0, `null`: 0, `{"spec":{"replicas":5}}`: 4, `{"spec":{"future":[{},{}],"template":{"spec":{"containers":null}}}}`: 0,
		`{"spec":{"scaleStrategy":{"podsToDelete":["a", "b" ,"c"]}}}`:                                  3 * 16,
		`{"spec":{"scaleStrategy":{"podsToDelete":[ ]},"template":{"metadata":{"labels":{"a":"b"}}}}}`: mapEntry + 16,
		`{"spec":{"template":{"spec":{"cont\u0061iners":[{"env":[{"name":"],}"},5]},null]}}}}`:         2*4*408 + 2*40,
	} {
		require.Equal(t, want, s.weigh([]byte(text)), text)
		require.False(t, s.isTooMuch([]byte(text)))
	}
	// What is no JSON is weighed as far as it goes.
	for _, text := range []string{``, `{`, `[`, `{"spec"`, `{"spec":`, `{"spec":{"volumeClaimTemplates":[`, `{"spec":{"volumeClaimTemplates":[}`, `{"`, `{"spec":{"scaleStrategy":{"podsToDelete":["a"`} {
		s.weigh([]byte(text))
	}
}
