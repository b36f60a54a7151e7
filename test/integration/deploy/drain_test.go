package deploy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// TestScenario082_DrainingNodesFailsNoCall drains two of three nodes at once while the API server calls the hooks. Nodes are simulated; the
// processes of webhook-server and of the rotator are real.
func TestScenario082_DrainingNodesFailsNoCall(t *testing.T) {
	install(t, suite(t).folder(t))
	kubectl(t, "", "-n", system, "patch", "deployment", "webhook-server", "--type=merge",
		"-p", fmt.Sprintf(`{"spec":{"minReadySeconds":0,"template":{"spec":{"readinessGates":[{"conditionType":%q}]}}}}`, answers))
	backends := startBackends(t)
	require.NoError(t, cluster.CallHooksAt(backends.address()))
	run(t, kustomize(t), "cert-rotator", "cert-manager", "--health-probe-bind-address="+harness.FreeAddress(t), "--metrics-bind-address=0", "--pprof-bind-address=0")
	for name := range deployments {
		available(t, name)
	}
	calls := startCalls(t)
	stop := cluster.Observe(t, system, enoughAreReady)
	drained := []string{"node-0", "node-1"}
	var both sync.WaitGroup
	for _, node := range drained {
		t.Cleanup(func() { kubectlAfter(t, "uncordon", node) })
		both.Go(func() {
			if out, err := cluster.Kubectl("drain", node, "--timeout=110s"); err != nil {
				t.Errorf("draining %s: %v: %s", node, err, out)
			}
		})
	}
	both.Wait()
	for name := range deployments {
		available(t, name)
		require.Len(t, perNode(t, name), 1, "of %s", name)
	}
	require.NoError(t, stop())
	for _, node := range drained {
		require.NotContains(t, perNode(t, "webhook-server"), node)
	}
	backends.haveEnded(t, deployments["webhook-server"])
	n, failed := calls()
	require.NoError(t, failed)
	t.Logf("%d calls, none of which failed", n)
}

func enoughAreReady(all localcluster.Pods) error {
	ready := map[string]int{}
	for _, p := range all {
		if !pods.IsTerminating(p) && pods.IsReady(p) {
			ready[p.Labels["app.kubernetes.io/name"]]++
		}
	}
	for name, replicas := range deployments {
		if ready[name] < replicas-1 {
			return fmt.Errorf("%d of %d replicas of %s are ready", ready[name], replicas, name)
		}
	}
	return nil
}

// startCalls has the API server ask the hooks without end, from the first answer on.
func startCalls(t *testing.T) (stop func() (int64, error)) {
	t.Helper()
	sets := cluster.Flotilla.AppsV1beta1().CloneSets("default")
	ask := func(ctx context.Context) error {
		set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"}}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		set.Spec.Template.Labels = set.Spec.Selector.MatchLabels
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example/web:1"}}
		answer, err := sets.Create(ctx, set, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && ptr.Deref(answer.Spec.RevisionHistoryLimit, 0) == 0 {
			err = errors.New("nobody has filled in the defaults")
		}
		return err
	}
	harness.Eventually(t, "admission", harness.Patience, ask)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	const callers = 4
	var all sync.WaitGroup
	var n atomic.Int64
	failures := make(chan error, callers)
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := ask(ctx); err != nil && ctx.Err() == nil {
					failures <- err
					return
				}
				n.Add(1)
			}
		})
	}
	return func() (int64, error) {
		cancel()
		all.Wait()
		close(failures)
		return n.Load(), <-failures
	}
}
