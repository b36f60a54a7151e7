package pod

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// facts are what decides what is done with a Pod. Most Pods are left as they are, so no more of them is read.
type facts struct {
	namespace string
	labels    map[string]string
	// isMirror: the Pod shows what a kubelet runs by itself.
	isMirror, isTerminating bool
	phase                   string
	// isOurs: its controller is of this API.
	isOurs bool
	// gates are how many readiness gates it has; hasGate: ours is one of them.
	gates   int
	hasGate bool
}

// isLeftAlone tells whether nothing is ever done with the Pod. The namespaces that are left alone never get here: see the
// hook's namespaceSelector.
func (p *facts) isLeftAlone() bool {
	return p.isMirror || p.isTerminating || p.phase == string(corev1.PodSucceeded) || p.phase == string(corev1.PodFailed)
}

// read reads a Pod that the API server has decoded before.
func read(object []byte) (*facts, error) {
	p, r := &facts{}, &rawjson.Reader{}
	kind := ""
	for name, value := range rawjson.Members(object) {
		switch string(name) {
		case "kind":
			kind = r.Text(value, "kind")
		case "metadata":
			p.readMetadata(r, value)
		case "spec":
			p.readGates(r, rawjson.Member(value, "readinessGates"))
		case "status":
			p.phase = r.Text(rawjson.Member(value, "phase"), "status.phase")
		}
	}
	if r.Err == nil && kind != "Pod" {
		r.Err = fmt.Errorf("kind is %q: must be Pod", kind)
	}
	return p, r.Err
}

func (p *facts) readMetadata(r *rawjson.Reader, metadata []byte) {
	for name, value := range rawjson.Members(metadata) {
		switch string(name) {
		case "namespace":
			p.namespace = r.Text(value, "metadata.namespace")
		case "labels":
			p.labels = map[string]string{}
			for label, value := range rawjson.Members(value) {
				p.labels[string(label)] = r.Text(value, "metadata.labels")
			}
		case "annotations":
			p.isMirror = rawjson.Member(value, corev1.MirrorPodAnnotationKey) != nil
		case "deletionTimestamp":
			p.isTerminating = !rawjson.IsNull(value)
		case "ownerReferences":
			for owner := range rawjson.Elements(value) {
				p.readOwner(r, owner)
			}
		}
	}
}

func (p *facts) readOwner(r *rawjson.Reader, owner []byte) {
	if string(rawjson.Member(owner, "controller")) != "true" {
		return
	}
	version := r.Text(rawjson.Member(owner, "apiVersion"), "metadata.ownerReferences.apiVersion")
	p.isOurs = p.isOurs || strings.HasPrefix(version, pub.GroupName+"/")
}

func (p *facts) readGates(r *rawjson.Reader, gates []byte) {
	for gate := range rawjson.Elements(gates) {
		p.gates++
		condition := r.Text(rawjson.Member(gate, "conditionType"), "spec.readinessGates.conditionType")
		p.hasGate = p.hasGate || condition == string(pub.KruisePodReady)
	}
}
