package statefulset

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
	"github.com/flotilla-k8s/flotilla/test/takeover"
)

// TestTakingOverTouchesNothingAndGoesOn: a set half-way through its rollout, and one that was made in the older version.
func TestTakingOverTouchesNothingAndGoesOn(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.takeOver()
	before := e.untouched()
	cluster.StartController(t, controller, e.namespace)
	for _, name := range []string{"db", "db-v1alpha1"} {
		e.readySet(name, func(*v1beta1.StatefulSet) bool { return true })
	}
	harness.Consistently(t, "objects that are taken over", settleTime, func(context.Context) error {
		if now := e.untouched(); !slices.Equal(now, before) {
			return fmt.Errorf("they were %v and are %v", before, now)
		}
		return nil
	})

	pods := uids(e.pods())
	_, err := e.sets().Patch(t.Context(), "db", types.MergePatchType, []byte(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	e.readySet("db", func(s *v1beta1.StatefulSet) bool {
		return s.Status.CurrentRevision == "db-6fdf7f7487" && s.Status.UpdatedAvailableReplicas == 4
	})
	require.ElementsMatch(t, pods, uids(e.pods()), "what was updated in place stays the same Pod")
	for _, p := range e.pods() {
		if p.Labels["app"] == "db" {
			require.Equal(t, "nginx:1.21", p.Spec.Containers[0].Image)
		}
	}
}

// readySet waits until the controller has found the set in order, and done holds.
func (e *env) readySet(name string, done func(*v1beta1.StatefulSet) bool) {
	e.Helper()
	harness.Eventually(e, name+" in order", harness.Patience, func(ctx context.Context) error {
		set, err := e.sets().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, _ := condition(set, v1beta1.StatefulSetConditionReady)
		if set.Status.ObservedGeneration != set.Generation || status != corev1.ConditionTrue || !done(set) {
			return fmt.Errorf("status %+v", set.Status)
		}
		return nil
	})
}

// untouched are the versions of all objects that a controller could have changed.
func (e *env) untouched() []string {
	e.Helper()
	var out []string
	see := func(o metav1.Object) { out = append(out, o.GetName()+" "+o.GetResourceVersion()) }
	for _, p := range e.pods() {
		see(&p)
	}
	for _, c := range e.claims() {
		see(c)
	}
	revisions, err := cluster.Kube.AppsV1().ControllerRevisions(e.namespace).List(e.Context(), metav1.ListOptions{})
	require.NoError(e, err)
	for i := range revisions.Items {
		see(&revisions.Items[i])
	}
	slices.Sort(out)
	return out
}

// takeOver creates what the other implementation left: its sets, and what belongs to them.
func (e *env) takeOver() {
	e.Helper()
	owners := map[types.UID]types.UID{}
	for _, set := range read[v1beta1.StatefulSet](e, takeover.Owners) {
		if set.Kind != "StatefulSet" {
			continue
		}
		old, status := set.UID, set.Status
		fresh(&set.ObjectMeta)
		created := e.create(&set)
		owners[old] = created.UID
		created.Status = status
		created.Status.ObservedGeneration = created.Generation
		_, err := e.sets().UpdateStatus(e.Context(), created, metav1.UpdateOptions{})
		require.NoError(e, err)
	}
	for _, r := range read[appsv1.ControllerRevision](e, takeover.Revisions) {
		if adopt(&r.ObjectMeta, owners) {
			_, err := cluster.Kube.AppsV1().ControllerRevisions(e.namespace).Create(e.Context(), &r, metav1.CreateOptions{})
			require.NoError(e, err)
		}
	}
	for _, c := range read[corev1.PersistentVolumeClaim](e, takeover.Claims) {
		if c.Labels["app"] == "db" {
			// Another cluster, another volume.
			fresh(&c.ObjectMeta)
			c.Annotations, c.Spec.VolumeName = nil, ""
			_, err := cluster.Kube.CoreV1().PersistentVolumeClaims(e.namespace).Create(e.Context(), &c, metav1.CreateOptions{})
			require.NoError(e, err)
		}
	}
	for _, p := range read[corev1.Pod](e, takeover.Pods) {
		if adopt(&p.ObjectMeta, owners) {
			e.startPod(&p)
		}
	}
	harness.Eventually(e, "ready Pods", harness.Patience, func(context.Context) error {
		for _, p := range e.pods() {
			if !localcluster.IsReady(&p) {
				return fmt.Errorf("%s is not", p.Name)
			}
		}
		return nil
	})
}

// startPod makes a Pod that a node of this cluster runs. Its gates were answered by the other implementation.
func (e *env) startPod(p *corev1.Pod) {
	e.Helper()
	pods := cluster.Kube.CoreV1().Pods(e.namespace)
	p.Spec.NodeName = ""
	harness.Eventually(e, "Pod "+p.Name, harness.Patience, func(ctx context.Context) error {
		// The namespace's ServiceAccount may take a moment.
		_, err := pods.Create(ctx, p, metav1.CreateOptions{})
		return err
	})
	for _, gate := range p.Spec.ReadinessGates {
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":"True","lastTransitionTime":%q}]}}`, gate.ConditionType, "2026-01-01T00:00:00Z")
		_, err := pods.Patch(e.Context(), p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		require.NoError(e, err)
	}
}

// adopt makes an object one of the owners that were created; false if it belongs to none of them.
func adopt(o *metav1.ObjectMeta, owners map[types.UID]types.UID) bool {
	uid, ok := owners[o.OwnerReferences[0].UID]
	fresh(o)
	o.OwnerReferences[0].UID = uid
	return ok
}

// fresh drops what the other API server gave.
func fresh(o *metav1.ObjectMeta) {
	o.Namespace, o.UID, o.ResourceVersion, o.Generation, o.CreationTimestamp, o.ManagedFields = "", "", "", 0, metav1.Time{}, nil
}

func read[T any](e *env, list string) []T {
	e.Helper()
	objects, err := takeover.Read[T](list)
	require.NoError(e, err)
	return objects
}
