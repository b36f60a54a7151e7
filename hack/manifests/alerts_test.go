package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	flotilla "github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned/fake"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/certs"
	"github.com/flotilla-k8s/flotilla/internal/cloneset"
	"github.com/flotilla-k8s/flotilla/internal/statefulset"
	"github.com/flotilla-k8s/flotilla/internal/webhook"
)

// described are the metrics that the processes register, each with its labels.
func described(t *testing.T) map[string]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	env := &app.Env{
		Kube: fake.NewClientset(), Flotilla: flotilla.NewClientset(), Extensions: apiextensions.NewClientset(),
		Clock: clock.RealClock{}, Metrics: registry, WatchFailed: cache.DefaultWatchErrorHandler,
	}
	_, err := webhook.New(env, *webhook.DefaultOptions())
	require.NoError(t, err)
	_, err = certs.DefaultOptions().New(env)
	require.NoError(t, err)
	_, err = new(cloneset.Options).New(env)
	require.NoError(t, err)
	_, err = statefulset.New(env)
	require.NoError(t, err)
	descriptions := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descriptions)
		close(descriptions)
	}()
	out := map[string]string{}
	parts := regexp.MustCompile(`fqName: "(.*?)".*variableLabels: \{(.*?)\}`)
	for d := range descriptions {
		found := parts.FindStringSubmatch(d.String())
		require.NotNil(t, found, d.String())
		out[found[1]] = found[2]
	}
	return out
}

// TestAlertsAskForMetricsThatExist also looks at the labels that they select by. Their syntax is checked in hack/rules.
func TestAlertsAskForMetricsThatExist(t *testing.T) {
	raw, err := os.ReadFile("../../deploy/alerts/flotilla.yaml")
	require.NoError(t, err)
	metrics := described(t)
	selectors := regexp.MustCompile(`(flotilla_[a-z_]+)(?:\{([a-z]+)=)?`).FindAllStringSubmatch(string(raw), -1)
	require.Greater(t, len(selectors), 10)
	for _, s := range selectors {
		labels, there := metrics[strings.TrimSuffix(s[1], "_bucket")]
		require.True(t, there, "there is no metric %s", s[1])
		if s[2] != "" {
			require.Contains(t, strings.Split(labels, ","), s[2], "label of %s", s[1])
		}
	}
}
