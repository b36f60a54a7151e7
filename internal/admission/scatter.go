package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// CheckScatter checks the labels whose Pods are spread over a rollout.
func CheckScatter(terms []v1beta1.UpdateScatterTerm, at *field.Path) field.ErrorList {
	errs := CheckCount(len(terms), mostTerms, at)
	if len(errs) > 0 {
		return errs
	}
	seen := map[string]bool{}
	for i, t := range terms {
		path := at.Index(i)
		if t.Key == "" {
			errs = append(errs, field.Required(path.Child("key"), "names a label"))
		}
		if id := t.Key + "=" + t.Value; seen[id] {
			errs = append(errs, field.Required(path, fmt.Sprintf("%s is there twice", id)))
		} else {
			seen[id] = true
		}
	}
	return errs
}
