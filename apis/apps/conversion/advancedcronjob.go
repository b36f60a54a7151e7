package conversion

const imageListPullJobTemplate = "imageListPullJobTemplate"

func advancedCronJobDown(t Tree) {
	carried := Tree{}
	if move(child(t, "spec", "template"), carried, imageListPullJobTemplate) {
		putCarrier(t, CarrierKey(kindAdvancedCronJob), Tree{"spec": Tree{"template": carried}})
	}
}

func advancedCronJobUp(t Tree) {
	content := takeCarrier(t, CarrierKey(kindAdvancedCronJob), func(c Tree) bool {
		return onlyMembers(c, "spec") && onlyMembers(child(c, "spec"), "template") &&
			isSubset(child(c, "spec", "template"), []string{imageListPullJobTemplate})
	})
	if carried := child(content, "spec", "template"); len(carried) > 0 {
		move(carried, ensure(t, "spec", "template"), imageListPullJobTemplate)
	}
}
