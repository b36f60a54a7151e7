package conversion

const imageListPullJobTemplate = "imageListPullJobTemplate"

func advancedCronJobSpec() reach {
	return reach{{"template", whole(imageListPullJobTemplate)}}
}

func advancedCronJobUp(obj, carried Tree) Tree {
	template := child(carried, "spec", "template")
	if template == nil && child(obj, "spec", "template") == nil {
		return nil
	}
	if spec := ensure(obj, "spec"); spec != nil {
		unpack(spec, "template", template, []string{imageListPullJobTemplate})
	}
	return nil
}

func advancedCronJobDown(obj, _ Tree) Tree {
	if child(obj, "spec", "template") == nil {
		return nil
	}
	template := pack(own(own(obj, "spec"), "template"), []string{imageListPullJobTemplate})
	if len(template) == 0 {
		return nil
	}
	return Tree{"spec": Tree{"template": template}}
}

// hasVisibleTemplate tells whether a v1alpha1 AdvancedCronJob has one of the templates that v1alpha1 knows.
func hasVisibleTemplate(obj Tree) bool {
	template := child(obj, "spec", "template")
	return !isZero(template["jobTemplate"]) || !isZero(template["broadcastJobTemplate"])
}
