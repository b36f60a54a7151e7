package statefulset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/harness"
)

func TestKilledDuringRolloutKeepsTheBudget(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const replicas, down = 12, 3
	warm := cluster.StartController(t, controller, e.namespace)
	e.create(newSet(replicas, parallel, unavailable(down)))
	e.until("all available", func(s *v1beta1.StatefulSet) bool { return s.Status.AvailableReplicas == replicas })
	warm.Kill()
	e.keepsReady(replicas - down)
	e.edit(image("b"))
	cluster.KillUntil(t, controller, e.namespace, "an updated set", func(ctx context.Context) error {
		set, err := e.sets().Get(ctx, setName, metav1.GetOptions{})
		if err == nil && (set.Status.ObservedGeneration != set.Generation || set.Status.UpdatedAvailableReplicas != replicas) {
			err = fmt.Errorf("status %+v", set.Status)
		}
		return err
	})
	require.Len(t, e.active(), replicas)
	require.Equal(t, replicas, strings.Count(e.state(), ":b"))
}

// TestEachControllerWorksWhileTheOtherIsDead runs both kinds in one namespace.
func TestEachControllerWorksWhileTheOtherIsDead(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const other = "cloneset-controller"
	processes := map[string]interface{ Kill() }{
		controller: cluster.StartController(t, controller, e.namespace),
		other:      cluster.StartController(t, other, e.namespace),
	}
	clones := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace)
	labels := map[string]string{"app": "clones"}
	_, err := clones.Create(t.Context(), &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Name: "clones"},
		Spec: v1beta1.CloneSetSpec{
			Replicas: ptr.To(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: registry + "a"}}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	e.create(newSet(3, parallel))

	podsOf := func(app string) map[types.UID]string {
		list, err := cluster.Kube.CoreV1().Pods(e.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
		require.NoError(t, err)
		out := map[types.UID]string{}
		for _, p := range list.Items {
			out[p.UID] = tag(&p) + " " + p.ResourceVersion
		}
		return out
	}
	updated := func(app, to string) {
		t.Helper()
		harness.Eventually(t, app+" at "+to, harness.Patience, func(ctx context.Context) error {
			ready := 0
			if app == "clones" {
				set, err := clones.Get(ctx, app, metav1.GetOptions{})
				if err != nil {
					return err
				}
				ready = int(set.Status.UpdatedAvailableReplicas)
			} else {
				set, err := e.sets().Get(ctx, app, metav1.GetOptions{})
				if err != nil {
					return err
				}
				ready = int(set.Status.UpdatedAvailableReplicas)
			}
			pods := slices.Collect(maps.Values(podsOf(app)))
			if ready != 3 || len(pods) != 3 || slices.ContainsFunc(pods, func(p string) bool { return !strings.HasPrefix(p, to+" ") }) {
				return fmt.Errorf("%d are updated and available, Pods %v", ready, pods)
			}
			return nil
		})
	}
	setImage := func(to string) {
		t.Helper()
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, registry+to)
		_, err := clones.Patch(t.Context(), "clones", types.JSONPatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
		e.edit(image(to))
	}
	updated("clones", "a")
	updated(setName, "a")

	for _, step := range []struct{ killed, idle, busy, image string }{
		{other, "clones", setName, "b"},
		{controller, setName, "clones", "c"},
	} {
		processes[step.killed].Kill()
		idle := podsOf(step.idle)
		setImage(step.image)
		updated(step.busy, step.image)
		require.Equal(t, idle, podsOf(step.idle), "nobody works for %s", step.killed)
		busy := podsOf(step.busy)
		processes[step.killed] = cluster.StartController(t, step.killed, e.namespace)
		updated(step.idle, step.image)
		require.Equal(t, busy, podsOf(step.busy), "%s comes back and touches its own alone", step.killed)
	}
}
