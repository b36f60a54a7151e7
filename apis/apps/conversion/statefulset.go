package conversion

// lackingSpec and lackingStatus are the members of a StatefulSet that v1alpha1 lacks.
func lackingSpec() []string {
	return []string{
		"lifecycle", "ordinals", "persistentVolumeClaimRetentionPolicy", "reserveOrdinals", "scaleStrategy",
		"volumeClaimUpdateStrategy",
	}
}

func lackingStatus() []string {
	return []string{"updatedAvailableReplicas", "updatedReadyReplicas", "volumeClaims"}
}

func statefulSetUp(obj, carried Tree) Tree {
	unpack(obj, "spec", child(carried, "spec"), lackingSpec())
	unpack(obj, "status", child(carried, "status"), lackingStatus())
	return nil
}

func statefulSetDown(obj, _ Tree) Tree {
	carry := Tree{}
	setChild(carry, "spec", pack(own(obj, "spec"), lackingSpec()))
	setChild(carry, "status", pack(own(obj, "status"), lackingStatus()))
	return carry
}

// pack takes out what v1alpha1 lacks. A zero value says nothing and stays where it is.
func pack(t Tree, lacking []string) Tree {
	carry := Tree{}
	for _, k := range lacking {
		if v, ok := t[k]; ok && !isZero(v) {
			moveMember(t, carry, k)
		}
	}
	return carry
}

// unpack puts carried members in. A v1alpha1 object that has such a member itself has something of no meaning there; it
// must not come to life in v1beta1.
func unpack(obj Tree, key string, carried Tree, lacking []string) {
	if !usable(obj, key) {
		return
	}
	t := child(obj, key)
	for _, k := range lacking {
		v, given := carried[k]
		switch given = given && !isZero(v); {
		case given:
			t = ensure(obj, key)
			t[k] = v
		case !isZero(t[k]):
			t = own(obj, key)
			delete(t, k)
		}
	}
}
