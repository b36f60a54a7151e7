package admission

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// CheckInPlaceStrategy checks the parameters of in-place update.
func CheckInPlaceStrategy(p *pub.InPlaceUpdateStrategy, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	for name, n := range map[string]*int32{
		"gracePeriodSeconds": &p.GracePeriodSeconds, "imagePreDownloadTimeoutSeconds": p.ImagePreDownloadTimeoutSeconds,
		"imagePreDownloadMinUpdatedReadyPods": p.ImagePreDownloadMinUpdatedReadyPods,
	} {
		if ptr.Deref(n, 0) < 0 {
			errs = append(errs, field.Invalid(at.Child(name), *n, "must not be negative"))
		}
	}
	if v := p.ImagePreDownloadParallelism; v != nil {
		if n, err := strconv.Atoi(v.String()); err != nil || n < 0 {
			errs = append(errs, field.Invalid(at.Child("imagePreDownloadParallelism"), v.String(), "must be a number of 0 or more: there is nothing that a percentage could be of"))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}
