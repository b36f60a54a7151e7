// Command manifests writes the manifests that are shipped: the chart's webhook configurations from the table of hooks, and the
// kustomize bases from the chart. A base is what the chart renders at its defaults, file by file, so that both are the same.
//
// Usage: manifests DEPLOY-DIR
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests DEPLOY-DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(deploy string) error {
	chart := filepath.Join(deploy, "chart", "flotilla")
	if err := writeHooks(filepath.Join(chart, "templates", "webhooks", "webhooks.yaml")); err != nil {
		return err
	}
	c, err := loadChart(chart)
	if err != nil {
		return err
	}
	files, err := c.render()
	if err != nil {
		return err
	}
	return writeBases(deploy, files)
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
