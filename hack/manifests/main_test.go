package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryBinaryIsDeployed: who adds a process adds its folder to the chart, from which the bases are made.
func TestEveryBinaryIsDeployed(t *testing.T) {
	binaries, err := os.ReadDir("../../cmd")
	require.NoError(t, err)
	require.NotEmpty(t, binaries)
	for _, b := range binaries {
		component := b.Name()
		if component == "cert-manager" {
			component = "cert-rotator"
		}
		require.DirExists(t, filepath.Join("../../deploy/chart/flotilla/templates", component), "the chart lacks %s", component)
	}
}

// TestABaseWithoutTemplatesIsNoticed: rights that are written by hand into a base would be in no chart.
func TestABaseWithoutTemplatesIsNoticed(t *testing.T) {
	rights, err := filepath.Glob("../../deploy/*/rbac.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, rights)
	for _, file := range rights {
		component := filepath.Base(filepath.Dir(file))
		require.FileExists(t, filepath.Join("../../deploy/chart/flotilla/templates", component, "rbac.yaml"))
	}
}
