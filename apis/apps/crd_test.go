package apps_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"
)

// published is the API as clients know it, by plural name.
type published struct {
	Names struct {
		Kind, ListKind, Plural, Singular string
		ShortNames                       []string
	}
	Scope    string
	Versions map[string]struct {
		Fields         map[string]json.RawMessage
		PrinterColumns []apiextensionsv1.CustomResourceColumnDefinition
		Required       []string
		Subresources   struct {
			Scale  *apiextensionsv1.CustomResourceSubresourceScale
			Status *struct{}
		}
		Storage bool
	}
}

func load(t *testing.T) (map[string]published, map[string]*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	raw, err := os.ReadFile("testdata/api-fields.json")
	require.NoError(t, err)
	want := map[string]published{}
	require.NoError(t, json.Unmarshal(raw, &want))
	files, err := filepath.Glob("../../deploy/crds/apps.kruise.io_*.yaml")
	require.NoError(t, err)
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.UnmarshalStrict(raw, crd), f)
		crds[crd.Spec.Names.Plural] = crd
	}
	return want, crds
}

func TestCRDsHaveTheNamesAndColumnsThatClientsKnow(t *testing.T) {
	want, crds := load(t)
	require.Len(t, crds, len(want))
	for plural, w := range want {
		t.Run(plural, func(t *testing.T) {
			crd := crds[plural]
			require.NotNil(t, crd)
			names := crd.Spec.Names
			require.Equal(t, plural+".apps.kruise.io", crd.Name)
			require.Equal(t, w.Names.Kind, names.Kind)
			require.Equal(t, w.Names.ListKind, names.ListKind)
			require.Equal(t, w.Names.Singular, names.Singular)
			require.Equal(t, w.Names.ShortNames, names.ShortNames)
			require.Subset(t, names.Categories, []string{"all", "kruise"})
			require.EqualValues(t, w.Scope, crd.Spec.Scope)
			require.Len(t, crd.Spec.Versions, len(w.Versions))
			for _, v := range crd.Spec.Versions {
				known := w.Versions[v.Name]
				require.True(t, v.Served)
				require.Equal(t, known.Storage, v.Storage)
				require.Equal(t, known.Subresources.Scale, v.Subresources.Scale)
				require.Equal(t, known.Subresources.Status != nil, v.Subresources.Status != nil)
				columns := v.AdditionalPrinterColumns
				for i := range columns {
					columns[i].Description = ""
				}
				require.Equal(t, known.PrinterColumns, columns)
			}
		})
	}
}

func TestCRDsHaveEveryFieldThatClientsKnow(t *testing.T) {
	want, crds := load(t)
	for plural, w := range want {
		for _, v := range crds[plural].Spec.Versions {
			t.Run(plural+" "+v.Name, func(t *testing.T) {
				for path, raw := range w.Versions[v.Name].Fields {
					if problem := lookUp(v.Schema.OpenAPIV3Schema, path, typeOf(t, raw)); problem != "" {
						t.Errorf("%s: %s", path, problem)
					}
				}
			})
		}
	}
}

func typeOf(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return name
	}
	var full struct{ Type string }
	require.NoError(t, json.Unmarshal(raw, &full))
	return full.Type
}

// lookUp follows a path such as spec.items[].labels{} and compares what is there. Below an opaque member everything is.
func lookUp(s *apiextensionsv1.JSONSchemaProps, path, kind string) string {
	for _, part := range strings.Split(path, ".") {
		name := strings.TrimRight(part, "[]{}")
		p, ok := s.Properties[name]
		if !ok {
			if isOpaque(s) {
				return ""
			}
			return "there is no " + name
		}
		s = &p
		for _, suffix := range []string{"[]", "{}"} {
			if !strings.HasSuffix(part, suffix) {
				continue
			}
			switch {
			case s.Items != nil && suffix == "[]":
				s = s.Items.Schema
			case s.AdditionalProperties != nil && suffix == "{}":
				s = s.AdditionalProperties.Schema
			default:
				return "there are no items"
			}
		}
	}
	return compare(s, kind)
}

