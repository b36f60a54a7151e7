package cloneset

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

func TestHealthMetricsAndProfilesAreServed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	health, metrics, profiles := harness.FreeAddress(t), harness.FreeAddress(t), harness.FreeAddress(t)
	cluster.StartController(t, "cloneset-controller", e.namespace,
		"--health-probe-bind-address="+health, "--metrics-bind-address="+metrics, "--pprof-bind-address="+profiles)
	harness.Eventually(t, "readiness", harness.Patience, func(ctx context.Context) error {
		_, err := localcluster.Get(ctx, "http://"+health+"/readyz")
		return err
	})
	_, err := localcluster.Get(t.Context(), "http://"+health+"/livez")
	require.NoError(t, err)
	_, err = localcluster.Get(t.Context(), "http://"+profiles+"/debug/pprof/heap")
	require.NoError(t, err)
	e.create(newSet(2))
	e.available(2)
	text, err := localcluster.Get(t.Context(), "http://"+metrics+"/metrics")
	require.NoError(t, err)
	for _, name := range []string{
		`flotilla_cloneset_pods_created_total 2`, `flotilla_cloneset_writes_total{kind="Pod",verb="create"} 2`,
		`flotilla_cloneset_sync_duration_seconds_count`, `flotilla_cloneset_replicas{name="web",namespace="` + e.namespace + `"} 2`,
		`flotilla_cloneset_replicas_unavailable{`, `flotilla_cloneset_replicas_updated_available{`, `flotilla_cloneset_replicas_updated_wanted{`,
		`flotilla_cloneset_syncs_total{result="waiting"}`, `flotilla_cloneset_syncs_total{result="ok"}`, `workqueue_depth{name="cloneset"`,
		`rest_client_requests_total{`, `informer_`, `kubernetes_build_info{`,
	} {
		require.Contains(t, text, name)
	}
}
