package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// MaxBody is the largest body of a review: two objects of three MiB, and what is around them.
const MaxBody = 7 << 20

// Bounds of what is said.
const (
	maxCauses   = 50
	maxCause    = 1024
	maxWarnings = 10
	maxWarning  = 120
)

// Kind is what a kind decides. Objects are texts of v1beta1; old is nil on CREATE.
type Kind struct {
	// Resource and Kind are its names.
	Resource, Kind string
	// Default returns the object before and after its defaults, both as the types write it: what the types do not know is
	// in neither.
	Default func(old, object []byte) (before, after []byte, err error)
	// Validate returns what is wrong, in the fields of v1beta1, and warnings.
	Validate func(ctx context.Context, old, object []byte, r Request) (field.ErrorList, []string)
	// AlphaField is a field's name in an object of v1alpha1, as it came.
	AlphaField func(name string, object []byte) string
	// Ready says why nothing can be decided yet; nil: it always can.
	Ready func() error
}

// Request is what a kind may want to know beside the objects.
type Request struct {
	Namespace, Name string
	// Object is the object in v1beta1, as JSON text, with what the types do not know.
	Object []byte
}

// reviewed is a request with its objects.
type reviewed struct {
	*Asked
	// beta and was are the object and the old one in v1beta1, as text.
	beta, was []byte
	// alpha is what only a request in v1alpha1 has; else nil.
	alpha *alphaForm
	// isTooMuch is why nothing else is here: the object is too much to be read.
	isTooMuch bool
}

// handler answers reviews of one path.
func handler(k Kind, decide func(context.Context, *reviewed) (*admissionv1.AdmissionResponse, error)) Handle {
	resource := schema.GroupResource{Group: conversion.Group, Resource: k.Resource}
	return Reviews(resource, k.Kind, []admissionv1.Operation{admissionv1.Create, admissionv1.Update}, func(ctx context.Context, r *Asked) (*admissionv1.AdmissionResponse, error) {
		in, err := decode(r, k.Kind)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		return decide(ctx, in)
	})
}

const inBeta = conversion.Group + "/" + conversion.V1beta1

// versionOf is that of an object, which must be of the kind. Where both are said first, no more is read.
func versionOf(object []byte, kind string) (string, error) {
	var version, is []byte
	for name, value := range rawjson.Members(object) {
		switch string(name) {
		case "apiVersion":
			version = value
		case "kind":
			is = value
		}
		if version != nil && is != nil {
			break
		}
	}
	text, err := rawjson.String(version)
	switch {
	case err != nil || !conversion.IsVersion(text):
		return "", fmt.Errorf("apiVersion is another: this path is for v1alpha1 and v1beta1 of %s", conversion.Group)
	case !rawjson.Says(is, kind):
		return "", fmt.Errorf("kind is another: this path is for %s", kind)
	}
	return text, nil
}

func decode(r *Asked, kind string) (*reviewed, error) {
	if r.Object == nil {
		return nil, errors.New("request.object is missing")
	}
	out := &reviewed{Asked: r, beta: r.Object}
	version, err := versionOf(r.Object, kind)
	if err != nil {
		return nil, fmt.Errorf("request.object: %w", err)
	}
	if out.isTooMuch = isTooMuchTree(r.Object); out.isTooMuch {
		return out, nil
	}
	// What was too much to be read before is no reason to keep it, like all that cannot be read.
	if r.Operation == admissionv1.Update && !isTooMuchTree(r.OldObject) {
		if out.was, err = toBeta(r.OldObject, kind); err != nil {
			return nil, fmt.Errorf("request.oldObject: %w", err)
		}
	}
	if version == inBeta {
		return out, nil
	}
	if out.alpha, err = r.alphaForm(out.was != nil); err != nil {
		return nil, err
	}
	if out.beta, err = toBeta(out.alpha.text, kind); err != nil {
		return nil, fmt.Errorf("request.object: %w", err)
	}
	return out, nil
}

// someMore is what a conversion may add.
const someMore = 1 << 10

// toBeta is an object of the kind in v1beta1.
func toBeta(object []byte, kind string) ([]byte, error) {
	version, err := versionOf(object, kind)
	if err != nil || version == inBeta {
		return object, err
	}
	var out bytes.Buffer
	out.Grow(len(object) + someMore)
	err = conversion.ConvertText(&out, object, inBeta)
	return out.Bytes(), err
}

