package conversion

import "maps"

// shapeAnnotation on a v1beta1 UnitedDeployment remembers that v1alpha1 had its CloneSet template in the flat form of
// v1alpha1 CloneSets.
const (
	shapeAnnotation = Group + "/uniteddeployment-cloneset-shape"
	flatShape       = "flat"
)

func unitedDeploymentSpec() reach {
	return reach{
		{"topology", whole("subsets")},
		{"template", reach{{"cloneSetTemplate", reach{{"metadata", metadataReach()}, {"spec", cloneSetSpec()}}}}},
	}
}

func unitedDeploymentStatus() reach {
	return whole("subsetReplicas", "subsetStatuses", "updateStatus", "updatedRevision")
}

func unitedDeploymentUp(obj, _ Tree) Tree {
	subsetsUp(obj)
	flat := isFlat(child(obj, "spec", "template", "cloneSetTemplate", "spec"))
	if flat {
		template := ownCloneSetTemplate(obj)
		flatUp(template, own(template, "spec"))
		// Without room for it the form is that of v1beta1 from then on.
		if len(flatShape) <= carrierRoom(obj, shapeAnnotation) {
			setAnnotation(obj, shapeAnnotation, flatShape)
		}
	} else if text(child(obj, "metadata", "annotations"), shapeAnnotation) == flatShape {
		setAnnotation(obj, shapeAnnotation, "")
	}
	return nil
}

func unitedDeploymentDown(obj, _ Tree) Tree {
	subsetsDown(obj)
	if text(child(obj, "metadata", "annotations"), shapeAnnotation) != flatShape {
		return nil
	}
	setAnnotation(obj, shapeAnnotation, "")
	if child(obj, "spec", "template", "cloneSetTemplate", "spec") != nil {
		template := ownCloneSetTemplate(obj)
		flatDown(template, own(template, "spec"))
	}
	return nil
}

func ownCloneSetTemplate(obj Tree) Tree {
	return own(own(own(obj, "spec"), "template"), "cloneSetTemplate")
}

// isFlat tells whether a CloneSet spec can only be meant in the flat form.
func isFlat(spec Tree) bool {
	strategy := child(spec, "updateStrategy")
	if isPolicy(strategy["type"]) {
		return true
	}
	for _, k := range flatMembers() {
		if _, ok := strategy[k]; ok {
			return true
		}
	}
	_, ok := child(spec, "scaleStrategy")["disablePVCReuse"]
	return ok
}

// flatUp nests the flat form. Where both forms are present the nested one wins.
func flatUp(template, spec Tree) {
	if usable(spec, "scaleStrategy") {
		scale := fork(child(spec, "scaleStrategy"))
		given, isFlag := scale["enablePVCReuse"].(bool)
		reuseUp(scale)
		if isFlag {
			scale["enablePVCReuse"] = given
		}
		if _, ok := scale["excludePreparingDelete"]; !ok && templateExcludes(template) {
			scale["excludePreparingDelete"] = true
		}
		setChild(spec, "scaleStrategy", scale)
	}
	if usable(spec, "updateStrategy") && usable(child(spec, "updateStrategy"), "rollingUpdate") {
		strategy := fork(child(spec, "updateStrategy"))
		flatStrategyUp(template, strategy)
		setChild(spec, "updateStrategy", strategy)
	}
}

func flatStrategyUp(template, strategy Tree) {
	rolling := Tree{}
	for _, k := range flatMembers() {
		moveMember(strategy, rolling, k)
	}
	switch t, _ := strategy["type"].(string); {
	case isPolicy(t):
		strategy["type"], rolling["podUpdatePolicy"] = rollingUpdateType, t
	case t != "" && t != onDeleteType && t != rollingUpdateType:
		strategy["type"], rolling["podUpdatePolicy"] = rollingUpdateType, reCreateType
	}
	nested := child(strategy, "rollingUpdate")
	_, present := rolling[inPlace].(Tree)
	params := fork(child(rolling, inPlace))
	maps.Copy(params, child(nested, inPlace))
	for _, p := range preDownloads() {
		_, given := params[p.member]
		if v, ok := p.parse(text(child(template, "metadata", "annotations"), p.annotation)); ok && !given {
			params[p.member] = v
		}
	}
	maps.Copy(rolling, nested)
	if usable(rolling, inPlace) && (len(params) > 0 || present) {
		rolling[inPlace] = params
	}
	setChild(strategy, "rollingUpdate", rolling)
}

func templateExcludes(template Tree) bool {
	return text(child(template, "metadata", "labels"), excludePreparingDeleteLabel) == "true"
}

// flatDown is the inverse of flatUp. What labels and annotations of the template say is not repeated; what has no place in
// the flat form stays in the nested one.
func flatDown(template, spec Tree) {
	if usable(spec, "scaleStrategy") {
		scale := fork(child(spec, "scaleStrategy"))
		reuseDown(scale)
		if scale["excludePreparingDelete"] == true && templateExcludes(template) {
			delete(scale, "excludePreparingDelete")
		}
		setChild(spec, "scaleStrategy", scale)
	}
	if !usable(spec, "updateStrategy") || !usable(child(spec, "updateStrategy"), "rollingUpdate") {
		return
	}
	strategy := fork(child(spec, "updateStrategy"))
	rolling := fork(child(strategy, "rollingUpdate"))
	kept := preDownloadsKept(template, rolling)
	for _, k := range flatMembers() {
		moveMember(rolling, strategy, k)
	}
	t, isText := strategy["type"].(string)
	if policy := text(rolling, "podUpdatePolicy"); isPolicy(policy) && isText && t != onDeleteType {
		strategy["type"] = policy
		delete(rolling, "podUpdatePolicy")
	}
	setChild(rolling, inPlace, kept)
	setChild(strategy, "rollingUpdate", rolling)
	setChild(spec, "updateStrategy", strategy)
}

// preDownloadsKept takes the pre-download members out of rollingUpdate and returns those that annotations of the template
// do not say.
func preDownloadsKept(template, rolling Tree) Tree {
	params := own(rolling, inPlace)
	kept := Tree{}
	taken := false
	for _, p := range preDownloads() {
		v, ok := take(params, p.member)
		if !ok {
			continue
		}
		taken = true
		s, parses := p.parse(text(child(template, "metadata", "annotations"), p.annotation))
		if !parses || !equal(s, v) {
			kept[p.member] = v
		}
	}
	if taken {
		setChild(rolling, inPlace, params)
	}
	return kept
}
