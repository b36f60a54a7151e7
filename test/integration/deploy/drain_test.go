package deploy

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// TestScenario082_DrainingNodesLeavesEnoughReplicas drains two of three nodes at once. That no call fails meanwhile takes real processes
// behind the Service.
func TestScenario082_DrainingNodesLeavesEnoughReplicas(t *testing.T) {
	install(t, suite(t).folder(t))
	for name := range deployments {
		available(t, name)
	}
	stop := cluster.Observe(t, system, func(all localcluster.Pods) error {
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
	})
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
}
