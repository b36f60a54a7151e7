package sidecarset

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

func sorted(annotations map[string]string) []string {
	return slices.Sorted(maps.Keys(annotations))
}

func validateMetadata(list []v1beta1.SidecarSetPatchPodMetadata, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, p := range list {
		path := at.Index(i)
		if len(p.Annotations) == 0 {
			errs = append(errs, field.Required(path.Child("annotations"), "at least one"))
		}
		errs = append(errs, validation.ValidateAnnotations(p.Annotations, path.Child("annotations"))...)
		switch p.PatchPolicy {
		case v1beta1.SidecarSetRetainPatchPolicy, v1beta1.SidecarSetOverwritePatchPolicy, v1beta1.SidecarSetMergePatchJSONPatchPolicy:
		default:
			errs = append(errs, field.NotSupported(path.Child("patchPolicy"), p.PatchPolicy, []v1beta1.SidecarSetPatchPolicyType{
				v1beta1.SidecarSetRetainPatchPolicy, v1beta1.SidecarSetOverwritePatchPolicy, v1beta1.SidecarSetMergePatchJSONPatchPolicy,
			}))
		}
		for _, key := range sorted(p.Annotations) {
			var object map[string]any
			switch {
			case seen[key]:
				errs = append(errs, field.Required(at, fmt.Sprintf("%s is there twice", key)))
			case isReserved(key):
				errs = append(errs, field.Forbidden(path.Child("annotations").Key(key), "is written by the controllers themselves"))
			case p.PatchPolicy != v1beta1.SidecarSetMergePatchJSONPatchPolicy:
			case json.Unmarshal([]byte(p.Annotations[key]), &object) != nil || object == nil:
				errs = append(errs, field.Invalid(path.Child("annotations").Key(key), p.Annotations[key], "must be a JSON object with policy MergePatchJson"))
			}
			seen[key] = true
		}
	}
	return errs
}

// isReserved is for what the Pod's sidecars are known by.
func isReserved(key string) bool {
	for _, prefix := range []string{"kruise.io/sidecarset-", "apps.kruise.io/sidecarset-", "version.sidecarset.kruise.io/", "versionalt.sidecarset.kruise.io/"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// whiteList is what an administrator allows.
type whiteList struct {
	Rules []struct {
		Selector                  *metav1.LabelSelector `json:"selector"`
		AllowedAnnotationKeyExprs []string              `json:"allowedAnnotationKeyExprs"`
	} `json:"rules"`
}

// validatePermission asks whether every annotation may be patched by a set of these labels.
func validatePermission(set *v1beta1.SidecarSet, c *Cluster) field.ErrorList {
	if len(set.Spec.PatchPodMetadata) == 0 {
		return nil
	}
	at := field.NewPath("spec", "patchPodMetadata")
	allowed, err := c.allowed(set.Labels)
	switch {
	case err != nil:
		return field.ErrorList{field.Required(at, "which annotations may be patched cannot be told: "+err.Error())}
	case len(allowed) == 0 && c.PatchAllowed:
		return nil
	}
	var errs field.ErrorList
	for _, p := range set.Spec.PatchPodMetadata {
		for _, key := range sorted(p.Annotations) {
			if !slices.ContainsFunc(allowed, func(e *regexp.Regexp) bool { return e.MatchString(key) }) {
				errs = append(errs, field.Required(at, fmt.Sprintf("nothing allows to patch annotation %s", key)))
			}
		}
	}
	return errs
}

// allowed are the expressions of the rules that apply.
func (c *Cluster) allowed(of map[string]string) ([]*regexp.Regexp, error) {
	if c.WhiteList == nil {
		return nil, nil
	}
	var list whiteList
	if err := json.Unmarshal([]byte(*c.WhiteList), &list); err != nil {
		return nil, fmt.Errorf("reading the white list: %w", err)
	}
	var out []*regexp.Regexp
	for i, rule := range list.Rules {
		if rule.Selector != nil {
			selector, err := metav1.LabelSelectorAsSelector(rule.Selector)
			if err != nil {
				return nil, fmt.Errorf("selector of rule %d: %w", i, err)
			}
			if !selector.Matches(labels.Set(of)) {
				continue
			}
		}
		for _, text := range rule.AllowedAnnotationKeyExprs {
			e, err := regexp.Compile(text)
			if err != nil {
				return nil, fmt.Errorf("expression of rule %d: %w", i, err)
			}
			out = append(out, e)
		}
	}
	return out, nil
}
