package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

func TestCountsAreDrawnBesideTheSpecThatTheyAreOf(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, rows: map[string]string{}}
	set := v1beta1.CloneSet{}
	set.Name, set.Generation, set.Spec.Replicas = "web", 1, ptr.To(int32(10))
	draw := func(image string) string {
		out.Reset()
		set.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
		s.draw([]v1beta1.CloneSet{set})
		return out.String()
	}
	require.NotContains(t, draw("a"), "web", "its controller has not seen it")
	set.Status.ObservedGeneration, set.Status.UpdatedAvailableReplicas = 1, 10
	require.Contains(t, draw("a"), strings.Repeat("#", 10))
	set.Generation = 2
	require.Empty(t, draw("b"), "the counts are those of the image before")
	set.Status.ObservedGeneration, set.Status.UpdatedAvailableReplicas = 2, 0
	require.Regexp(t, `web +\[ +\].* b\n`, draw("b"))
}
