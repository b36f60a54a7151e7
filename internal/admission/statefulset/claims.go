package statefulset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// validateClaimChange says what may not be done to claim templates that existing claims are to follow: only their size can
// change, where the class lets it.
func validateClaimChange(old, claims []corev1.PersistentVolumeClaim, classes []*storagev1.StorageClass, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(old) != len(claims) {
		errs = append(errs, field.Invalid(at, len(claims), "claim templates may be added or removed only where volumeClaimUpdateStrategy is OnDelete"))
	}
	for i := range claims {
		claim, path := &claims[i], at.Key(claims[i].Name)
		before := slices.IndexFunc(old, func(c corev1.PersistentVolumeClaim) bool { return c.Name == claim.Name })
		if before < 0 {
			errs = append(errs, field.Forbidden(path.Child("name"), "there was no such claim template: it may be added only where volumeClaimUpdateStrategy is OnDelete"))
			continue
		}
		errs = append(errs, validateOneClaim(&old[before], claim, classes, path)...)
	}
	return errs
}

func validateOneClaim(old, claim *corev1.PersistentVolumeClaim, classes []*storagev1.StorageClass, at *field.Path) field.ErrorList {
	was, is := old.Spec.StorageClassName, claim.Spec.StorageClassName
	if was != nil && is != nil && *was != *is {
		return field.ErrorList{field.Invalid(at, *is, "storageClassName may be changed only where volumeClaimUpdateStrategy is OnDelete")}
	}
	if !slices.Equal(old.Spec.AccessModes, claim.Spec.AccessModes) {
		return field.ErrorList{field.Invalid(at, claim.Spec.AccessModes, "accessModes may be changed only where volumeClaimUpdateStrategy is OnDelete")}
	}
	if sameStorage(old.Spec.Resources.Requests, claim.Spec.Resources.Requests) && sameStorage(old.Spec.Resources.Limits, claim.Spec.Resources.Limits) {
		return nil
	}
	class := classOf(claim, classes)
	switch {
	case class == nil && is != nil:
		return field.ErrorList{field.Invalid(at.Child("spec", "storageClassName"), *is, "there is no such StorageClass")}
	case class == nil:
		return nil
	case !ptr.Deref(class.AllowVolumeExpansion, false):
		return field.ErrorList{field.Forbidden(at.Child("spec", "resources", "requests", "storage"), "StorageClass "+class.Name+" does not allow volume expansion")}
	}
	return nil
}

func sameStorage(a, b corev1.ResourceList) bool {
	before, had := a[corev1.ResourceStorage]
	after, has := b[corev1.ResourceStorage]
	return had == has && before.Cmp(after) == 0
}

// IsDefaultClass is the annotation of StorageClasses for claims that name none.
const IsDefaultClass = "storageclass.kubernetes.io/is-default-class"

// classOf is the class that a claim names; without a name the newest of the default ones. nil: there is none.
func classOf(claim *corev1.PersistentVolumeClaim, classes []*storagev1.StorageClass) *storagev1.StorageClass {
	var found *storagev1.StorageClass
	for _, c := range classes {
		switch name := claim.Spec.StorageClassName; {
		case name != nil:
			if c.Name == *name {
				return c
			}
		case c.Annotations[IsDefaultClass] != "true":
		case found == nil || found.CreationTimestamp.Before(&c.CreationTimestamp),
			// As the API server does among equals.
			found.CreationTimestamp.Equal(&c.CreationTimestamp) && c.Name < found.Name:
			found = c
		}
	}
	return found
}
