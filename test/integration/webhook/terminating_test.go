package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

const poison = `{"metadata":{"annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{\"spec\":{\"reserveOrdinals\":\"nope\"}}"}}}`

// No hook is called for what is being deleted, so that what no schema has seen can be stored by a carrier.
func TestAPoisonedObjectStopsNoOtherAndThePolicyLetsNoneBe(t *testing.T) {
	l := newLab(t, "statefulsets")
	l.terminating("stored")
	require.NoError(t, l.patchAlpha("stored", poison))
	o, err := l.of("statefulsets", "v1beta1").Get(t.Context(), "stored", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "nope", value(t, o, "spec", "reserveOrdinals"))

	cluster.StartController(t, "statefulset-controller", l.namespace)
	_, err = l.create(t, "statefulsets", "v1beta1", statefulSet("v1beta1", "web", map[string]any{"replicas": int64(1), "podManagementPolicy": "Parallel"}))
	require.NoError(t, err)
	// This one becomes unreadable while it is watched.
	l.terminating("watched")
	require.NoError(t, l.patchAlpha("watched", poison))
	_, err = l.of("statefulsets", "v1beta1").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	harness.Eventually(t, "Pods of the other set", harness.Patience, func(ctx context.Context) error {
		for _, name := range []string{"web-0", "web-1"} {
			if _, err := cluster.Kube.CoreV1().Pods(l.namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	for _, name := range []string{"stored", "watched"} {
		harness.Eventually(t, "an event about "+name, harness.Patience, func(ctx context.Context) error {
			list, err := cluster.Kube.CoreV1().Events(l.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=InvalidSpec,involvedObject.name=" + name})
			if err == nil && len(list.Items) == 0 {
				return errors.New("none")
			}
			return err
		})
	}

	cluster.InstallPolicy(t, "policies/carriers.yaml")
	l.terminating("guarded")
	attempts := 0
	harness.Eventually(t, "the policy", harness.Patience, func(context.Context) error {
		// What an attempt before has stored is no change.
		attempts++
		if err := l.patchAlpha("guarded", strings.Replace(poison, "nope", fmt.Sprint("nope", attempts), 1)); err == nil {
			return errors.New("the carrier was taken")
		}
		return nil
	})
	require.ErrorContains(t, l.patchAlpha("guarded", poison), "metadata.annotations: the object is being deleted")
	require.NoError(t, l.patchAlpha("guarded", `{"metadata":{"annotations":{"a":"b"}}}`), "what is no carrier may change")
	require.NoError(t, l.patchAlpha("watched", `{"metadata":{"annotations":{"apps.kruise.io/statefulset-v1beta1-fields":null}}}`), "a carrier may go")
	for _, name := range []string{"stored", "watched", "guarded"} {
		require.NoError(t, l.patchAlpha(name, `{"metadata":{"finalizers":null}}`), name)
	}
}

// terminating makes a set that is being deleted.
func (l *lab) terminating(name string) {
	l.Helper()
	set := statefulSet("v1beta1", name, map[string]any{"replicas": int64(0)})
	set.SetFinalizers([]string{"example.com/held"})
	_, err := l.create(l.T, "statefulsets", "v1beta1", set)
	require.NoError(l, err)
	require.NoError(l, l.of("statefulsets", "v1beta1").Delete(l.Context(), name, metav1.DeleteOptions{}))
}

func (l *lab) patchAlpha(name, patch string) error {
	_, err := l.of("statefulsets", "v1alpha1").Patch(l.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
