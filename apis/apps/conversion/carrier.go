package conversion

import "strings"

// TooLarge is the value of a carrier that would not fit. An object that carries it cannot be written through v1alpha1.
const TooLarge = "too-large"

// maxAnnotations is what the API server allows for all annotations of an object, less some room.
const maxAnnotations = 256<<10 - 1<<10

// CarrierKey is the annotation on v1alpha1 objects of a kind that holds what only v1beta1 has a place for.
func CarrierKey(kind string) string {
	return "apps.kruise.io/" + strings.ToLower(kind) + "-v1beta1-fields"
}

// alphaCarrierKey is the annotation on v1beta1 objects that holds what only v1alpha1 has a place for.
func alphaCarrierKey(kind string) string {
	return "apps.kruise.io/" + strings.ToLower(kind) + "-v1alpha1-fields"
}

func putCarrier(t Tree, key string, content Tree) {
	raw, err := Encode(content)
	if err != nil {
		return
	}
	size := len(key) + len(raw)
	for k, v := range child(t, "metadata", annotations) {
		if s, ok := v.(string); ok && k != key {
			size += len(k) + len(s)
		}
	}
	value := string(raw)
	if size > maxAnnotations {
		value = TooLarge
	}
	setMeta(t, annotations, key, value)
}

// carrier is the content of a carrier, or nil if there is none that accept likes. Another value stays where it is.
func carrier(t Tree, key string, accept func(Tree) bool) Tree {
	raw, ok := getMeta(t, annotations, key)
	if !ok {
		return nil
	}
	content, err := Decode([]byte(raw))
	if err != nil || !accept(content) {
		return nil
	}
	return content
}

// takeCarrier is carrier, and removes what it returns.
func takeCarrier(t Tree, key string, accept func(Tree) bool) Tree {
	content := carrier(t, key, accept)
	if content != nil {
		removeMeta(t, annotations, key)
	}
	return content
}

// onlyMembers says whether an object has no other members than these, all of them objects.
func onlyMembers(t Tree, names ...string) bool {
	for k, v := range t {
		known := false
		for _, n := range names {
			known = known || n == k
		}
		if _, isObject := v.(Tree); !known || !isObject {
			return false
		}
	}
	return true
}

// KeepCarrier is the rule for an update through v1alpha1: a client that does not know the carrier and sends the object
// without it must not erase what it holds. A client that means to erase it sends "{}". The objects are v1alpha1; updated
// is changed.
func KeepCarrier(old, updated Tree) {
	kind := text(updated, "kind")
	key := CarrierKey(kind)
	if _, sent := getMeta(updated, annotations, key); sent {
		return
	}
	kept, ok := getMeta(old, annotations, key)
	if !ok {
		return
	}
	if kind == kindAdvancedCronJob {
		template := child(updated, "spec", "template")
		if has(template, "jobTemplate") || has(template, "broadcastJobTemplate") {
			return
		}
	}
	setMeta(updated, annotations, key, kept)
}
