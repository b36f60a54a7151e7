package conversion

import (
	"encoding/json"
	"strconv"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

const inPlace = "inPlaceUpdateStrategy"

// preDownload is a member of inPlaceUpdateStrategy that is an annotation in v1alpha1.
type preDownload struct {
	member, annotation string
	// text: other values than integers are allowed.
	text bool
}

func preDownloads() []preDownload {
	return []preDownload{
		{"imagePreDownloadParallelism", pub.ImagePreDownloadParallelismKey, true},
		{"imagePreDownloadTimeoutSeconds", pub.ImagePreDownloadTimeoutSecondsKey, false},
		{"imagePreDownloadMinUpdatedReadyPods", pub.ImagePreDownloadMinUpdatedReadyPodsKey, false},
	}
}

// PreDownloadAnnotation is the annotation that says a member of inPlaceUpdateStrategy in v1alpha1, "" if there is none, and
// whether a text of it is read as that: it counts before the member then.
func PreDownloadAnnotation(member string) (annotation string, counts func(text string) bool) {
	for _, p := range preDownloads() {
		if p.member == member {
			return p.annotation, func(text string) bool {
				_, ok := p.parse(text)
				return ok
			}
		}
	}
	return "", nil
}

// An annotation has less room than a field. Longer texts are no values of these fields anyway.
const maxPreDownloadText = 256

// parse reads an annotation. Only the plain spelling of an integer counts as one, so that value and annotation determine
// each other.
func (p preDownload) parse(s string) (any, bool) {
	if s == "" {
		return s, false
	}
	if n, err := strconv.ParseInt(s, 10, 32); err == nil && strconv.FormatInt(n, 10) == s {
		return json.Number(s), true
	}
	return s, p.text && len(s) <= maxPreDownloadText
}

// format is the annotation for a value; a value that would not be read back has none.
func (p preDownload) format(v any) (string, bool) {
	var s string
	switch v := v.(type) {
	case json.Number:
		s = v.String()
	case string:
		s = v
	}
	_, ok := p.parse(s)
	return s, ok
}

// preDownloadUp fills the members from the annotations that can be read. strategy is in nested form.
func preDownloadUp(annotations, strategy Tree) {
	for _, p := range preDownloads() {
		v, ok := p.parse(text(annotations, p.annotation))
		if !ok {
			continue
		}
		if rolling := ensure(strategy, "rollingUpdate"); rolling != nil {
			if params := ensure(rolling, inPlace); params != nil {
				params[p.member] = v
			}
		}
	}
}

// preDownloadDown moves the members to the annotations, and removes annotations that would contradict an absent member.
// It tells whether it has removed what held nothing else.
func preDownloadDown(obj, strategy Tree) bool {
	if !usable(strategy, "rollingUpdate") || !usable(child(strategy, "rollingUpdate"), inPlace) {
		return false
	}
	annotations := child(obj, "metadata", "annotations")
	params := fork(child(strategy, "rollingUpdate", inPlace))
	moved := false
	for _, p := range preDownloads() {
		v, present := params[p.member]
		// What an annotation has no room for is carried.
		if s, ok := p.format(v); ok && len(s) <= carrierRoom(obj, p.annotation) {
			setAnnotation(obj, p.annotation, s)
			delete(params, p.member)
			moved = true
		} else if _, ok := p.parse(text(annotations, p.annotation)); ok && !present {
			setAnnotation(obj, p.annotation, "")
		}
	}
	if !moved {
		return false
	}
	rolling := own(strategy, "rollingUpdate")
	setChild(rolling, inPlace, params)
	setChild(strategy, "rollingUpdate", rolling)
	return true
}

// maskCloneSetBeta removes the label and the annotations that only repeat a field.
func maskCloneSetBeta(obj Tree) {
	if text(child(obj, "metadata", "labels"), excludePreparingDeleteLabel) == "true" {
		setMetadata(obj, "labels", excludePreparingDeleteLabel, "")
	}
	for _, p := range preDownloads() {
		if _, ok := p.parse(text(child(obj, "metadata", "annotations"), p.annotation)); ok {
			setAnnotation(obj, p.annotation, "")
		}
	}
}

// maskCloneSetAlpha removes the pre-download members of the spec, which come back as annotations, and these.
func maskCloneSetAlpha(obj Tree) {
	params := fork(child(obj, "spec", "updateStrategy", inPlace))
	inSpec, found := false, false
	for _, p := range preDownloads() {
		_, said := p.parse(text(child(obj, "metadata", "annotations"), p.annotation))
		_, given := p.format(params[p.member])
		if given {
			delete(params, p.member)
		}
		if said || given {
			setAnnotation(obj, p.annotation, "")
		}
		inSpec, found = inSpec || given, found || said || given
	}
	if inSpec {
		spec := own(obj, "spec")
		strategy := own(spec, "updateStrategy")
		setChild(strategy, inPlace, params)
		setChild(spec, "updateStrategy", strategy)
	}
	if found {
		// What would hold the annotations need not be the same either.
		dropEmpty(own(obj, "metadata"), "annotations")
		dropEmpty(obj, "metadata")
	}
}

func dropEmpty(t Tree, key string) {
	if v, ok := t[key]; ok && isEmpty(v) {
		delete(t, key)
	}
}
