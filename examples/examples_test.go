// Package examples holds manifests that can be applied as they are, each alone or all of them in one namespace.
package examples

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// object is one of an example, and the file that it is from.
type object struct {
	file string
	unstructured.Unstructured
}

func load(t *testing.T) []object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("*", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var out []object
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
		for {
			o := object{file: file}
			err := decoder.Decode(&o.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, file)
			out = append(out, o)
		}
	}
	return out
}

// podLabels are those of the Pods that an object makes; nil: it makes none.
func (o *object) podLabels() labels.Set {
	found, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	return found
}

// selector says which Pods a workload or a Service takes for its own; nil: that is nothing it does.
func (o *object) selector(t *testing.T) labels.Selector {
	t.Helper()
	found, _, _ := unstructured.NestedMap(o.Object, "spec", "selector")
	switch {
	case len(found) == 0 || o.GetKind() == "SidecarSet":
		return nil
	case o.GetKind() == "Service":
		equal, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector")
		require.NoError(t, err, o.file)
		return labels.SelectorFromSet(equal)
	}
	var s metav1.LabelSelector
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(found, &s), o.file)
	parsed, err := metav1.LabelSelectorAsSelector(&s)
	require.NoError(t, err, o.file)
	return parsed
}

func TestNoTwoExamplesAreTheSameObject(t *testing.T) {
	of := map[string]string{}
	for _, o := range load(t) {
		key := o.GroupVersionKind().GroupKind().String() + " " + o.GetName()
		require.NotContains(t, of, key, "%s and %s", of[key], o.file)
		of[key] = o.file
	}
}

func TestNoExampleSelectsPodsOfAnother(t *testing.T) {
	all := load(t)
	for i := range all {
		selector := all[i].selector(t)
		if selector == nil {
			continue
		}
		own := false
		for j := range all {
			pods := all[j].podLabels()
			matches := pods != nil && selector.Matches(pods)
			own = own || matches
			require.False(t, matches && all[i].file != all[j].file, "%s %s of %s selects Pods of %s", all[i].GetKind(), all[i].GetName(), all[i].file, all[j].file)
		}
		require.True(t, own, "%s %s of %s selects no Pods of its file", all[i].GetKind(), all[i].GetName(), all[i].file)
	}
}