// Mutate answers reviews with the kind's defaults, as a patch of nothing else.
func (k Kind) Mutate() Handle {
	return handler(k, func(_ context.Context, r *reviewed) (*admissionv1.AdmissionResponse, error) {
		if r.isTooMuch {
			// It is refused by the validating hook.
			return Patched()
		}
		var defaults []assignment
		// What the types cannot read the schema refuses, with the name of the field. The carrier is kept all the same.
		if before, after, err := k.Default(r.was, r.beta); err == nil {
			defaults = changes(before, after)
		}
		ops, err := r.patch(defaults)
		if err != nil {
			return nil, err
		}
		return Patched(ops...)
	})
}

// Patched allows a request, with changes if there are any.
func Patched(ops ...Operation) (*admissionv1.AdmissionResponse, error) {
	if len(ops) == 0 {
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}
	raw, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	kind := admissionv1.PatchTypeJSONPatch
	return &admissionv1.AdmissionResponse{Allowed: true, Patch: raw, PatchType: &kind}, nil
}

// patch is that of the object as it came.
func (r *reviewed) patch(list []assignment) ([]Operation, error) {
	came, isObject := opened(json.RawMessage(r.Object)).(map[string]any)
	switch {
	case !isObject:
		return nil, fmt.Errorf("%w: request.object: must be an object", ErrMalformed)
	case r.alpha == nil:
		return patchOf(came, list), nil
	}
	ops := patchOf(came, r.alpha.carrierOf(r.Object))
	// Metadata has one form in all versions, but for what the conversion makes there on its way.
	ops = append(ops, patchOf(came, ofMetadata(list))...)
	converted, err := inAlpha(r.beta, list)
	return append(ops, patchOf(came, converted)...), err
}

// Check answers reviews with the kind's rules.
func (k Kind) Check() Handle {
	return handler(k, func(ctx context.Context, r *reviewed) (*admissionv1.AdmissionResponse, error) {
		if k.Ready != nil {
			if err := k.Ready(); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrNotReady, err)
			}
		}
		if r.isTooMuch {
			return &admissionv1.AdmissionResponse{Result: refusal(k, r, field.ErrorList{excess{text: r.Object}.refusal()})}, nil
		}
		errs, warnings := k.Validate(ctx, r.was, r.beta, Request{Namespace: r.Namespace, Name: r.Name, Object: r.beta})
		if r.alpha != nil {
			for _, e := range errs {
				e.Field = k.AlphaField(e.Field, r.Object)
			}
			for i, w := range warnings {
				// A warning begins with its field.
				end := max(0, strings.IndexAny(w, ": "))
				warnings[i] = k.AlphaField(w[:end], r.Object) + w[end:]
			}
		}
		if problem := r.carrierProblem(k.Kind); problem != "" {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations"), field.OmitValueType{}, problem))
		}
		response := &admissionv1.AdmissionResponse{Allowed: len(errs) == 0, Warnings: shorten(warnings)}
		if len(errs) > 0 {
			response.Result = refusal(k, r, errs)
		}
		return response, nil
	})
}

// carrierProblem is what is wrong with the annotation for what v1alpha1 lacks, or with the room for it; "" if nothing is.
func (r *reviewed) carrierProblem(kind string) string {
	switch {
	case r.alpha == nil:
		if problem := r.carriedProblem(kind); problem != "" {
			return problem
		}
		return conversion.RoomProblem(r.was, r.beta)
	case r.alpha.differs:
		return conversion.CarrierKey(kind, conversion.V1beta1) + ": is not what the defaulting webhook makes of it, which keeps what the object had and what it says of the status: " +
			"is that webhook configured, and does no other change the annotation after it?"
	}
	if problem := conversion.CarrierProblem(r.alpha.old, r.alpha.object); problem != "" {
		return problem
	}
	return conversion.NullProblem(r.alpha.old, r.alpha.object)
}

// refusal names every field, up to a limit.
func refusal(k Kind, r *reviewed, errs field.ErrorList) *metav1.Status {
	texts := make([]string, 0, len(errs))
	var causes []metav1.StatusCause
	for _, e := range errs[:min(len(errs), maxCauses)] {
		name, body := cut(e.Field, maxCause), cut(e.ErrorBody(), maxCause)
		texts = append(texts, name+": "+body)
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseType(e.Type), Field: name, Message: body})
	}
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("%s %q is invalid: %s", k.Kind, r.Name, strings.Join(texts, "; ")),
		Details: &metav1.StatusDetails{Group: conversion.Group, Kind: k.Kind, Name: r.Name, Causes: causes},
	}
}

func shorten(warnings []string) []string {
	var out []string
	for _, w := range warnings[:min(len(warnings), maxWarnings)] {
		out = append(out, cut(w, maxWarning))
	}
	return out
}

// cut is the beginning of a text, of so many bytes at most.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
