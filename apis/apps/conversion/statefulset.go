package conversion

// onlyInBeta are the members of spec and status that v1alpha1 lacks.
func onlyInBeta() map[string][]string {
	return map[string][]string{
		"spec": {
			"reserveOrdinals", "lifecycle", "scaleStrategy", "persistentVolumeClaimRetentionPolicy", "ordinals",
			"volumeClaimUpdateStrategy",
		},
		"status": {"updatedReadyReplicas", "updatedAvailableReplicas", "volumeClaims"},
	}
}

func statefulSetDown(t Tree) {
	content := Tree{}
	for part, names := range onlyInBeta() {
		carried := Tree{}
		for _, name := range names {
			move(child(t, part), carried, name)
		}
		if len(carried) > 0 {
			content[part] = carried
		}
	}
	if len(content) > 0 {
		putCarrier(t, CarrierKey(kindStatefulSet), content)
	}
}

func statefulSetUp(t Tree) {
	lacking := onlyInBeta()
	content := takeCarrier(t, CarrierKey(kindStatefulSet), func(c Tree) bool {
		return onlyMembers(c, "spec", "status") && isSubset(child(c, "spec"), lacking["spec"]) && isSubset(child(c, "status"), lacking["status"])
	})
	for part, names := range lacking {
		carried := child(content, part)
		if len(carried) == 0 {
			continue
		}
		into := ensure(t, part)
		for _, name := range names {
			move(carried, into, name)
		}
	}
}

func isSubset(t Tree, names []string) bool {
	n := 0
	for _, name := range names {
		if has(t, name) {
			n++
		}
	}
	return n == len(t)
}
