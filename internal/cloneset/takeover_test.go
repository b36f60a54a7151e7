package cloneset

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

func read[T any](t *testing.T, name string) []T {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	var list struct{ Items []T }
	require.NoError(t, yaml.Unmarshal(raw, &list))
	return list.Items
}

// TestTakingOverARunningClusterChangesNoPod starts on what another implementation of this API left in the middle of its
// work: rollouts half done, sidecars injected, claims bound.
func TestTakingOverARunningClusterChangesNoPod(t *testing.T) {
	f := newFixture(t)
	for _, r := range read[appsv1.ControllerRevision](t, "revisions.yaml") {
		f.Put(resourceRevisions, &r)
	}
	for _, p := range read[corev1.Pod](t, "pods.yaml") {
		f.Put(resourcePods, &p)
	}
	for _, c := range read[corev1.PersistentVolumeClaim](t, "pvcs.yaml") {
		f.Put(resourceClaims, &c)
	}
	var names []cache.ObjectName
	for _, set := range read[v1beta1.CloneSet](t, "owners.yaml") {
		if set.Kind == "CloneSet" {
			f.Put(resourceSets, &set)
			names = append(names, cache.MetaObjectToName(&set))
		}
	}
	require.Len(t, names, 5)
	f.Restart()
	for range 3 {
		for _, name := range names {
			f.ShowAll()
			_, err := f.controller.sync(context.Background(), name)
			require.NoError(t, err)
		}
	}
	require.Equal(t, map[string]int{"patch/status clonesets": len(names)}, f.Writes, "one status each, and nothing else")
	for _, name := range names {
		set := f.Objects[resourceSets][name.String()].(*v1beta1.CloneSet)
		for _, c := range set.Status.Conditions {
			if c.Type == v1beta1.CloneSetConditionFailedUpdate {
				require.Equal(t, corev1.ConditionFalse, c.Status, "a stale failure is cleared")
			}
		}
	}
}
