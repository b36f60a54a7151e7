package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// namespace is where the bases put the suite.
const namespace = "flotilla-system"

// chart is a Helm chart, as far as its templates use what Helm has: the functions below and no other. That both render the same is tested
// with Helm itself.
type chart struct {
	templates *template.Template
	// files are the templates that are manifests: FOLDER/FILE.yaml.
	files []string
	data  map[string]any
}

func loadChart(dir string) (*chart, error) {
	c := &chart{templates: template.New("chart").Option("missingkey=error")}
	c.templates.Funcs(c.functions())
	about, err := readYAML(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return nil, err
	}
	values, err := readYAML(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return nil, err
	}
	// Bases have all there is; which of them are applied is the kustomization's to say.
	values["createNamespace"] = true
	values["storageMigrator"] = map[string]any{"enabled": true}
	webhooks, ok := values["webhooks"].(map[string]any)
	if !ok {
		return nil, errors.New("values.yaml: webhooks: must be a map")
	}
	webhooks["podMode"] = "guarded"
	c.data = map[string]any{
		"Values": values, "Chart": map[string]any{"AppVersion": about["appVersion"]}, "Release": map[string]any{"Namespace": namespace},
	}
	return c, c.parse(filepath.Join(dir, "templates"))
}

func (c *chart) parse(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) == ".txt" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if filepath.Ext(path) == ".yaml" {
			c.files = append(c.files, name)
		}
		_, err = c.templates.New(name).Parse(string(raw))
		return err
	})
}

// functions are those of Helm that the templates use.
func (c *chart) functions() template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data any) (string, error) { return c.execute(name, data) },
		"nindent": func(n int, text string) string {
			indent := "\n" + strings.Repeat(" ", n)
			return indent + strings.ReplaceAll(text, "\n", indent)
		},
		"toYaml": func(v any) (string, error) {
			raw, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(raw), "\n"), err
		},
		"dict": dict,
		"fail": func(message string) (string, error) { return "", errors.New(message) },
	}
}

// dict is a map of names, each followed by its value.
func dict(pairs ...any) (map[string]any, error) {
	out := map[string]any{}
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %v has no value", pairs[len(pairs)-1])
	}
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		out[name] = pairs[i+1]
	}
	return out, nil
}

func (c *chart) execute(name string, data any) (string, error) {
	var out strings.Builder
	err := c.templates.ExecuteTemplate(&out, name, data)
	return out.String(), err
}

// render returns the manifests by FOLDER/FILE.yaml.
func (c *chart) render() (map[string]string, error) {
	out := map[string]string{}
	for _, name := range c.files {
		text, err := c.execute(name, c.data)
		if err != nil {
			return nil, err
		}
		if text = strings.TrimSpace(text); text == "" {
			return nil, fmt.Errorf("%s: nothing is rendered at the defaults", name)
		}
		out[name] = text + "\n"
	}
	return out, nil
}

func readYAML(file string) (map[string]any, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	if err := yaml.UnmarshalStrict(raw, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
