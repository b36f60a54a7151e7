package conversion

import "reflect"

const (
	customVersionLabel = "apps.kruise.io/sidecarset-custom-version"
	namespaceNameLabel = "kubernetes.io/metadata.name"
)

func sidecarSetUp(t Tree) {
	namespaceUp(t)
	customVersionUp(t)
}

func sidecarSetDown(t Tree) {
	namespaceDown(t)
	customVersionDown(t)
}

func selectorOf(namespace string) Tree {
	return Tree{"matchLabels": Tree{namespaceNameLabel: namespace}}
}

func namespaceUp(t Tree) {
	spec := child(t, "spec")
	namespace, isText := spec["namespace"].(string)
	if !isText {
		return
	}
	delete(spec, "namespace")
	if namespace == "" {
		return
	}
	content := Tree{"namespace": namespace}
	move(spec, content, "namespaceSelector")
	spec["namespaceSelector"] = selectorOf(namespace)
	putCarrier(t, alphaCarrierKey(kindSidecarSet), content)
}

func namespaceDown(t Tree) {
	key := alphaCarrierKey(kindSidecarSet)
	content := carrier(t, key, func(c Tree) bool { return text(c, "namespace") != "" })
	removeMeta(t, annotations, key)
	spec := child(t, "spec")
	namespace := text(content, "namespace")
	// A client of v1beta1 that has changed the selector since means what it wrote.
	if content == nil || !reflect.DeepEqual(spec["namespaceSelector"], any(selectorOf(namespace))) {
		return
	}
	spec["namespace"] = namespace
	delete(spec, "namespaceSelector")
	move(content, spec, "namespaceSelector")
}

func customVersionUp(t Tree) {
	content := takeCarrier(t, CarrierKey(kindSidecarSet), func(c Tree) bool {
		_, isText := c["label"].(string)
		return isText && firstOf(text(c, "customVersion"), text(c, "label")) != ""
	})
	shown, _ := getMeta(t, labels, customVersionLabel)
	if shown == "" {
		return
	}
	if content != nil && shown == firstOf(text(content, "customVersion"), text(content, "label")) {
		setMeta(t, labels, customVersionLabel, text(content, "label"))
		if version := text(content, "customVersion"); version != "" {
			setMember(t, version)
		}
		return
	}
	if setMember(t, shown) {
		removeMeta(t, labels, customVersionLabel)
	}
}

func setMember(t Tree, version string) bool {
	spec := ensure(t, "spec")
	if spec == nil {
		return false
	}
	spec["customVersion"] = version
	return true
}

func customVersionDown(t Tree) {
	spec := child(t, "spec")
	version, isText := spec["customVersion"].(string)
	if isText {
		delete(spec, "customVersion")
	}
	if label, there := getMeta(t, labels, customVersionLabel); there && firstOf(version, label) != "" {
		putCarrier(t, CarrierKey(kindSidecarSet), Tree{"label": label, "customVersion": version})
	}
	if version != "" {
		setMeta(t, labels, customVersionLabel, version)
	}
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