func isOpaque(s *apiextensionsv1.JSONSchemaProps) bool {
	return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
}

func compare(s *apiextensionsv1.JSONSchemaProps, kind string) string {
	is := s.Type
	switch {
	case s.XIntOrString:
		is = "int-or-string"
	case kind == "any":
		// Spelled out is fine, as long as what is not spelled out is kept.
		if s.Type == "array" && s.Items != nil {
			s = s.Items.Schema
		}
		if !isOpaque(s) {
			return "unknown members are not kept"
		}
		return ""
	case is == "" && isOpaque(s):
		return ""
	}
	if is != kind {
		return "is " + is + ", clients know " + kind
	}
	return ""
}

// TestCRDsDemandNothingThatClientsDoNotSend: a member that is required here but not there breaks a manifest.
func TestCRDsDemandNothingThatClientsDoNotSend(t *testing.T) {
	want, crds := load(t)
	// What has no path there is not known there either: members of spelled out templates, and additions of ours.
	for plural, w := range want {
		for _, v := range crds[plural].Spec.Versions {
			known := w.Versions[v.Name]
			visit(v.Schema.OpenAPIV3Schema, "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
				for _, name := range s.Required {
					full := strings.TrimPrefix(path+"."+name, ".")
					// Status is written by controllers. Its conditions are told apart by their types.
					if _, exists := known.Fields[full]; exists && !strings.HasPrefix(full, "status.") {
						require.Contains(t, known.Required, full, "%s %s", plural, v.Name)
					}
				}
			})
		}
	}
}

// TestCRDsDemandWhatClientsKnowToBeDemanded: what one version lets through, the other may refuse at the next change.
func TestCRDsDemandWhatClientsKnowToBeDemanded(t *testing.T) {
	want, crds := load(t)
	for plural, w := range want {
		for _, v := range crds[plural].Spec.Versions {
			nodes := map[string]*apiextensionsv1.JSONSchemaProps{}
			visit(v.Schema.OpenAPIV3Schema, "", func(path string, s *apiextensionsv1.JSONSchemaProps) { nodes[path] = s })
			for _, full := range w.Versions[v.Name].Required {
				parent, name := "", full
				if dot := strings.LastIndexByte(full, '.'); dot >= 0 {
					parent, name = full[:dot], full[dot+1:]
				}
				// A status may lack anything. What has no node is below something that is opaque here.
				if s := nodes[parent]; s != nil && !strings.HasPrefix(full, "status.") {
					require.Contains(t, s.Required, name, "%s %s: %s", plural, v.Name, full)
				}
			}
		}
	}
}

func visit(s *apiextensionsv1.JSONSchemaProps, path string, see func(string, *apiextensionsv1.JSONSchemaProps)) {
	see(path, s)
	for name, p := range s.Properties {
		visit(&p, strings.TrimPrefix(path+"."+name, "."), see)
	}
	if s.Items != nil {
		visit(s.Items.Schema, path+"[]", see)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		visit(s.AdditionalProperties.Schema, path+"{}", see)
	}
}

func TestCRDsAreValidAndSmall(t *testing.T) {
	_, crds := load(t)
	for plural, crd := range crds {
		raw, err := json.Marshal(crd)
		require.NoError(t, err)
		require.Less(t, len(raw), 900<<10, plural)
		internal := &apiextensions.CustomResourceDefinition{}
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		require.NoError(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil))
		internal.Status.StoredVersions = []string{"v1beta1"}
		require.Empty(t, validation.ValidateCustomResourceDefinition(t.Context(), internal), plural)
		conversion := crd.Spec.Conversion
		if plural == "broadcastjobs" {
			require.Equal(t, apiextensionsv1.NoneConverter, conversion.Strategy)
			continue
		}
		require.Equal(t, "/convert", *conversion.Webhook.ClientConfig.Service.Path)
		require.Empty(t, conversion.Webhook.ClientConfig.CABundle)
	}
}

