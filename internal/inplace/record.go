package inplace

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
)

// Record is what the Pod's annotations say about its latest in-place update.
type Record struct {
	// State is nil without an update.
	State *pub.InPlaceUpdateState
	// Grace is the change that waits for the end of its grace period; nil if none does.
	Grace *pub.InPlaceUpdateGrace
	// Broken names annotations that could not be read or that mean nothing alone. They count as absent.
	Broken []string
}

// Read reads the Pod's annotations, by their former keys if the present ones are absent.
func Read(p *corev1.Pod) Record {
	r := Record{}
	if key, text := value(p, pub.InPlaceUpdateStateKey, pub.InPlaceUpdateStateKeyOld); text != "" {
		state := &pub.InPlaceUpdateState{}
		if err := json.Unmarshal([]byte(text), state); err != nil {
			r.Broken = append(r.Broken, key)
		} else {
			r.State = state
		}
	}
	if key, text := value(p, pub.InPlaceUpdateGraceKey, pub.InPlaceUpdateGraceKeyOld); text != "" {
		grace := &pub.InPlaceUpdateGrace{}
		if err := json.Unmarshal([]byte(text), grace); err != nil || r.State == nil {
			r.Broken = append(r.Broken, key)
		} else {
			r.Grace = grace
		}
	}
	return r
}

func value(p *corev1.Pod, key, oldKey string) (string, string) {
	if text, ok := p.Annotations[key]; ok {
		return key, text
	}
	return oldKey, p.Annotations[oldKey]
}

// HasRecord says whether there is anything to read.
func HasRecord(p *corev1.Pod) bool {
	for _, key := range []string{pub.InPlaceUpdateStateKey, pub.InPlaceUpdateGraceKey, pub.InPlaceUpdateStateKeyOld, pub.InPlaceUpdateGraceKeyOld} {
		if _, ok := p.Annotations[key]; ok {
			return true
		}
	}
	return false
}

// mayBeUnfinished is false for most Pods whose latest update is over, without reading its record: nothing is left in it, and
// no container that it tells of still runs.
func mayBeUnfinished(p *corev1.Pod) bool {
	_, text := value(p, pub.InPlaceUpdateStateKey, pub.InPlaceUpdateStateKeyOld)
	if text == "" {
		return false
	}
	if strings.Contains(text, `"nextContainer`) || strings.Contains(text, `"containerResources"`) {
		return true
	}
	// Others do not write which container it was.
	byContainer := strings.Contains(text, `"containerID"`)
	for i := range p.Status.ContainerStatuses {
		id := p.Status.ContainerStatuses[i].ImageID
		if byContainer {
			id = p.Status.ContainerStatuses[i].ContainerID
		}
		if id != "" && strings.Contains(text, id) {
			return true
		}
	}
	return false
}

// InGrace says whether a change of the Pod waits for the end of its grace period.
func InGrace(p *corev1.Pod) bool {
	_, now := p.Annotations[pub.InPlaceUpdateGraceKey]
	_, old := p.Annotations[pub.InPlaceUpdateGraceKeyOld]
	return (now || old) && Read(p).Grace != nil
}

// From is the revision whose containers the Pod runs: that of its label, or while a change waits, the one before.
func From(p *corev1.Pod) string {
	if InGrace(p) {
		if r := Read(p); r.State.PreviousRevision != "" {
			return r.State.PreviousRevision
		}
	}
	return p.Labels[pub.ControllerRevisionHashKey]
}

func writeState(o *patch.Object, p *corev1.Pod, state *pub.InPlaceUpdateState) {
	// The types hold nothing that does not encode.
	raw, _ := json.Marshal(state)
	o.Annotation(pub.InPlaceUpdateStateKey, string(raw))
	removeIfThere(o, p, pub.InPlaceUpdateStateKeyOld)
}

func writeGrace(o *patch.Object, p *corev1.Pod, grace *pub.InPlaceUpdateGrace) {
	raw, _ := json.Marshal(grace)
	o.Annotation(pub.InPlaceUpdateGraceKey, string(raw))
	removeIfThere(o, p, pub.InPlaceUpdateGraceKeyOld)
}

func removeGrace(o *patch.Object, p *corev1.Pod) {
	removeIfThere(o, p, pub.InPlaceUpdateGraceKey)
	removeIfThere(o, p, pub.InPlaceUpdateGraceKeyOld)
}

func removeIfThere(o *patch.Object, p *corev1.Pod, key string) {
	if _, ok := p.Annotations[key]; ok {
		o.RemoveAnnotation(key)
	}
}
