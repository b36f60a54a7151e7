package statefulset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKubectlGetShowsTheColumns(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(2))
	e.settled("0:a 1:a")
	out, err := cluster.Kubectl("get", "asts", "-n", e.namespace, "-o", "wide")
	require.NoError(t, err, out)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2)
	require.Equal(t, []string{"NAME", "DESIRED", "CURRENT", "UPDATED", "READY", "AGE", "CONTAINERS", "IMAGES"}, strings.Fields(lines[0]))
	row := strings.Fields(lines[1])
	require.Equal(t, []string{"web", "2", "2", "2", "2"}, row[:5])
	require.Equal(t, []string{"main", registry + "a"}, row[6:])
}

func TestEveryExampleRolls(t *testing.T) {
	e := newRunningEnv(t)
	cluster.ApplyExamples(t, e.namespace, "statefulset", "statefulsets.apps.kruise.io")
}
