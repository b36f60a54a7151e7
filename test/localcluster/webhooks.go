package localcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CallWebhooksAt lets the API server call the webhooks of a process on this machine instead of a Service: conversion, and the
// hooks as shipped. The manifests' own field manager writes, so that applying the manifests again undoes it.
func (c *Cluster) CallWebhooksAt(address string) error {
	files, err := filepath.Glob(filepath.Join(c.Root, "deploy", "crds", "apps.kruise.io_*.yaml"))
	if err != nil {
		return fmt.Errorf("listing CRDs: %w", err)
	}
	for _, f := range files {
		if err := c.applyByURL(f, address); err != nil {
			return err
		}
	}
	return c.CallHooksAt(address)
}

// CallHooksAt is CallWebhooksAt without conversion: a change of a CRD costs the API server a lot.
func (c *Cluster) CallHooksAt(address string) error {
	return c.applyByURL(filepath.Join(c.Root, "deploy", "webhooks", "webhooks.yaml"), address)
}

func (c *Cluster) applyByURL(path, address string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading a manifest: %w", err)
	}
	out, err := c.KubectlInput(byURL(string(raw), address), "apply", "--server-side", "--force-conflicts", "-f", "-")
	if err != nil {
		return fmt.Errorf("applying %s: %w: %s", path, err, out)
	}
	return nil
}

// byURL replaces the Service of every webhook in a manifest by a URL.
func byURL(manifest, address string) string {
	lines := strings.SplitAfter(manifest, "\n")
	var out strings.Builder
	for i := 0; i < len(lines); i++ {
		indent, ok := strings.CutSuffix(strings.TrimRight(lines[i], "\n"), "service:")
		// Schemas have members of that name, too.
		if !ok || strings.TrimSpace(indent) != "" || i == 0 || strings.TrimSpace(lines[i-1]) != "clientConfig:" {
			out.WriteString(lines[i])
			continue
		}
		path := ""
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], indent+"  ") {
			i++
			if p, ok := strings.CutPrefix(strings.TrimSpace(lines[i]), "path: "); ok {
				path = p
			}
		}
		fmt.Fprintf(&out, "%surl: https://%s%s\n", indent, address, path)
	}
	return out.String()
}
