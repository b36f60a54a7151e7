package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
)

// Rules are what a kind's package says, in terms of its v1beta1 type. In all of them old is nil on CREATE, and where the
// stored object cannot be read: that is no reason to keep it.
type Rules[T any] struct {
	Resource, Kind string
	// Default fills in what object leaves out.
	Default func(old, object *T)
	// Validate returns what is wrong, and warnings.
	Validate func(ctx context.Context, old, object *T, r Request) (field.ErrorList, []string)
	// Parts are what spec.template makes Pods of; nil: the kind has no such template. Unless an update leaves them alone they
	// are filled in after Default, and Templates judges them after Validate has found nothing.
	Parts     func(object *T) Parts
	Templates *Templates
	// AlphaField is a field's name in an object of v1alpha1; nil: the same.
	AlphaField func(name string, object []byte) string
	// Ready says why nothing can be decided yet; nil: always.
	Ready func() error
}

// Parts are what Pods are made of.
type Parts struct {
	Pods   *corev1.PodTemplateSpec
	Claims []corev1.PersistentVolumeClaim
}

// parts are those of an object that may be nil, or of a kind that has none.
func (r Rules[T]) parts(object *T) Parts {
	if object == nil || r.Parts == nil {
		return Parts{}
	}
	return r.Parts(object)
}

// setDefaults fills in what the update changes: defaults that a new release brings must not start a rollout.
func (p Parts) setDefaults(old Parts) {
	if old.Pods == nil || !equality.Semantic.DeepEqual(old.Pods, p.Pods) {
		defaults.SetPodTemplate(p.Pods)
	}
	if old.Pods == nil || !equality.Semantic.DeepEqual(old.Claims, p.Claims) {
		for i := range p.Claims {
			defaults.SetClaimTemplate(&p.Claims[i])
		}
	}
}

// Of is the kind with these rules.
func (r Rules[T]) Of() Kind {
	k := Kind{Resource: r.Resource, Kind: r.Kind, AlphaField: r.AlphaField, Ready: r.Ready}
	if k.AlphaField == nil {
		k.AlphaField = func(name string, _ []byte) string { return name }
	}
	s := shapes{}.of(reflect.TypeFor[T]())
	k.Default = func(old, object []byte) (before, after []byte, err error) {
		typed, err := decodeAs[T](object, s)
		if err != nil {
			return nil, nil, err
		}
		if before, err = json.Marshal(typed); err != nil {
			return nil, nil, fmt.Errorf("encoding: %w", err)
		}
		was := stored[T](old, s)
		r.Default(was, typed)
		if p := r.parts(typed); p.Pods != nil {
			p.setDefaults(r.parts(was))
		}
		if after, err = json.Marshal(typed); err != nil {
			return nil, nil, fmt.Errorf("encoding: %w", err)
		}
		return before, after, nil
	}
	k.Validate = func(ctx context.Context, old, object []byte, request Request) (field.ErrorList, []string) {
		typed, err := decodeAs[T](object, s)
		var tooMuch excess
		switch {
		case errors.As(err, &tooMuch):
			return field.ErrorList{tooMuch.refusal()}, nil
		case err != nil:
			return misfits(object, reflect.TypeFor[T](), nil), nil
		}
		was := stored[T](old, s)
		errs, warnings := r.Validate(ctx, was, typed, request)
		p := r.parts(typed)
		if len(errs) > 0 || p.Pods == nil {
			return errs, warnings
		}
		errs, more := r.Templates.CheckChanged(ctx, request, r.parts(was).Pods, p.Pods, p.Claims, field.NewPath("spec", "template"))
		return errs, append(warnings, more...)
	}
	return k
}

func stored[T any](old []byte, s *shape) *T {
	if old == nil {
		return nil
	}
	typed, err := decodeAs[T](old, s)
	if err != nil {
		return nil
	}
	return typed
}

// decodeAs reads names of members as they are written, as the API server does. A status that cannot be read counts as absent:
// what is asked for has no part in it.
func decodeAs[T any](text []byte, s *shape) (*T, error) {
	if s.isTooMuch(text) {
		return nil, excess{text, s}
	}
	typed := new(T)
	err := utiljson.Unmarshal(text, typed)
	if err == nil {
		return typed, nil
	}
	typed = new(T)
	if utiljson.Unmarshal(withoutStatus(text), typed) != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	return typed, nil
}

func withoutStatus(object []byte) []byte {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(object, &members) != nil {
		return object
	}
	delete(members, "status")
	out, err := json.Marshal(members)
	if err != nil {
		return object
	}
	return out
}

func encodeFrom(typed any) (conversion.Tree, error) {
	raw, err := json.Marshal(typed)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	tree, err := conversion.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	return tree, nil
}
