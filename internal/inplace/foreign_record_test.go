package inplace

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// A record that others have written may not say which container ran before: its image tells.
func TestAnUpdateIsNotCompletedByARecordWithoutTheContainer(t *testing.T) {
	p := livePod()
	p.Spec.Containers[0].Image = "b"
	p.Status.ObservedGeneration = p.Generation
	p.Labels[pub.LifecycleStateKey] = string(pub.LifecycleStateUpdating)
	p.Annotations = map[string]string{pub.InPlaceUpdateStateKey: `{"revision":"web-B","updateTimestamp":"2030-01-01T11:00:00Z",` +
		`"updateImages":true,"lastContainerStatuses":{"main":{"imageID":"id-a"}}}`}
	require.False(t, IsCompleted(p))
}
