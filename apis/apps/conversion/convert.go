package conversion

import (
	"errors"
	"fmt"
)

const (
	group    = "apps.kruise.io/"
	v1alpha1 = group + "v1alpha1"
	v1beta1  = group + "v1beta1"

	kindCloneSet         = "CloneSet"
	kindStatefulSet      = "StatefulSet"
	kindSidecarSet       = "SidecarSet"
	kindBroadcastJob     = "BroadcastJob"
	kindAdvancedCronJob  = "AdvancedCronJob"
	kindUnitedDeployment = "UnitedDeployment"
)

// Convert returns the object in the desired version. The object itself is not changed, and shares nothing with the
// result. It fails only if kind or version are unknown or missing.
func Convert(object Tree, desiredAPIVersion string) (Tree, error) {
	version, okVersion := object["apiVersion"].(string)
	kind, okKind := object["kind"].(string)
	if !okVersion || !okKind {
		return nil, errors.New("the object has no apiVersion or no kind")
	}
	up, down := mappings(kind)
	if up == nil {
		return nil, fmt.Errorf("kind %q is unknown", kind)
	}
	for _, v := range []string{version, desiredAPIVersion} {
		if v != v1alpha1 && v != v1beta1 {
			return nil, fmt.Errorf("%s: version %q is unknown: only %s and %s are", kind, v, v1alpha1, v1beta1)
		}
	}
	out, _ := deepCopy(object).(Tree)
	if version == desiredAPIVersion {
		return out, nil
	}
	if desiredAPIVersion == v1beta1 {
		up(out)
	} else {
		down(out)
	}
	out["apiVersion"] = desiredAPIVersion
	return out, nil
}

// mappings are the changes from v1alpha1 to v1beta1 and back; nil for an unknown kind.
func mappings(kind string) (up, down func(Tree)) {
	switch kind {
	case kindCloneSet:
		return cloneSetUp, cloneSetDown
	case kindStatefulSet:
		return statefulSetUp, statefulSetDown
	case kindSidecarSet:
		return sidecarSetUp, sidecarSetDown
	case kindBroadcastJob:
		return func(Tree) {}, func(Tree) {}
	case kindAdvancedCronJob:
		return advancedCronJobUp, advancedCronJobDown
	case kindUnitedDeployment:
		return unitedDeploymentUp, unitedDeploymentDown
	}
	return nil, nil
}
