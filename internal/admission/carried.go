package admission

import (
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned/scheme"
	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// carriedProblem is what is wrong with the annotation by which an object of v1beta1 has what only v1alpha1 has; "" if nothing is,
// or was with the old object, too.
func (r *reviewed) carriedProblem(kind string) string {
	key := conversion.CarrierKey(kind, conversion.V1alpha1)
	if rawjson.Member(rawjson.Member(rawjson.Member(r.beta, "metadata"), "annotations"), key) == nil {
		return ""
	}
	updated, err := conversion.Decode(r.beta)
	if err != nil {
		return key + ": " + err.Error()
	}
	// What was there and cannot be read is none.
	old, err := conversion.Decode(r.was)
	if err != nil {
		old = nil
	}
	if problem := conversion.CarriedProblem(old, updated); problem != "" {
		return problem
	}
	if problem := unreadableInAlpha(updated, kind); problem != nil && (old == nil || unreadableInAlpha(old, kind) == nil) {
		return fmt.Sprintf("%s: v1alpha1 could not be read with that: %v", key, problem)
	}
	return ""
}

// unreadableInAlpha is why clients of v1alpha1 could not read an object.
func unreadableInAlpha(beta conversion.Tree, kind string) error {
	alpha, err := conversion.Convert(beta, conversion.Group+"/"+conversion.V1alpha1)
	if err != nil {
		return fmt.Errorf("converting: %w", err)
	}
	text, err := conversion.Encode(alpha)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	typed, err := scheme.Scheme.New(v1alpha1.SchemeGroupVersion.WithKind(kind))
	if err != nil {
		return fmt.Errorf("finding the type: %w", err)
	}
	if err := utiljson.Unmarshal(text, typed); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	return nil
}
