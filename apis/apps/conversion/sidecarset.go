package conversion

const (
	customVersionLabel = "apps.kruise.io/sidecarset-custom-version"
	namespaceLabel     = "kubernetes.io/metadata.name"
)

func sidecarSetSpec() reach { return whole("customVersion", "namespace", "namespaceSelector") }

func sidecarSetUp(obj, carried Tree) Tree {
	spec := own(obj, "spec")
	if spec == nil {
		return nil
	}
	customVersionUp(obj, spec, carried)
	return namespaceUp(spec)
}

func sidecarSetDown(obj, carried Tree) Tree {
	spec := own(obj, "spec")
	if spec == nil {
		return nil
	}
	namespaceDown(spec, carried)
	return customVersionDown(obj, spec)
}

// customVersionUp moves the label into spec.customVersion. If it still shows what customVersionDown left there, both come
// back as they were.
func customVersionUp(obj, spec, carried Tree) {
	if text(spec, "customVersion") != "" {
		delete(spec, "customVersion")
	}
	shown := text(child(obj, "metadata", "labels"), customVersionLabel)
	if shown == "" {
		return
	}
	version, label := shown, ""
	l, c := text(carried, "label"), text(carried, "customVersion")
	if l != "" && validLabel(l) && shown == firstOf(c, l) {
		version, label = c, l
	}
	setMetadata(obj, "labels", customVersionLabel, label)
	if version != "" {
		spec["customVersion"] = version
	}
}

// customVersionDown shows spec.customVersion as the label, unless it cannot be a label value.
func customVersionDown(obj, spec Tree) Tree {
	version, label := text(spec, "customVersion"), text(child(obj, "metadata", "labels"), customVersionLabel)
	if version != "" {
		delete(spec, "customVersion")
	}
	if !validLabel(version) {
		return nil
	}
	if version != "" {
		setMetadata(obj, "labels", customVersionLabel, version)
	}
	if label == "" {
		return nil
	}
	return Tree{"label": label, "customVersion": version}
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// namespaceUp says a namespace as a selector of namespaces, and remembers what was there.
func namespaceUp(spec Tree) Tree {
	namespace := text(spec, "namespace")
	if namespace == "" {
		return nil
	}
	carry := Tree{"namespace": namespace}
	delete(spec, "namespace")
	moveMember(spec, carry, "namespaceSelector")
	spec["namespaceSelector"] = Tree{"matchLabels": Tree{namespaceLabel: namespace}}
	return carry
}

func namespaceDown(spec, carried Tree) {
	if text(spec, "namespace") != "" {
		delete(spec, "namespace")
	}
	namespace := text(carried, "namespace")
	if namespace == "" || !selectsOnly(child(spec, "namespaceSelector"), namespace) {
		return
	}
	spec["namespace"] = namespace
	delete(spec, "namespaceSelector")
	moveMember(carried, spec, "namespaceSelector")
}

// selectsOnly tells whether a label selector means the one namespace, in either of the two ways to say that.
func selectsOnly(selector Tree, namespace string) bool {
	labels, expressions := child(selector, "matchLabels"), selector["matchExpressions"]
	for k := range selector {
		if k != "matchLabels" && k != "matchExpressions" {
			return false
		}
	}
	switch {
	case !usable(selector, "matchLabels") && selector["matchLabels"] != nil:
		return false
	case len(labels) == 1 && labels[namespaceLabel] == namespace:
		return expressions == nil || isEmptyList(expressions)
	case len(labels) > 0:
		return false
	}
	return equal(expressions, []any{Tree{"key": namespaceLabel, "operator": "In", "values": []any{namespace}}})
}
