// Package admissiontest asks the admission of a kind as the API server would.
package admissiontest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// Namespace is that of all requests, Name that of all objects.
const (
	Namespace = "d"
	Name      = "web"
)

// Mutate is the answer of the defaulting hook. With an old object it is an UPDATE.
func Mutate(t *testing.T, k admission.Kind, old, object string) *admissionv1.AdmissionResponse {
	t.Helper()
	return ask(t, k, k.Mutate(), old, object)
}

// Check is the answer of the validating hook. With an old object it is an UPDATE.
func Check(t *testing.T, k admission.Kind, old, object string) *admissionv1.AdmissionResponse {
	t.Helper()
	r := ask(t, k, k.Check(), old, object)
	require.Nil(t, r.Patch)
	if !r.Allowed {
		require.EqualValues(t, http.StatusUnprocessableEntity, r.Result.Code)
		require.Equal(t, metav1.StatusReasonInvalid, r.Result.Reason)
		require.NotEmpty(t, r.Result.Details.Causes)
	}
	return r
}

func ask(t *testing.T, k admission.Kind, handle func(context.Context, []byte) ([]byte, int, error), old, object string) *admissionv1.AdmissionResponse {
	t.Helper()
	r := &admissionv1.AdmissionRequest{
		UID: "u", Operation: admissionv1.Create, Name: Name, Namespace: Namespace,
		Kind:     metav1.GroupVersionKind{Group: conversion.Group, Kind: k.Kind},
		Resource: metav1.GroupVersionResource{Group: conversion.Group, Resource: k.Resource}, Object: runtime.RawExtension{Raw: []byte(object)},
	}
	if old != "" {
		r.Operation, r.OldObject = admissionv1.Update, runtime.RawExtension{Raw: []byte(old)}
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: r})
	require.NoError(t, err)
	raw, code, err := handle(t.Context(), body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	var out admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(raw, &out))
	require.EqualValues(t, "u", out.Response.UID)
	return out.Response
}

// Defaulted is the object after the patch of the defaulting hook.
func Defaulted(t *testing.T, k admission.Kind, old, object string) string {
	t.Helper()
	r := Mutate(t, k, old, object)
	require.True(t, r.Allowed)
	if r.Patch == nil {
		require.Nil(t, r.PatchType)
		return object
	}
	p, err := jsonpatch.DecodePatch(r.Patch)
	require.NoError(t, err)
	out, err := p.Apply([]byte(object))
	require.NoError(t, err)
	return string(out)
}

// Fields are those that an answer refuses, with a word for why each.
func Fields(r *admissionv1.AdmissionResponse) map[string]string {
	fields := map[string]string{}
	if r.Result != nil && r.Result.Details != nil {
		for _, c := range r.Result.Details.Causes {
			fields[c.Field] = string(c.Type)
		}
	}
	return fields
}

// With replaces texts of an object, which must be there.
func With(t *testing.T, object string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, object, pairs[i])
		object = strings.Replace(object, pairs[i], pairs[i+1], 1)
	}
	return object
}

// Spec adds members to the spec.
func Spec(t *testing.T, object, members string) string {
	t.Helper()
	return With(t, object, `"spec":{`, `"spec":{`+members+`,`)
}
