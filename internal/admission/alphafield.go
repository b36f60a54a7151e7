package admission

import (
	"strings"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// Has tells whether an object has a value at a field.
func Has(object []byte, name string) bool {
	_, value := find(object, name)
	return value != nil
}

const (
	rolling = "spec.updateStrategy.rollingUpdate."
	inPlace = rolling + "inPlaceUpdateStrategy."
)

// AlphaCloneSetField is where a CloneSet of v1alpha1, or what is like one in it, has a field of v1beta1: where it was written,
// if there are several places for it.
func AlphaCloneSetField(name string, set []byte) string {
	if annotation := preDownloadAnnotation(name, set); annotation != "" {
		return "metadata.annotations[" + annotation + "]"
	}
	switch name {
	case rolling + "podUpdatePolicy":
		return "spec.updateStrategy.type"
	case "spec.scaleStrategy.enablePVCReuse":
		return "spec.scaleStrategy.disablePVCReuse"
	}
	if rest, isBelow := strings.CutPrefix(name, rolling); isBelow {
		return "spec.updateStrategy." + rest
	}
	return strings.Replace(name, strings.TrimSuffix(rolling, "."), "spec.updateStrategy", 1)
}

// preDownloadAnnotation is the annotation of a set that says the field; "" if the field itself does.
func preDownloadAnnotation(name string, set []byte) string {
	member, isBelow := strings.CutPrefix(name, inPlace)
	if !isBelow {
		return ""
	}
	annotation, counts := conversion.PreDownloadAnnotation(member)
	if annotation == "" {
		return ""
	}
	text, err := rawjson.String(rawjson.Member(rawjson.Member(rawjson.Member(set, "metadata"), "annotations"), annotation))
	if err != nil || !counts(text) {
		return ""
	}
	return annotation
}
