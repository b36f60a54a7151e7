package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// alphaForm is a request in v1alpha1. The objects are as they came, but for the carrier, of which the client has no say in all
// that it holds.
type alphaForm struct {
	object, old conversion.Tree
	// text is the object.
	text []byte
	// differs: the carrier that came is another. That is for the defaulting hook to mend; behind it nobody may have changed it.
	differs bool
}

func (r *Asked) alphaForm(isUpdate bool) (*alphaForm, error) {
	a := &alphaForm{text: r.Object}
	came, err := sketch(r.Object, carrierDepth)
	if err != nil {
		return nil, fmt.Errorf("request.object: %w", err)
	}
	if isUpdate {
		if a.old, err = sketch(r.OldObject, carrierDepth); err != nil {
			return nil, fmt.Errorf("request.oldObject: %w", err)
		}
	}
	if a.object, a.differs = conversion.KeepCarrier(a.old, came); a.differs {
		if a.text, err = conversion.Encode(a.object); err != nil {
			return nil, fmt.Errorf("encoding: %w", err)
		}
	}
	return a, nil
}

// carrierDepth is how far down what carriers are judged by may be: annotations and templates are in the third object.
const carrierDepth = 3

// sketch decodes so many levels of an object. What is below, and lists, stay text.
func sketch(object []byte, levels int) (conversion.Tree, error) {
	tree := conversion.Tree{}
	for name, value := range rawjson.Members(object) {
		var v any = json.RawMessage(value)
		var err error
		switch {
		case isOpen(value, '[') || isOpen(value, '{') && levels == 1:
		case isOpen(value, '{'):
			v, err = sketch(value, levels-1)
		default:
			v, err = conversion.DecodeValue(value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		tree[string(name)] = v
	}
	return tree, nil
}

// carrierOf are the annotations of the object that those of the text, which is as it came, are not.
func (a *alphaForm) carrierOf(text []byte) []assignment {
	metadata, _ := a.object["metadata"].(conversion.Tree)
	annotations, _ := metadata["annotations"].(conversion.Tree)
	came := rawjson.Member(rawjson.Member(text, "metadata"), "annotations")
	at := (*place)(nil).member("metadata").member("annotations")
	var list []assignment
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		value, isText := annotations[name].(string)
		if before := rawjson.Member(came, name); !isText || before != nil && rawjson.Says(before, value) {
			continue
		}
		// A text can be written.
		if raw, err := json.Marshal(value); err == nil {
			list = append(list, assignment{at.member(name), raw})
		}
	}
	return list
}

// inAlpha are the assignments to an object of v1beta1 as those to the same object in v1alpha1. Labels and annotations that
// the conversion makes on its way are its own.
func inAlpha(beta []byte, list []assignment) ([]assignment, error) {
	tree, isObject := opened(json.RawMessage(beta)).(map[string]any)
	if len(list) == 0 || !isObject {
		return nil, nil
	}
	assign(tree, list)
	assigned, err := conversion.Encode(tree)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	var plain, defaulted bytes.Buffer
	plain.Grow(len(beta) + someMore)
	defaulted.Grow(len(assigned) + someMore)
	for to, text := range map[*bytes.Buffer][]byte{&plain: beta, &defaulted: assigned} {
		if err := conversion.ConvertText(to, text, conversion.Group+"/"+conversion.V1alpha1); err != nil {
			return nil, fmt.Errorf("converting back: %w", err)
		}
	}
	return slices.DeleteFunc(changes(plain.Bytes(), defaulted.Bytes()), isOfMetadata), nil
}

func isOfMetadata(a assignment) bool {
	at := a.at
	for at != nil && at.in != nil {
		at = at.in
	}
	return at != nil && at.name == "metadata"
}

// ofMetadata are the assignments of labels and annotations, each of one value: what else is in the map is not said.
func ofMetadata(list []assignment) []assignment {
	var out []assignment
	for _, a := range list {
		if isOfMetadata(a) {
			out = append(out, leaves(a)...)
		}
	}
	return out
}

func leaves(a assignment) []assignment {
	if !isOpen(a.value, '{') {
		return []assignment{a}
	}
	var out []assignment
	for _, m := range new(differ).members(a.value) {
		out = append(out, leaves(assignment{a.at.member(string(m.name)), m.value})...)
	}
	return out
}
