package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const system = "flotilla-system"

// objects are manifests by kind, namespace and name.
type objects map[string]*unstructured.Unstructured

func key(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// parse reads manifests and refuses two of the same object.
func parse(t *testing.T, manifests string) objects {
	t.Helper()
	out := objects{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		if len(o.Object) == 0 {
			continue
		}
		k := key(o.GetKind(), o.GetNamespace(), o.GetName())
		require.NotContains(t, out, k, "twice")
		out[k] = o
	}
}

// into decodes one of the objects, and refuses members that its type does not have.
func into[T any](t *testing.T, from objects, kind, namespace, name string) *T {
	t.Helper()
	o := from[key(kind, namespace, name)]
	require.NotNil(t, o, key(kind, namespace, name))
	out := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, out, true))
	return out
}

// kustomization is what of its kind is used here.
type kustomization struct {
	Namespace  string    `json:"namespace,omitempty"`
	Resources  []string  `json:"resources"`
	Components []string  `json:"components,omitempty"`
	Replicas   []replica `json:"replicas,omitempty"`
}

type replica struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// suite is the suite without CRDs: no chart has them, the cluster has them already, and they are 6 MB.
func suite(t *testing.T, components ...string) kustomization {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(cluster.Root, "deploy", "suite", "kustomization.yaml"))
	require.NoError(t, err)
	var k kustomization
	require.NoError(t, yaml.Unmarshal(raw, &k))
	require.Contains(t, k.Resources, "../crds")
	k.Resources = slices.DeleteFunc(k.Resources, func(r string) bool { return r == "../crds" })
	for _, c := range components {
		k.Components = append(k.Components, "../components/"+c)
	}
	return k
}

// folder writes the kustomization as if it were in a folder of deploy/.
func (k kustomization) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, list := range [][]string{k.Resources, k.Components} {
		for i, path := range list {
			if !filepath.IsAbs(path) {
				path = filepath.Join(cluster.Root, "deploy", "suite", path)
			}
			// kustomize takes no absolute ones.
			relative, err := filepath.Rel(dir, path)
			require.NoError(t, err)
			list[i] = relative
		}
	}
	raw, err := yaml.Marshal(k)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), raw, 0o600))
	return dir
}

// kustomize renders the suite with components.
func kustomize(t *testing.T, components ...string) objects {
	t.Helper()
	return parse(t, kubectl(t, "", "kustomize", suite(t, components...).folder(t)))
}

// template renders the chart, with the namespace.
func template(t *testing.T, values ...string) objects {
	t.Helper()
	return parse(t, helm(t, append([]string{"template", "flotilla", chart(), "--set", "createNamespace=true"}, values...)...))
}

func chart() string { return filepath.Join(cluster.Root, "deploy", "chart", "flotilla") }

// helm runs the pinned Helm as the cluster's administrator.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryHelm(t, append(args, "--namespace", system)...)
	require.NoError(t, err, out)
	return out
}

func tryHelm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return runHelm(t.Context(), t, args...)
}

// tryHelmAfter is for when the test has ended.
func tryHelmAfter(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return runHelm(context.Background(), t, args...)
}

func runHelm(ctx context.Context, t *testing.T, args ...string) (string, error) {
	t.Helper()
	dir, err := exec.Command(filepath.Join(cluster.Root, "hack", "tools", "tools.sh")).Output()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(strings.TrimSpace(string(dir)), "helm"), args...)
	home := filepath.Join(cluster.Dir, "helm")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w: %s", args[0], err, problems.String())
	}
	return out.String(), nil
}

func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := cluster.KubectlInput(stdin, args...)
	require.NoError(t, err, out)
	return out
}
