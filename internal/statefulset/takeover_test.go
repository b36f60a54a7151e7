package statefulset

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
)

func TestTakingOverARunningClusterChangesNoPod(t *testing.T) {
	f := newFixture(t)
	sets := f.TakeOver("StatefulSet", func(ctx context.Context, name cache.ObjectName) (time.Duration, error) {
		return f.controller.sync(ctx, name)
	})
	require.Len(t, sets, 2)
	half, whole := sets[0].Status, sets[1].Status
	require.Equal(t, []string{"db-5865fbbbb8", "db-6fdf7f7487"}, []string{half.CurrentRevision, half.UpdateRevision})
	require.Equal(t, []int32{4, 1, 3}, []int32{half.AvailableReplicas, half.CurrentReplicas, half.UpdatedReplicas})
	require.Equal(t, whole.CurrentRevision, whole.UpdateRevision)
}
