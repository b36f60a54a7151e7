// Package takeover has the objects of a cluster as another implementation of this API left them in the middle of its work:
// rollouts half done, sidecars injected, claims bound. Controllers that start on them change no Pod and write no revision.
package takeover

import (
	"embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

// The lists that there are.
const (
	Owners    = "owners.yaml"
	Pods      = "pods.yaml"
	Claims    = "pvcs.yaml"
	Revisions = "revisions.yaml"
)

//go:embed *.yaml
var files embed.FS

// Read returns the objects of a list. Owners are of several kinds: the caller picks its own.
func Read[T any](list string) ([]T, error) {
	raw, err := files.ReadFile(list)
	if err != nil {
		return nil, fmt.Errorf("reading the objects to be taken over: %w", err)
	}
	var objects struct{ Items []T }
	if err := yaml.Unmarshal(raw, &objects); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", list, err)
	}
	return objects.Items, nil
}
