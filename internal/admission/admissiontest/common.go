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
	ours := fmt.Sprintf(`{"group":"apps.kruise.io","resource":%q}`, k.Resource)
	for name, body := range map[string]string{
		"another resource": `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":{"group":"apps.kruise.io","resource":"others"},"object":` + object + `}}`,
		"another group":    fmt.Sprintf(`{"kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":{"group":"apps","resource":%q},"object":%s}}`, k.Resource, object),
		"no uid":           `{"kind":"AdmissionReview","request":{"operation":"CREATE","resource":` + ours + `}}`,
		"no request":       `{"kind":"AdmissionReview"}`,
		"another kind":     `{"kind":"ConversionReview"}`,
		"no object":        `{"kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":` + ours + `}}`,
		"another version":  fmt.Sprintf(`{"kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":%s,"object":{"apiVersion":"apps.kruise.io/v9","kind":%q}}}`, ours, k.Kind),
	} {
		for _, handle := range handlers(k) {
			_, code, err := handle(t.Context(), []byte(body))
			require.Error(t, err, name)
			require.Equal(t, http.StatusBadRequest, code, name)
		}
	}
}

// Fuzz checks that no body makes a kind fail; objects are to begin with.
func Fuzz(f *testing.F, k admission.Kind, objects ...string) {
	f.Helper()
	review := `{"kind":"AdmissionReview","request":{"uid":"u","operation":%q,"resource":{"group":"apps.kruise.io","resource":%q},"oldObject":%s,"object":%s}}`
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
