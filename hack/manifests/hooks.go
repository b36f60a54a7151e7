package main

import (
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/flotilla-k8s/flotilla/internal/hooks"
)

// hooksTemplate is a template of the chart with gaps in [[ ]] for what the table says.
//
//go:embed webhooks.tmpl
var hooksTemplate string

// configuration is one object with its hooks.
type configuration struct {
	Kind, Name string
	Hooks      []hooks.Hook
}

func configurations() []configuration {
	mutating := configuration{Kind: "MutatingWebhookConfiguration", Name: "flotilla-mutating-webhook-configuration"}
	validating := configuration{Kind: "ValidatingWebhookConfiguration", Name: "flotilla-validating-webhook-configuration"}
	for _, h := range hooks.All() {
		if h.Mutates {
			mutating.Hooks = append(mutating.Hooks, h)
		} else {
			validating.Hooks = append(validating.Hooks, h)
		}
	}
	return []configuration{mutating, validating}
}

// writeHooks writes the chart's template of the webhook configurations.
func writeHooks(file string) error {
	t, err := template.New("webhooks").Delims("[[", "]]").Option("missingkey=error").Funcs(template.FuncMap{
		"flow":  flow,
		"lines": func(text, indent string) string { return strings.ReplaceAll(text, "\n", "\n"+indent) },
	}).Parse(hooksTemplate)
	if err != nil {
		return err
	}
	var out strings.Builder
	err = t.Execute(&out, map[string]any{
		"Configurations": configurations(), "ExcludedNamespaces": hooks.ExcludedNamespaces(), "ControlPlaneLabel": hooks.ControlPlaneLabel,
	})
	if err != nil {
		return err
	}
	return write(file, out.String())
}

// flow is a list on one line.
func flow(list any) string {
	text := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(list), "[]")), ", ")
	if text == "" {
		text = `""`
	}
	return "[" + text + "]"
}
