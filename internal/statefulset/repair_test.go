package statefulset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestRepairsAreTold(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate("data", "1"))
	f.EditPod(name(1), func(p *corev1.Pod) { delete(p.Labels, "statefulset.kubernetes.io/pod-name") })
	f.Edit(retain("Delete", "Retain"))
	f.Events = nil
	f.Rest()
	require.Equal(t, name(1), f.Pod(name(1)).Labels["statefulset.kubernetes.io/pod-name"])
	told := strings.Join(f.Events, "\n")
	require.Equal(t, 1, strings.Count(told, "Normal SuccessfulUpdate labelled Pod web-1"), told)
	require.Equal(t, 2, strings.Count(told, "Normal SuccessfulUpdate changed the owners of claim data-web-"), told)
}
