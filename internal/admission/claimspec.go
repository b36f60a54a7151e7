package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// CheckClaimSpecs says what the API server would of the claims that are made of templates. As long as it refuses them there are
// no Pods.
func CheckClaimSpecs(claims []corev1.PersistentVolumeClaim, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range claims {
		spec, path := &claims[i].Spec, at.Index(i).Child("spec")
		errs = append(errs, checkAccessModes(spec.AccessModes, path.Child("accessModes"))...)
		errs = append(errs, checkStorage(spec.Resources.Requests, path.Child("resources", "requests", "storage"))...)
		if spec.Selector != nil {
			errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector, metavalidation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
		}
		modes := []corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}
		if m := spec.VolumeMode; m != nil && !slices.Contains(modes, *m) {
			errs = append(errs, field.NotSupported(path.Child("volumeMode"), *m, modes))
		}
		// An empty name means that there is no class.
		errs = append(errs, checkClass(ptr.Deref(spec.StorageClassName, ""), path.Child("storageClassName"))...)
		errs = append(errs, checkClass(ptr.Deref(spec.VolumeAttributesClassName, ""), path.Child("volumeAttributesClassName"))...)
		errs = append(errs, checkSource(spec.DataSourceRef, path.Child("dataSourceRef"))...)
	}
	return errs
}

func checkAccessModes(modes []corev1.PersistentVolumeAccessMode, at *field.Path) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(at, "at least one")}
	}
	known := []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod}
	var errs field.ErrorList
	for i, m := range modes {
		if !slices.Contains(known, m) {
			errs = append(errs, field.NotSupported(at.Index(i), m, known))
		}
	}
	if slices.Contains(modes, corev1.ReadWriteOncePod) && slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool { return m != corev1.ReadWriteOncePod }) {
		errs = append(errs, field.Forbidden(at, "ReadWriteOncePod may not be together with others"))
	}
	return errs
}

func checkStorage(requests corev1.ResourceList, at *field.Path) field.ErrorList {
	storage, there := requests[corev1.ResourceStorage]
	switch {
	case !there:
		return field.ErrorList{field.Required(at, "how much there is to be")}
	case storage.Sign() <= 0:
		return field.ErrorList{field.Invalid(at, storage.String(), "must be more than 0")}
	}
	return nil
}

func checkClass(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	var errs field.ErrorList
	for _, problem := range validation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(at, name, problem))
	}
	return errs
}

// checkSource leaves dataSource aside: what is no source there the API server ignores.
func checkSource(source *corev1.TypedObjectReference, at *field.Path) field.ErrorList {
	if source == nil {
		return nil
	}
	var errs field.ErrorList
	if source.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "names the source"))
	}
	group := ptr.Deref(source.APIGroup, "")
	switch {
	case source.Kind == "":
		errs = append(errs, field.Required(at.Child("kind"), "is the kind of the source"))
	case group == "" && source.Kind != "PersistentVolumeClaim":
		errs = append(errs, field.Invalid(at, source.Kind, "must be PersistentVolumeClaim where apiGroup is empty"))
	}
	return append(errs, checkClass(group, at.Child("apiGroup"))...)
}
