package history

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestATemplateIsEncodedOncePerGeneration(t *testing.T) {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "a"}}
	owner := &Owner{UID: "x", Generation: 1, Template: template}
	var m Memory
	first, err := m.encode(owner)
	require.NoError(t, err)
	template.Spec.NodeName = "b"
	same, err := m.encode(owner)
	require.NoError(t, err)
	require.Equal(t, first, same)

	for name, other := range map[string]Owner{
		"another generation":   {UID: "x", Generation: 2, Template: template},
		"another owner":        {UID: "y", Generation: 1, Template: template},
		"no generation at all": {UID: "x", Template: template},
	} {
		data, err := m.encode(&other)
		require.NoError(t, err)
		require.NotEqual(t, first, data, name)
	}
	m.Forget("x")
	m.Forget("y")
	require.Empty(t, m.of)
}
