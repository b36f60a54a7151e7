package advancedcronjob

import (
	"fmt"
	"regexp"

	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// Limits of a pull.
const (
	mostImages         = 255
	longestPullSeconds = 24 * 60 * 60
)

// validatePull checks the spec of an ImageListPullJob.
func validatePull(s *v1beta1.ImageListPullJobSpec, at *field.Path) field.ErrorList {
	errs := validateImages(s.Images, at.Child("images"))
	if sel := s.Selector; sel != nil {
		path := at.Child("selector")
		errs = append(errs, metavalidation.ValidateLabelSelector(&sel.LabelSelector, metavalidation.LabelSelectorValidationOptions{}, path)...)
		if len(sel.Names) > 0 && len(sel.MatchLabels)+len(sel.MatchExpressions) > 0 {
			errs = append(errs, field.Invalid(path, sel.Names, "names may not be together with labels"))
		}
		errs = append(errs, once(sel.Names, path.Child("names"))...)
		if s.PodSelector != nil {
			errs = append(errs, field.Invalid(path, field.OmitValueType{}, "may not be together with podSelector"))
		}
	}
	if s.PodSelector != nil {
		errs = append(errs, metavalidation.ValidateLabelSelector(s.PodSelector, metavalidation.LabelSelectorValidationOptions{}, at.Child("podSelector"))...)
	}
	return append(errs, validatePullCompletion(s, at.Child("completionPolicy"))...)
}

func validatePullCompletion(s *v1beta1.ImageListPullJobSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	p := &s.CompletionPolicy
	if p.Type != v1beta1.Always {
		errs = append(errs, field.Invalid(at.Child("type"), p.Type, "must be Always"))
	}
	if d := p.ActiveDeadlineSeconds; d != nil {
		path := at.Child("activeDeadlineSeconds")
		if *d > longestPullSeconds {
			errs = append(errs, field.Invalid(path, *d, fmt.Sprintf("must be at most %d", longestPullSeconds)))
		}
		if s.PullPolicy != nil && *d < int64(ptr.Deref(s.PullPolicy.TimeoutSeconds, 0)) {
			errs = append(errs, field.Invalid(path, *d, "must not be less than pullPolicy.timeoutSeconds"))
		}
	}
	if ttl := p.TTLSecondsAfterFinished; ttl != nil {
		errs = append(errs, field.Invalid(at.Child("ttlSecondsAfterFinished"), *ttl, "must not be set: the limits of the AdvancedCronJob say what is kept"))
	}
	return errs
}

func validateImages(images []string, at *field.Path) field.ErrorList {
	if len(images) == 0 || len(images) > mostImages {
		return field.ErrorList{field.Invalid(at, len(images), fmt.Sprintf("must be 1 to %d images", mostImages))}
	}
	errs := once(images, at)
	for i, image := range images {
		if !isImage(image) {
			errs = append(errs, field.Invalid(at.Index(i), image, "is not a reference to an image, such as registry.example/team/app:v1"))
		}
	}
	return errs
}

func once(list []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, v := range list {
		if seen[v] {
			errs = append(errs, field.Invalid(at.Index(i), v, "is there twice"))
		}
		seen[v] = true
	}
	return errs
}

// longestImageName is without tag and digest.
const longestImageName = 255

// imageReference is [registry[:port]/]path[:tag][@algorithm:digest]; its group is the name.
var imageReference = regexp.MustCompile(`^(` +
	`(?:(?:` + hostLabel + `(?:\.` + hostLabel + `)*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?/)?` +
	pathPart + `(?:/` + pathPart + `)*)` +
	`(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?` +
	`(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,})?$`)

const (
	hostLabel = `[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?`
	// Words with one period, one or two underscores, or dashes between them.
	pathPart = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
)

func isImage(text string) bool {
	match := imageReference.FindStringSubmatch(text)
	return match != nil && len(match[1]) <= longestImageName
}
