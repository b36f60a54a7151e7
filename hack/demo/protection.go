package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// protect installs the policy that keeps objects from being deleted by mistake.
func protect(cluster *localcluster.Cluster) error {
	out, err := cluster.Kubectl("apply", "--server-side", "-k", filepath.Join(cluster.Root, "deploy", "policies"))
	if err != nil {
		return fmt.Errorf("applying the policies: %w: %s", err, out)
	}
	return nil
}

// protection tries to delete a set that is protected, and then lets it be deleted again.
func (d *demo) protection(ctx context.Context) (string, error) {
	label := pub.DeleteProtectionKey + "=Always"
	if out, err := d.cluster.Kubectl("label", "cloneset", older, "-n", namespace, label); err != nil {
		return "", fmt.Errorf("protecting %s: %w: %s", older, err, out)
	}
	refused := func(args ...string) (string, error) {
		out, err := d.cluster.Kubectl(append([]string{"delete", "cloneset", older, "-n", namespace}, args...)...)
		if err == nil || !strings.Contains(out, pub.DeleteProtectionKey) {
			return "", fmt.Errorf("kubectl delete said: %s", out)
		}
		return strings.TrimSpace(out), nil
	}
	// A policy takes a moment to be known to the API server; nothing must be lost by asking too early.
	err := localcluster.Await(ctx, within, func(context.Context) error {
		_, err := refused("--dry-run=server")
		return err
	})
	if err != nil {
		return "", err
	}
	said, err := refused()
	if err != nil {
		return "", err
	}
	fmt.Printf("  %s\n", said)
	if err := d.unprotect(); err != nil {
		return "", err
	}
	return "the label " + label + " keeps it, whoever deletes", nil
}