func TestRulesOfCRDsAreReportedInWordsAndAtTheirFields(t *testing.T) {
	_, crds := load(t)
	for plural, crd := range crds {
		for _, v := range crd.Spec.Versions {
			for _, rule := range v.Schema.OpenAPIV3Schema.XValidations {
				if strings.Contains(rule.Rule, "self.metadata.name") {
					require.Equal(t, ".metadata.name", rule.FieldPath, "%s %s: %s", plural, v.Name, rule.Rule)
				}
			}
			inWords := 0
			visit(v.Schema.OpenAPIV3Schema, "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
				if !s.XIntOrString {
					return
				}
				// In the subsets of a UnitedDeployment no rule is cheap enough.
				require.False(t, strings.HasSuffix(s.Pattern, "%$") && plural != "uniteddeployments", "%s %s: %s", plural, v.Name, path)
				for _, rule := range s.XValidations {
					require.Contains(t, rule.Message, "percentage", "%s %s: %s", plural, v.Name, path)
					inWords++
				}
			})
			require.Equal(t, plural != "uniteddeployments", inWords > 0, "%s %s", plural, v.Name)
		}
	}
}

// formOf is the regular expression that the text of a number or text has to match.
func formOf(t *testing.T, s *apiextensionsv1.JSONSchemaProps) string {
	t.Helper()
	if s.Pattern != "" {
		return s.Pattern
	}
	require.Len(t, s.XValidations, 1)
	_, rest, found := strings.Cut(s.XValidations[0].Rule, "matches(r'")
	form, _, ends := strings.Cut(rest, "')")
	require.True(t, found && ends, s.XValidations[0].Rule)
	return form
}

// formsOf are those of all numbers below a path that may be texts.
func formsOf(t *testing.T, root *apiextensionsv1.JSONSchemaProps, below string) map[string]string {
	t.Helper()
	forms := map[string]string{}
	visit(root, "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
		rest, isBelow := strings.CutPrefix(path, below)
		// What Pods and claims are made of has the forms of Kubernetes.
		if isBelow && s.XIntOrString && !strings.HasPrefix(rest, "template.") && !strings.HasPrefix(rest, "volumeClaimTemplates") {
			forms[rest] = formOf(t, s)
		}
	})
	return forms
}

func beta(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	for _, v := range crd.Spec.Versions {
		if v.Name == "v1beta1" {
			return v.Schema.OpenAPIV3Schema
		}
	}
	t.Fatalf("%s has no v1beta1", crd.Name)
	return nil
}

// TestTemplatesOfWorkloadsTakeTheNumbersThatTheWorkloadsTake: what a CloneSet may say, the template of one may say too.
func TestTemplatesOfWorkloadsTakeTheNumbersThatTheWorkloadsTake(t *testing.T) {
	_, crds := load(t)
	for plural, template := range map[string]string{"clonesets": "cloneSetTemplate", "statefulsets": "advancedStatefulSetTemplate"} {
		want := formsOf(t, beta(t, crds[plural]), "spec.")
		require.NotEmpty(t, want)
		require.Equal(t, want, formsOf(t, beta(t, crds["uniteddeployments"]), "spec.template."+template+".spec."), plural)
	}
}

// TestReservedOrdinalsAsTextAreRanges: a single ordinal is a number, in every schema that has the list.
func TestReservedOrdinalsAsTextAreRanges(t *testing.T) {
	_, crds := load(t)
	seen := 0
	for plural, crd := range crds {
		for _, v := range crd.Spec.Versions {
			visit(v.Schema.OpenAPIV3Schema, "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
				if !strings.HasSuffix(path, "reserveOrdinals[]") {
					return
				}
				seen++
				form := regexp.MustCompile(formOf(t, s))
				for text, isRange := range map[string]bool{
					"0-3": true, "3-3": true, "0003-005": true, "1": false, "12": false, "1-2-3": false, "1 - 3": false, "a-b": false, "1-%": false, "": false, "-1": false,
				} {
					require.Equal(t, isRange, form.MatchString(text), "%s %s: %s: %q", plural, v.Name, path, text)
				}
			})
		}
	}
	require.Equal(t, 2, seen)
}
