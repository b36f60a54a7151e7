package statefulset

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/harness"
)

const (
	keep = v1beta1.RetainPersistentVolumeClaimRetentionPolicyType
	drop = v1beta1.DeletePersistentVolumeClaimRetentionPolicyType
)

// claims are those that are not being deleted, by name.
func (e *env) claims() map[string]*corev1.PersistentVolumeClaim {
	e.Helper()
	list, err := cluster.Kube.CoreV1().PersistentVolumeClaims(e.namespace).List(e.Context(), metav1.ListOptions{})
	require.NoError(e, err)
	out := map[string]*corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		if c := &list.Items[i]; c.DeletionTimestamp == nil {
			out[c.Name] = c
		}
	}
	return out
}

// leaves waits until exactly these claims are left.
func (e *env) leaves(names ...string) {
	e.Helper()
	harness.Eventually(e, fmt.Sprintf("claims %v", names), harness.Patience, func(context.Context) error {
		claims := e.claims()
		for _, n := range names {
			if claims[n] == nil {
				return fmt.Errorf("%s is gone", n)
			}
		}
		if len(claims) != len(names) {
			return fmt.Errorf("there are %d claims", len(claims))
		}
		return nil
	})
}

func (e *env) deleteSet() {
	e.Helper()
	require.NoError(e, e.sets().Delete(e.Context(), setName, metav1.DeleteOptions{}))
	harness.Eventually(e, "no Pod", harness.Patience, func(context.Context) error {
		if n := len(e.pods()); n > 0 {
			return fmt.Errorf("%d Pods", n)
		}
		return nil
	})
}

func TestScenario093_ClaimsGoWithTheSetIfTheyAreTo(t *testing.T) {
	t.Run("Delete", func(t *testing.T) {
		e := newRunningEnv(t)
		set := e.create(newSet(2, parallel, claims("1Gi", "data"), retain(drop, keep)))
		e.settled("0:a 1:a")
		for _, c := range e.claims() {
			require.Equal(t, []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "web", UID: set.UID}}, c.OwnerReferences)
		}
		e.deleteSet()
		e.leaves()
	})
	t.Run("Retain", func(t *testing.T) {
		e := newRunningEnv(t)
		e.create(newSet(2, parallel, claims("1Gi", "data")))
		e.settled("0:a 1:a")
		e.deleteSet()
		e.leaves("data-web-0", "data-web-1")
	})
}

func TestScenario094_ClaimsGoWithTheirOrdinal(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3, claims("1Gi", "data"), retain(keep, drop)))
	e.settled("0:a 1:a 2:a")
	before := e.claims()["data-web-2"].UID
	e.edit(replicas(1))
	e.settled("0:a")
	e.leaves("data-web-0")
	e.edit(replicas(3))
	e.settled("0:a 1:a 2:a")
	require.NotEqual(t, before, e.claims()["data-web-2"].UID)
}

func TestScenario098_ClaimsGrowOneAfterTheOtherAndNoPodRestarts(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3, parallel, claims("1Gi", "data"), func(set *v1beta1.StatefulSet) {
		set.Spec.VolumeClaimUpdateStrategy.Type = v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
	}))
	e.settled("0:a 1:a 2:a")
	before := e.active()
	// The highest one does not get its storage, so the others must wait.

	e.patchClaim("data-web-2", `{"metadata":{"annotations":{"sim.flotilla.io/expansion":"stuck"}}}`)
	e.edit(claims("20Gi", "data"))
	grown := func(compatible, ready int32) {
		t.Helper()
		e.until(fmt.Sprintf("%d claims that ask, %d that have", compatible, ready), func(s *v1beta1.StatefulSet) bool {
			v := s.Status.VolumeClaims
			return len(v) == 1 && v[0].VolumeClaimName == "data" && v[0].CompatibleReplicas == compatible && v[0].CompatibleReadyReplicas == ready
		})
	}
	grown(1, 0)
	c := e.claims()["data-web-2"]
	require.Equal(t, "20Gi", c.Spec.Resources.Requests.Storage().String())
	require.Equal(t, "web", c.Annotations["apps.kruise.io/owned-by-asts"])
	e.patchClaim("data-web-2", `{"metadata":{"annotations":{"sim.flotilla.io/expansion":null}}}`)
	grown(3, 3)
	for name, c := range e.claims() {
		require.Equal(t, "20Gi", c.Status.Capacity.Storage().String(), name)
	}
	after := e.active()
	require.Equal(t, uids(before), uids(after))
	for _, p := range after {
		require.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	}
}

func (e *env) patchClaim(name, patch string) {
	e.Helper()
	_, err := cluster.Kube.CoreV1().PersistentVolumeClaims(e.namespace).Patch(e.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(e, err)
}

func TestScenario105_AClaimTemplateThatIsAddedReachesThePodsOneByOne(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3, claims("1Gi", "data")))
	e.settled("0:a 1:a 2:a")
	data := e.claims()
	e.keepsReady(2)
	e.edit(claims("1Gi", "logs"))
	e.until("the new claims", func(s *v1beta1.StatefulSet) bool {
		v := s.Status.VolumeClaims
		return len(v) == 2 && v[1].CompatibleReadyReplicas == 3 && s.Status.UpdatedAvailableReplicas == 3
	})
	for name, c := range data {
		require.Equal(t, c.UID, e.claims()[name].UID)
	}
	for _, p := range e.active() {
		require.Equal(t, "data", p.Spec.Volumes[0].Name)
		require.Equal(t, "logs-"+p.Name, p.Spec.Volumes[1].PersistentVolumeClaim.ClaimName)
	}
}
