package cloneset

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

func TestTakingOverARunningClusterChangesNoPod(t *testing.T) {
	f := newFixture(t)
	sets := f.TakeOver("CloneSet", func(ctx context.Context, name cache.ObjectName) (time.Duration, error) {
		return f.controller.sync(ctx, name)
	})
	require.Len(t, sets, 5)
	for _, set := range sets {
		for _, c := range set.Status.Conditions {
			if c.Type == v1beta1.CloneSetConditionFailedUpdate {
				require.Equal(t, corev1.ConditionFalse, c.Status, "a stale failure is cleared")
			}
		}
	}
}
