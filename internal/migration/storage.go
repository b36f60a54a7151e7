package migration

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// storedIn is the resource of a CRD in its storage version.
func storedIn(crd *apiextensionsv1.CustomResourceDefinition) (schema.GroupVersionResource, error) {
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			return schema.GroupVersionResource{Group: crd.Spec.Group, Version: v.Name, Resource: crd.Spec.Names.Plural}, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("spec.versions of CRD %s: none is the storage version", crd.Name)
}

// isDue says whether objects may be stored in another version.
func isDue(crd *apiextensionsv1.CustomResourceDefinition, storage string) bool {
	return slices.ContainsFunc(crd.Status.StoredVersions, func(v string) bool { return v != storage })
}

// isSame says whether what has been written meanwhile is stored as the CRD says now. Any change of the CRD's spec may have
// changed the storage version for a while.
func isSame(before, after *apiextensionsv1.CustomResourceDefinition) bool {
	return before.UID == after.UID && before.Generation == after.Generation
}
