package conversion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// host affords what is in it, and tells what it observes.
type host struct {
	affords int
	seen    func(Observed)
}

func (h host) Observe() func(Observed) { return h.seen }

func (h host) Afford(_ context.Context, bytes int) error {
	if bytes > h.affords {
		return errors.New("too much")
	}
	return nil
}

func ignore() host { return watched(func(Observed) {}) }

func watched(seen func(Observed)) host { return host{1 << 30, seen} }

func ask(t *testing.T, version, desired string, objects ...string) (answer, string) {
	t.Helper()
	body := `{"apiVersion":"` + version + `","kind":"ConversionReview","request":{"uid":"u1","desiredAPIVersion":"` + desired + `","objects":[` + strings.Join(objects, ",") + `]}}`
	raw, code, err := Handle(t.Context(), []byte(body), ignore())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	var out answer
	require.NoError(t, json.Unmarshal(raw, &out))
	require.EqualValues(t, "u1", out.Response.UID)
	require.NotContains(t, string(raw), `"request"`)
	return out, string(raw)
}

const (
	v1       = "apiextensions.k8s.io/v1"
	beta     = "apps.kruise.io/v1beta1"
	alphaSet = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"StatefulSet","metadata":{"name":"db"},"spec":{"replicas":1}}`
)

func TestScenarios19To24TheProtocol(t *testing.T) {
	out, _ := ask(t, v1, beta, alphaSet)
	require.Equal(t, v1, out.APIVersion)
	require.Equal(t, "Success", out.Response.Result.Status)
	require.Len(t, out.Response.ConvertedObjects, 1)
	require.Contains(t, string(out.Response.ConvertedObjects[0]), beta)

	out, _ = ask(t, "apiextensions.k8s.io/v1beta1", beta, alphaSet)
	require.Equal(t, "apiextensions.k8s.io/v1beta1", out.APIVersion)

	same := `{"kind":"CloneSet",  "apiVersion":"apps.kruise.io/v1beta1","metadata":{"name":"c"},"spec":{"x":1.50,"y":"<&>"}}`
	out, raw := ask(t, v1, beta,
		`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"a"}}`,
		`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"SidecarSet","metadata":{"name":"b"}}`, same)
	require.Len(t, out.Response.ConvertedObjects, 3)
	for i, name := range []string{`"a"`, `"b"`, `"c"`} {
		require.Contains(t, string(out.Response.ConvertedObjects[i]), name)
	}
	require.Contains(t, raw, same, "what is in the desired version already is left as it is, to the byte")

	out, _ = ask(t, v1, beta)
	require.Equal(t, "Success", out.Response.Result.Status)
	require.NotNil(t, out.Response.ConvertedObjects)

	out, _ = ask(t, v1, "apps.kruise.io/v9")
	require.Equal(t, "Failure", out.Response.Result.Status, "without objects, too")
	require.Contains(t, out.Response.Result.Message, "v9")

	out, _ = ask(t, v1, beta, alphaSet, `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"Foo","metadata":{"name":"x"}}`)
	require.Equal(t, "Failure", out.Response.Result.Status)
	require.Contains(t, out.Response.Result.Message, "Foo")
	require.Empty(t, out.Response.ConvertedObjects)
	out, _ = ask(t, v1, "apps.kruise.io/v9", alphaSet)
	require.Contains(t, out.Response.Result.Message, "v9")

	for name, body := range map[string]string{
		"no uid":                   `{"apiVersion":"` + v1 + `","kind":"ConversionReview","request":{"desiredAPIVersion":"` + beta + `","objects":[]}}`,
		"no request":               `{"apiVersion":"` + v1 + `","kind":"ConversionReview"}`,
		"another kind":             `{"apiVersion":"` + v1 + `","kind":"AdmissionReview","request":{"uid":"u"}}`,
		"no JSON":                  `{`,
		"a list":                   `[]`,
		"more than one":            `{"apiVersion":"` + v1 + `","kind":"ConversionReview","request":{"uid":"u","objects":[]}}{}`,
		"a uid of no text":         `{"apiVersion":"` + v1 + `","kind":"ConversionReview","request":{"uid":5}}`,
		"objects that are no list": `{"apiVersion":"` + v1 + `","kind":"ConversionReview","request":{"uid":"u","objects":{}}}`,
		"a request of no object":   `{"apiVersion":"` + v1 + `","kind":"ConversionReview","request":[]}`,
	} {
		_, code, err := Handle(t.Context(), []byte(body), ignore())
		require.Error(t, err, name)
		require.Equal(t, http.StatusBadRequest, code, name)
	}
}

// TestNothingIsDecidedOfWhatCannotBeAfforded: that is no failure of the objects.
func TestNothingIsDecidedOfWhatCannotBeAfforded(t *testing.T) {
	body := fmt.Appendf(nil, `{"apiVersion":%q,"kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":%q,"objects":[%s]}}`, v1, beta, alphaSet)
	_, code, err := Handle(t.Context(), body, host{affords: -1, seen: func(Observed) {}})
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.ErrorContains(t, err, "too much")

	ended, end := context.WithCancel(t.Context())
	end()
	_, code, err = Handle(ended, body, ignore())
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.ErrorIs(t, err, context.Canceled)
}

func TestScenario27AStoredObjectIsReadableWhateverItHolds(t *testing.T) {
	for _, spec := range []string{`5`, `null`, `"x"`, `[]`, `{"updateStrategy":"x"}`, `{"updateStrategy":{"rollingUpdate":7}}`} {
		out, _ := ask(t, v1, "apps.kruise.io/v1alpha1", `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"a"},"spec":`+spec+`}`)
		require.Equal(t, "Success", out.Response.Result.Status, spec)
	}
}

func TestWhatIsObservedIsBounded(t *testing.T) {
	seen := map[string]int{}
	for i := range 100 {
		body := fmt.Sprintf(`{"apiVersion":%q,"kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v%d","objects":[{"apiVersion":"apps.kruise.io/w%d","kind":"Foo%d"}]}}`, v1, i, i, i)
		_, _, err := Handle(t.Context(), []byte(body), watched(func(o Observed) {
			require.ErrorContains(t, o.Err, "Foo")
			require.Equal(t, "u", o.Review)
			seen[o.Kind+o.From+o.To+o.Result]++
		}))
		require.NoError(t, err)
	}
	require.Equal(t, map[string]int{"unknownunknownunknownfailed": 100}, seen)
}

func TestScenario033_ACarrierThatIsTooLargeIsTold(t *testing.T) {
	object := func(size int) string {
		return `{"apiVersion":"apps.kruise.io/v1beta1","kind":"AdvancedCronJob","metadata":{"name":"a","annotations":{"note":"too-large"}},"spec":{"template":{"imageListPullJobTemplate":{"spec":{"images":["` + strings.Repeat("x", size) + `"]}}}}}`
	}
	for size, want := range map[int]bool{10: false, 300 << 10: true} {
		var seen []Observed
		body := `{"apiVersion":"` + v1 + `","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1alpha1","objects":[` + object(size) + `]}}`
		_, _, err := Handle(t.Context(), []byte(body), watched(func(o Observed) { seen = append(seen, o) }))
		require.NoError(t, err)
		require.Equal(t, []Observed{{Review: "u", Kind: "AdvancedCronJob", From: beta, To: "apps.kruise.io/v1alpha1", Result: Converted, IsTooLarge: want}}, seen)
	}
}

func FuzzHandle(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"` + v1 + `","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"` + beta + `","objects":[` + alphaSet + `]}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, code, err := Handle(t.Context(), body, ignore())
		switch {
		case code >= http.StatusInternalServerError:
			t.Fatalf("%d: %v", code, err)
		case code == http.StatusOK && !json.Valid(answer):
			t.Fatalf("the answer is not valid: %q", answer)
		}
	})
}
