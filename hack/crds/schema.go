package main

import (
	"encoding/json"
	"fmt"
	"math"
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
	share := percentage(wholePercentage)
	switch crd.Spec.Names.Kind {
	case "CloneSet":
		share = percentage(anyPercentage)
	case "UnitedDeployment":
		// Subsets are a list without end, in which the API server estimates such a rule as too expensive.
		share = pattern(wholePercentage)
	}
	for i := range crd.Spec.Versions {
		root := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
		if crd.Spec.Names.Kind == "UnitedDeployment" {
			dropChildRules(root)
			demandChildMembers(root)
			finishCloneSetTemplate(root)
		}
		nameField(root)
		walk(root, false, finishNode(share))
	}
}

// finishNode makes the changes of one node and of the members whose names say what they are. share gives a number that may be
// a percentage its form, unless it has one.
func finishNode(share func(*apiextensionsv1.JSONSchemaProps)) func(*apiextensionsv1.JSONSchemaProps, bool) {
	return func(s *apiextensionsv1.JSONSchemaProps, inTemplate bool) {
		if inTemplate {
			openTemplate(s)
			return
		}
		if ordinals, ok := s.Properties["reserveOrdinals"]; ok {
			ordinals.Items.Schema.Pattern = ordinalRange
		}
		if parallelism, ok := s.Properties["imagePreDownloadParallelism"]; ok {
			parallelism.Pattern, parallelism.Minimum = plainNumber, ptr.To(0.0)
			s.Properties["imagePreDownloadParallelism"] = parallelism
		}
		if s.XIntOrString && s.Pattern == "" {
			share(s)
			// What is larger could be stored, and then not be read.
			s.Minimum, s.Maximum = ptr.To(0.0), ptr.To(float64(math.MaxInt32))
		}
		boundSelector(s)
		if s.Format == "date-time" {
			s.Nullable = true
		}
	}
}

// finishCloneSetTemplate gives the template of CloneSets the numbers that CloneSets have, before all others get theirs.
func finishCloneSetTemplate(root *apiextensionsv1.JSONSchemaProps) {
	template := root.Properties["spec"].Properties["template"]
	child := template.Properties["cloneSetTemplate"]
	walk(&child, false, finishNode(pattern(anyPercentage)))
	template.Properties["cloneSetTemplate"] = child
}

// Percentages of CloneSets may have a fraction.
const (
	wholePercentage = `^[0-9]+%$`
	anyPercentage   = `^[0-9]+(\.[0-9]+)?%$`
)

// pattern gives a number that may be a percentage its form where a rule would cost too much.
func pattern(form string) func(*apiextensionsv1.JSONSchemaProps) {
	return func(s *apiextensionsv1.JSONSchemaProps) { s.Pattern = form }
}

// percentage gives a number that may be a percentage its rule. As a pattern the user would be shown that, without a word of
// integers or spaces.
func percentage(pattern string) func(*apiextensionsv1.JSONSchemaProps) {
	return func(s *apiextensionsv1.JSONSchemaProps) {
		s.XValidations = append(s.XValidations, apiextensionsv1.ValidationRule{
			Rule:    "type(self) == int || self.matches(r'" + pattern + "')",
			Message: "must be an integer, or a percentage such as 20% without spaces",
		})
	}
}

// nameField has the rules about an object's name report that field. It must be known to the schema for that.
func nameField(root *apiextensionsv1.JSONSchemaProps) {
	for i := range root.XValidations {
		rule := &root.XValidations[i]
		if !strings.Contains(rule.Rule, "self.metadata.name") {
			continue
		}
		rule.FieldPath = ".metadata.name"
		root.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": {Type: "string"}},
		}
	}
}

// dropChildRules leaves the rules of a subset's workload to that workload: its selector and replicas are set by the
// controller, so that a template which breaks them may well give workloads that do not.
func dropChildRules(root *apiextensionsv1.JSONSchemaProps) {
	spec := root.Properties["spec"]
	template := spec.Properties["template"]
	for name, child := range template.Properties {
		walk(&child, false, func(s *apiextensionsv1.JSONSchemaProps, _ bool) { s.XValidations = nil })
		if isBuiltIn(name) {
			workload := child.Properties["spec"]
			workload.Required = nil
			child.Properties["spec"] = workload
		}
		template.Properties[name] = child
	}
}

// demandChildMembers has workloads of ours that the older version does not spell out demand what they do in the newer one: what
// is let through here could not be changed there.
func demandChildMembers(root *apiextensionsv1.JSONSchemaProps) {
	template := root.Properties["spec"].Properties["template"]
	for name, child := range template.Properties {
		spec := child.Properties["spec"]
		if isBuiltIn(name) || len(spec.Properties) > 0 {
			continue
		}
		spec.Type, spec.Required, spec.Properties = "object", []string{"selector", "template"}, map[string]apiextensionsv1.JSONSchemaProps{}
		for _, member := range spec.Required {
			spec.Properties[member] = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
		}
		child.Properties["spec"] = spec
	}
}

// plainNumber is a number as text: there is nothing that a percentage could be of.
const plainNumber = `^[0-9]+$`

// ordinalRange is a range of ordinals. A single one is a number: as text no controller reads it.
const ordinalRange = `^[0-9]+-[0-9]+$`

// Bounds that let the API server estimate the cost of rules about labels. Values have 63 characters at most anyway.
const (
	maxMatchLabels = 100
	maxLabelValue  = 63
)

func boundSelector(s *apiextensionsv1.JSONSchemaProps) {
	labels, ok := s.Properties["matchLabels"]
	if !ok || labels.AdditionalProperties == nil || labels.AdditionalProperties.Schema == nil {
		return
	}
	labels.MaxProperties = ptr.To(int64(maxMatchLabels))
	labels.AdditionalProperties.Schema.MaxLength = ptr.To(int64(maxLabelValue))
	s.Properties["matchLabels"] = labels
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
				Namespace: "flotilla-system", Name: "flotilla-webhook", Path: ptr.To("/convert"), Port: ptr.To(int32(443)),
			}},
		},
	}
}

// openTemplate makes one node of a template as lenient as the built-in workloads are. A default of the schema would
// write a field that the client did not send, so only those stay that identify the items of a list; the items' keys
// must have one, and cannot be null.
func openTemplate(s *apiextensionsv1.JSONSchemaProps) {
	if s.Type == "object" && s.AdditionalProperties == nil {
		s.XPreserveUnknownFields = ptr.To(true)
	}
	if s.Items != nil && s.Items.Schema != nil {
		relaxMembers(s.Items.Schema, s.XListMapKeys)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		relaxMembers(s.AdditionalProperties.Schema, nil)
	}
	for _, name := range sortedNames(s.Properties) {
		p := s.Properties[name]
		relaxMembers(&p, nil)
		s.Properties[name] = p
	}
}

func relaxMembers(s *apiextensionsv1.JSONSchemaProps, keys []string) {
	for name, p := range s.Properties {
		if slices.Contains(keys, name) {
			continue
		}
		p.Default = nil
		p.Nullable = p.Type != "" && !slices.Contains(s.Required, name)
		s.Properties[name] = p
	}
}

func sortedNames(properties map[string]apiextensionsv1.JSONSchemaProps) []string {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// isBuiltIn says whether a member holds a workload of Kubernetes itself.
func isBuiltIn(name string) bool {
	return name == "jobTemplate" || name == "statefulSetTemplate" || name == "deploymentTemplate"
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
	for _, name := range sortedNames(s.Properties) {
		p := s.Properties[name]
		walk(&p, inTemplate || isBuiltIn(name), visit)
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
