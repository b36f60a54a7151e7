package admission

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// misfits are the members that a type cannot hold, each at its own place, up to as many as are ever told.
func misfits(text []byte, t reflect.Type, at *field.Path) field.ErrorList {
	reason := misfit(text, t)
	if reason == "" {
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var errs field.ErrorList
	switch {
	case t.Kind() == reflect.Map:
		for name, value := range rawjson.Members(text) {
			errs = append(errs, misfits(value, t.Elem(), at.Key(string(name)))...)
		}
	case t.Kind() == reflect.Struct:
		errs = misfitMembers(text, t, at)
	case t.Kind() == reflect.Slice:
		i := 0
		for value := range rawjson.Elements(text) {
			if errs = append(errs, misfits(value, t.Elem(), at.Index(i))...); len(errs) >= maxCauses {
				break
			}
			i++
		}
	}
	if len(errs) > 0 {
		return errs[:min(len(errs), maxCauses)]
	}
	return field.ErrorList{field.Invalid(at, field.OmitValueType{}, reason)}
}

func misfitMembers(text []byte, t reflect.Type, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			errs = append(errs, misfitMembers(text, f.Type, at)...)
		case name != "" && name != "-":
			if member := rawjson.Member(text, name); member != nil {
				errs = append(errs, misfits(member, f.Type, at.Child(name))...)
			}
		}
	}
	return errs
}

// misfit says why a type cannot hold a value; "" if it can.
func misfit(text []byte, t reflect.Type) string {
	err := utiljson.Unmarshal(text, reflect.New(t).Interface())
	if err == nil {
		return ""
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[intstr.IntOrString]() {
		return "must be a number or a string"
	}
	if _, own := reflect.New(t).Interface().(json.Unmarshaler); own {
		return err.Error()
	}
	switch t.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Slice:
		return "must be a list"
	case reflect.Struct, reflect.Map:
		return "must be an object"
	}
	return "must be a number in the range of " + t.Kind().String()
}
