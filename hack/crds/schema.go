package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

const maxJSON = 900 << 10

// finish makes every change but the length of descriptions.
func finish(crd *apiextensionsv1.CustomResourceDefinition) {
	delete(crd.Annotations, "controller-gen.kubebuilder.io/version")
	crd.Labels = map[string]string{"app.kubernetes.io/part-of": "flotilla"}
	crd.Spec.Conversion = conversion(crd.Spec.Names.Kind)
	percent := `^[0-9]+%$`
	if crd.Spec.Names.Kind == "CloneSet" {
		percent = `^[0-9]+(\.[0-9]+)?%$`
	}
	for i := range crd.Spec.Versions {
		root := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
		walk(root, false, func(s *apiextensionsv1.JSONSchemaProps, inTemplate bool) {
			if inTemplate {
				openTemplate(s)
				return
			}
			if s.XIntOrString && s.Pattern == "" {
				s.Pattern = percent
				s.Minimum = ptr.To(0.0)
			}
			if s.Format == "date-time" {
				s.Nullable = true
			}
		})
	}
}

// conversion names the webhook-server. Versions of a BroadcastJob differ in nothing but their name.
func conversion(kind string) *apiextensionsv1.CustomResourceConversion {
	if kind == "BroadcastJob" {
		return &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	}
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{
				Namespace: "flotilla-system", Name: "webhook-server", Path: ptr.To("/convert"), Port: ptr.To(int32(443)),
			}},
		},
	}
}

// openTemplate makes one node of a template as lenient as the built-in workloads are. A default of the schema would
// write a field that the client did not send, so only those stay that identify the items of a list.
func openTemplate(s *apiextensionsv1.JSONSchemaProps) {
	if s.Type == "object" && s.AdditionalProperties == nil {
		s.XPreserveUnknownFields = ptr.To(true)
	}
	var keys []string
	if s.Items != nil && s.Items.Schema != nil {
		keys = s.XListMapKeys
	}
	for name, p := range s.Properties {
		if !slices.Contains(s.Required, name) && p.Type != "" && p.Default == nil {
			p.Nullable = true
			s.Properties[name] = p
		}
	}
	if len(keys) > 0 {
		return
	}
	for name, p := range s.Properties {
		// The protocol of a port is the only key of a list that has a default.
		if p.Default != nil && name != "protocol" {
			p.Default = nil
			p.Nullable = !slices.Contains(s.Required, name)
			s.Properties[name] = p
		}
	}
}

// isTemplate says whether a node is a Pod template, a claim template, or holds the containers of one.
func isTemplate(s *apiextensionsv1.JSONSchemaProps) bool {
	spec, ok := s.Properties["spec"]
	if !ok {
		return false
	}
	_, containers := spec.Properties["containers"]
	_, tolerations := spec.Properties["tolerations"]
	_, accessModes := spec.Properties["accessModes"]
	return containers && tolerations || accessModes
}

func isContainer(s *apiextensionsv1.JSONSchemaProps) bool {
	_, image := s.Properties["image"]
	_, mounts := s.Properties["volumeMounts"]
	return image && mounts
}

func isVolume(s *apiextensionsv1.JSONSchemaProps) bool {
	_, hostPath := s.Properties["hostPath"]
	_, emptyDir := s.Properties["emptyDir"]
	return hostPath && emptyDir
}

// walk visits a node and then what is below it, in the order of names.
func walk(s *apiextensionsv1.JSONSchemaProps, inTemplate bool, visit func(*apiextensionsv1.JSONSchemaProps, bool)) {
	inTemplate = inTemplate || isTemplate(s) || isContainer(s) || isVolume(s)
	visit(s, inTemplate)
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p := s.Properties[name]
		walk(&p, inTemplate, visit)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(s.Items.Schema, inTemplate, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(s.AdditionalProperties.Schema, inTemplate, visit)
	}
}

// fit shortens the descriptions inside templates, step by step, until the CRD is small enough.
func fit(crd *apiextensionsv1.CustomResourceDefinition) error {
	size := 0
	for _, limit := range []int{160, 80, 0} {
		for i := range crd.Spec.Versions {
			walk(crd.Spec.Versions[i].Schema.OpenAPIV3Schema, false, func(s *apiextensionsv1.JSONSchemaProps, inTemplate bool) {
				if inTemplate {
					s.Description = shorten(s.Description, limit)
				} else {
					s.Description = strings.Join(strings.Fields(s.Description), " ")
				}
			})
		}
		raw, err := json.Marshal(crd)
		if err != nil {
			return err
		}
		if size = len(raw); size < maxJSON {
			return nil
		}
	}
	return fmt.Errorf("%d bytes of JSON without descriptions; at most %d are allowed", size, maxJSON)
}

// shorten keeps whole sentences while they fit, else whole words.
func shorten(text string, limit int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= limit {
		return text
	}
	if limit == 0 {
		return ""
	}
	cut := text[:limit]
	if i := strings.LastIndex(cut, ". "); i > 0 {
		return cut[:i+1]
	}
	if i := strings.LastIndex(cut, " "); i > 0 {
		return cut[:i] + " …"
	}
	return ""
}
