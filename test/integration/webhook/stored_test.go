package webhook

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// listed lists a kind through v1alpha1, by the watch cache and past it: one object that cannot be converted would hide all others.
func (l *lab) listed(kind string, names ...string) {
	l.Helper()
	for _, o := range []metav1.ListOptions{{Limit: 500}, {ResourceVersion: "0"}} {
		harness.Eventually(l, "a list", harness.Patience, func(ctx context.Context) error {
			list, err := l.of(kind, "v1alpha1").List(ctx, o)
			if err != nil {
				return err
			}
			var got []string
			for _, item := range list.Items {
				got = append(got, item.GetName())
			}
			require.Subset(l, got, names)
			return nil
		})
	}
}

// TestScenario027_WhateverGetsStoredIsListed has objects that pass the hooks, or that no hook is called for, and that are a burden to
// whoever takes them apart.
func TestScenario027_WhateverGetsStoredIsListed(t *testing.T) {
	deep := strings.Repeat("[", 1500) + strings.Repeat("]", 1500)
	all := newLab(t, "statefulsets", "advancedcronjobs", "clonesets")
	all.admit()
	cluster.InstallPolicy(t, "policies/carriers.yaml")
	in := func(t *testing.T) *lab {
		l := *all
		l.T = t
		return &l
	}

	t.Run("deep, as no hook is called for what is terminating", func(t *testing.T) {
		l := in(t)
		sets := l.of("statefulsets", "v1beta1")
		_, err := sets.Create(t.Context(), statefulSet("v1beta1", "innocent", nil), metav1.CreateOptions{})
		require.NoError(t, err)
		l.terminating("deep")
		_, err = sets.Patch(t.Context(), "deep", types.MergePatchType, []byte(`{"spec":{"template":{"future":`+deep+`}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		l.listed("statefulsets", "innocent", "deep")
		_, err = l.of("statefulsets", "v1alpha1").Patch(t.Context(), "deep", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	})

	t.Run("deep in a carrier", func(t *testing.T) {
		l := in(t)
		o := object("AdvancedCronJob", "v1alpha1", "deep", map[string]any{"schedule": "0 0 1 1 *", "template": map[string]any{}})
		o.SetAnnotations(map[string]string{"apps.kruise.io/advancedcronjob-v1beta1-fields": `{"spec":{"template":{"imageListPullJobTemplate":{"metadata":{"future":` + deep +
			`},"spec":{"images":["nginx"],"completionPolicy":{"type":"Always"}}}}}}`})
		_, err := l.of("advancedcronjobs", "v1alpha1").Create(t.Context(), o, metav1.CreateOptions{})
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "nested deeper")
		l.listed("advancedcronjobs")
	})

	t.Run("of a hundred thousand parts", func(t *testing.T) {
		l := in(t)
		const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
		parts := map[string]any{}
		for i := range 115_000 {
			parts[string([]byte{letters[i%62], letters[i/62%62], letters[i/62/62%62]})] = map[string]any{}
		}
		jobs := l.of("advancedcronjobs", "v1beta1")
		heavy := object("AdvancedCronJob", "v1beta1", "heavy", map[string]any{"schedule": "0 0 1 1 *", "template": map[string]any{"imageListPullJobTemplate": map[string]any{
			"metadata": map[string]any{"future": parts}, "spec": map[string]any{"images": []any{"nginx"}, "completionPolicy": map[string]any{"type": "Always"}},
		}}})
		// What is applied is stored a second time, by its fields.
		require.NoError(t, unstructured.SetNestedSlice(heavy.Object, []any{map[string]any{}}, "metadata", "managedFields"))
		_, err := jobs.Create(t.Context(), heavy, metav1.CreateOptions{})
		require.NoError(t, err)
		l.listed("advancedcronjobs", "heavy")
		_, err = l.of("advancedcronjobs", "v1alpha1").Patch(t.Context(), "heavy", types.MergePatchType, []byte(`{"spec":{"paused":true}}`), metav1.PatchOptions{})
		require.Error(t, err, "who cannot say all of it must not write it")
		is, err := jobs.Get(t.Context(), "heavy", metav1.GetOptions{})
		require.NoError(t, err)
		require.Len(t, value(t, is, "spec", "template", "imageListPullJobTemplate", "metadata", "future"), len(parts))
	})

	t.Run("without room for an annotation more", func(t *testing.T) {
		l := in(t)
		sets := l.of("clonesets", "v1beta1")
		set := cloneSet("v1beta1", map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{
			"podUpdatePolicy": "InPlaceIfPossible", "inPlaceUpdateStrategy": map[string]any{"imagePreDownloadParallelism": int64(5)},
		}}})
		set.SetAnnotations(map[string]string{"a": strings.Repeat("x", 256<<10-20)})
		_, err := sets.Create(t.Context(), set, metav1.CreateOptions{})
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "metadata.annotations")
		l.open()
		l.process.Kill()
		harness.Eventually(t, "an object that nobody has looked at", harness.Patience, func(ctx context.Context) error {
			_, err := sets.Create(ctx, set, metav1.CreateOptions{})
			return err
		})
		l.serve()
		l.isReady()
		l.listed("clonesets", "web")
	})
}
