package admissiontest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// AddsOnly checks that the patch of an object that lacks defaults only adds, and only to its spec and below the other places;
// and that there is nothing to add then.
func AddsOnly(t *testing.T, k admission.Kind, object string, places ...string) {
	t.Helper()
	var ops []struct{ Op, Path string }
	require.NoError(t, json.Unmarshal(Mutate(t, k, "", object).Patch, &ops))
	require.NotEmpty(t, ops)
	for _, op := range ops {
		require.Equal(t, "add", op.Op, op.Path)
		require.True(t, slices.ContainsFunc(append(places, "/spec/"), func(p string) bool { return strings.HasPrefix(op.Path, p) }), op.Path)
	}
	out := Defaulted(t, k, "", object)
	require.NotContains(t, out, "creationTimestamp")
	require.NotContains(t, out, `"status":{`)
	again := Mutate(t, k, "", out)
	require.Nil(t, again.Patch)
	require.Nil(t, again.PatchType)
}

func handlers(k admission.Kind) []func(context.Context, []byte) ([]byte, int, error) {
	return []func(context.Context, []byte) ([]byte, int, error){k.Mutate(), k.Check()}
}

// RefusesOthers checks that what does not belong to the paths of a kind is a bad request.
func RefusesOthers(t *testing.T, k admission.Kind, object string) {
	t.Helper()
	good := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"UPDATE","kind":{"group":"apps.kruise.io","kind":%q},`+
		`"resource":{"group":"apps.kruise.io","resource":%q},"oldObject":%s,"object":%s}}`, k.Kind, k.Resource, object, object)
	for _, handle := range handlers(k) {
		_, code, err := handle(t.Context(), []byte(good))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code)
	}
	kind := fmt.Sprintf(`"kind":%q`, k.Kind)
	// A subresource is of a kind of its own, and nobody's business.
	scale := With(t, good, `"group":"apps.kruise.io",`+kind, `"group":"autoscaling","kind":"Scale"`, `"uid":"u"`, `"uid":"u","subResource":"scale"`)
	for _, handle := range handlers(k) {
		answer, code, err := handle(t.Context(), []byte(scale))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code)
		require.Contains(t, string(answer), `"allowed":true}`)
	}
	for name, replace := range map[string][2]string{
		"another resource":             {k.Resource, "others"},
		"another group":                {`"resource":{"group":"apps.kruise.io"`, `"resource":{"group":"apps"`},
		"another kind":                 {`"group":"apps.kruise.io",` + kind, `"group":"apps.kruise.io","kind":"Other"`},
		"another group of the kind":    {`"group":"apps.kruise.io",` + kind, `"group":"apps",` + kind},
		"no uid":                       {`"uid":"u",`, ""},
		"no request":                   {`"request":`, `"requests":`},
		"another kind of review":       {"AdmissionReview", "ConversionReview"},
		"another version of reviews":   {"admission.k8s.io/v1", "admission.k8s.io/v2"},
		"another group of reviews":     {"admission.k8s.io/v1", "foo/v1"},
		"no version of the review":     {`"apiVersion":"admission.k8s.io/v1",`, ""},
		"no object":                    {`"object":`, `"subject":`},
		"no old object":                {`"oldObject":`, `"oldSubject":`},
		"another version":              {`"object":` + object, `"object":` + strings.Replace(object, "apps.kruise.io/v1", "apps.kruise.io/v9", 1)},
		"an object of another kind":    {`"object":` + object, `"object":` + otherKind(t, k, object)},
		"an old one of another kind":   {`"oldObject":` + object, `"oldObject":` + otherKind(t, k, object)},
		"an object of an unknown kind": {`"object":` + object, `"object":` + With(t, object, kind, `"kind":"Other"`)},
		"an object of no kind":         {`"object":` + object, `"object":` + With(t, object, kind+",", "")},
	} {
		require.Contains(t, good, replace[0], name)
		body := strings.Replace(good, replace[0], replace[1], 1)
		for _, handle := range handlers(k) {
			_, code, err := handle(t.Context(), []byte(body))
			require.Error(t, err, name)
			require.Equal(t, http.StatusBadRequest, code, name)
		}
	}
}

// otherKind is an object of another kind of ours.
func otherKind(t *testing.T, k admission.Kind, object string) string {
	t.Helper()
	other := "CloneSet"
	if k.Kind == other {
		other = "StatefulSet"
	}
	return With(t, object, fmt.Sprintf(`"kind":%q`, k.Kind), fmt.Sprintf(`"kind":%q`, other))
}

// Fuzz checks that no body makes a kind fail; objects are to begin with.
func Fuzz(f *testing.F, k admission.Kind, objects ...string) {
	f.Helper()
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":%q,"resource":{"group":"apps.kruise.io","resource":%q},"oldObject":%s,"object":%s}}`
	for _, object := range append(objects, fmt.Sprintf(`{"apiVersion":"apps.kruise.io/v1alpha1","kind":%q,"spec":5}`, k.Kind)) {
		f.Add(fmt.Appendf(nil, review, "CREATE", k.Resource, "null", object))
		f.Add(fmt.Appendf(nil, review, "UPDATE", k.Resource, object, object))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, handle := range handlers(k) {
			if _, code, err := handle(t.Context(), body); code >= http.StatusInternalServerError {
				t.Fatalf("%d: %v", code, err)
			}
		}
	})
}
