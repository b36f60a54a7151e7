package admission

import (
	"strconv"
	"strings"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// Has tells whether an object has a value at a field.
func Has(object []byte, name string) bool {
	_, value := find(object, name)
	return value != nil
}

const (
	rolling     = "spec.updateStrategy.rollingUpdate."
	preDownload = rolling + "inPlaceUpdateStrategy.imagePreDownload"
)

// AlphaCloneSetField is where a CloneSet of v1alpha1, or what is like one in it, has a field of v1beta1: where it was written,
// if there are several places for it.
func AlphaCloneSetField(name string, set []byte) string {
	if annotation := preDownloadAnnotation(name); annotation != "" && annotationCounts(set, annotation, name) {
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

func preDownloadAnnotation(name string) string {
	switch name {
	case preDownload + "Parallelism":
		return "apps.kruise.io/image-predownload-parallelism"
	case preDownload + "TimeoutSeconds":
		return "apps.kruise.io/image-predownload-timeout-seconds"
	case preDownload + "MinUpdatedReadyPods":
		return "apps.kruise.io/image-predownload-min-updated-ready-pods"
	}
	return ""
}

// annotationCounts tells whether the annotation says the value of the field. It counts before the field if it can be read: of
// parallelism any text can.
func annotationCounts(set []byte, annotation, name string) bool {
	text, err := rawjson.String(rawjson.Member(rawjson.Member(rawjson.Member(set, "metadata"), "annotations"), annotation))
	if err != nil || text == "" {
		return false
	}
	_, notNumber := strconv.ParseInt(text, 10, 32)
	return notNumber == nil || name == preDownload+"Parallelism"
}
