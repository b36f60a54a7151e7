package webhook

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// applied applies a manifest and returns the objects as they were answered, without what is different every time.
func (l *lab) applied(manifest string, args ...string) []unstructured.Unstructured {
	l.Helper()
	out := l.works(manifest, append([]string{"apply", "-f", "-", "-o", "json"}, args...)...)
	// Warnings may come before.
	out = out[strings.Index(out, "{"):]
	var list unstructured.UnstructuredList
	if o := (&unstructured.Unstructured{}); json.Unmarshal([]byte(out), &o.Object) == nil && !o.IsList() {
		list.Items = []unstructured.Unstructured{*o}
	} else {
		require.NoError(l, list.UnmarshalJSON([]byte(out)), out)
	}
	for i := range list.Items {
		for _, member := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
			unstructured.RemoveNestedField(list.Items[i].Object, "metadata", member)
		}
	}
	return list.Items
}

// counts are what the server has counted of hooks since, but not of conversions: what is stored is converted for others, too. Nor
// of reads: its own watches begin anew at any moment.
func (l *lab) counts(since map[string]int) map[string]int {
	l.Helper()
	out := map[string]int{}
	for series, n := range l.measured() {
		others := slices.ContainsFunc([]string{"convert", "conversion", `method="GET"`, `verb="GET"`}, func(s string) bool { return strings.Contains(series, s) })
		if strings.Contains(series, "_total{") && !others && n != since[series] {
			out[series] = n - since[series]
		}
	}
	return out
}

// TestScenario051_ADryRunSaysWhatWouldBeStored is about every example.
func TestScenario051_ADryRunSaysWhatWouldBeStored(t *testing.T) {
	l := newLab(t)
	l.admit()
	files, err := filepath.Glob(filepath.Join(cluster.Root, "examples", "*", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			l := *l
			l.T = t
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			start := l.measured()
			tried := l.applied(string(raw), "--dry-run=server")
			byTrial := l.counts(start)
			for i := range tried {
				if resource := strings.ToLower(tried[i].GetKind()) + "s"; strings.HasPrefix(tried[i].GetAPIVersion(), "apps.kruise.io/") {
					_, err := l.of(resource, "v1beta1").Get(t.Context(), tried[i].GetName(), metav1.GetOptions{})
					require.True(t, apierrors.IsNotFound(err), "%v", err)
				}
			}
			start = l.measured()
			stored := l.applied(string(raw))
			require.Equal(t, stored, tried)
			require.Equal(t, l.counts(start), byTrial, "what is counted is the same")
			require.NotEmpty(t, byTrial)
		})
	}
}
