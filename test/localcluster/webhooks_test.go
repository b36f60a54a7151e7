package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryWebhookIsCalledByURL(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(Root(), "deploy", "crds", "apps.kruise.io_*.yaml"))
	require.NoError(t, err)
	for _, f := range append(files, filepath.Join(Root(), "deploy", "webhooks", "webhooks.yaml")) {
		raw, err := os.ReadFile(f)
		require.NoError(t, err)
		before, after := string(raw), byURL(string(raw), "127.0.0.1:1")
		hooks := strings.Count(before, "name: flotilla-webhook\n")
		require.Equal(t, hooks, strings.Count(after, "url: https://127.0.0.1:1/"), f)
		require.NotContains(t, after, "name: flotilla-webhook\n")
		require.Equal(t, strings.Count(before, "\n")-4*hooks, strings.Count(after, "\n"), f)
	}
}
