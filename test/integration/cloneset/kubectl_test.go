package cloneset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const manifest = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "registry.example/web:a"}]
`

func (e *env) kubectl(stdin string, args ...string) (string, error) {
	return cluster.KubectlInput(stdin, append([]string{"-n", e.namespace}, args...)...)
}

func TestKubectlGetShowsTheColumns(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(2))
	e.updated(2, 2)
	out, err := e.kubectl("", "get", "clonesets", "-o", "wide")
	require.NoError(t, err, out)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2)
	require.Equal(t, []string{"NAME", "DESIRED", "UPDATED", "UPDATED_READY", "UPDATED_AVAILABLE", "READY", "TOTAL", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"}, strings.Fields(lines[0]))
	row := strings.Fields(lines[1])
	require.Equal(t, []string{"web", "2", "2", "2", "2", "2", "2"}, row[:7])
	require.Equal(t, []string{"main", imageA, "app=web"}, row[8:])
	for _, category := range []string{"clone", "all", "kruise"} {
		out, err := e.kubectl("", "get", category)
		require.NoError(t, err, out)
		require.Contains(t, out, "web", "kubectl get %s", category)
	}
}

func TestKubectlExplainReachesIntoTheTemplate(t *testing.T) {
	for path, member := range map[string]string{
		"cloneset.spec.template.spec.containers":     "imagePullPolicy",
		"cloneset.spec.updateStrategy.rollingUpdate": "partition",
		"cloneset.status":                            "updatedReadyReplicas",
		"statefulset.spec.updateStrategy":            "rollingUpdate",
		"sidecarset.spec":                            "containers",
		"broadcastjob.spec":                          "completionPolicy",
		"advancedcronjob.spec":                       "schedule",
		"uniteddeployment.spec.topology":             "subsets",
	} {
		out, err := cluster.Kubectl("explain", "--api-version=apps.kruise.io/v1beta1", path)
		require.NoError(t, err, out)
		require.Contains(t, out, member, path)
	}
}

func TestTwoManagersApplyTwoContainersOfOneTemplate(t *testing.T) {
	e := newEnv(t)
	out, err := e.kubectl(manifest, "apply", "--server-side", "--field-manager=first", "-f", "-")
	require.NoError(t, err, out)
	second := `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    spec:
      containers: [{name: sidecar, image: "registry.example/sidecar:1", ports: [{containerPort: 80}]}]
`
	out, err = e.kubectl(second, "apply", "--server-side", "--field-manager=second", "-f", "-")
	require.NoError(t, err, out)
	set := e.get()
	require.Len(t, set.Spec.Template.Spec.Containers, 2)
	require.Equal(t, map[string]string{"app": "web"}, set.Spec.Template.Labels)

	// Applying again without the container takes it away from the one who owned it, and nothing else.
	out, err = e.kubectl(strings.Replace(manifest, "main, image", "other, image", 1), "apply", "--server-side", "--field-manager=first", "-f", "-")
	require.NoError(t, err, out)
	names := []string{}
	for _, c := range e.get().Spec.Template.Spec.Containers {
		names = append(names, c.Name)
	}
	require.ElementsMatch(t, []string{"sidecar", "other"}, names)
}

func TestFieldsNewerThanTheSchemaAreKept(t *testing.T) {
	e := newEnv(t)
	newer := strings.Replace(manifest, "containers: [{name: main,", "newPodField: {a: [1]}\n      containers: [{name: main, newContainerField: {b: true},", 1)
	out, err := e.kubectl(newer, "apply", "--validate=false", "-f", "-")
	require.NoError(t, err, out)
	out, err = e.kubectl("", "get", "cloneset", "web", "-o", "json")
	require.NoError(t, err, out)
	require.Contains(t, out, `"newPodField"`)
	require.Contains(t, out, `"newContainerField"`)
}

func TestScenario102And103_RefusalsNameTheField(t *testing.T) {
	for name, test := range map[string]struct {
		replace, with string
		field         string
	}{
		"replicas of the wrong type":          {"replicas: 1", "replicas: many", "spec.replicas"},
		"negative replicas":                   {"replicas: 1", "replicas: -1", "spec.replicas"},
		"no selector":                         {"selector: {matchLabels: {app: web}}", "", "spec.selector"},
		"an empty selector":                   {"selector: {matchLabels: {app: web}}", "selector: {}", "spec.selector"},
		"a selector beside the template":      {"selector: {matchLabels: {app: web}}", "selector: {matchLabels: {app: other}}", "spec"},
		"an unknown strategy":                 {"replicas: 1", "updateStrategy: {type: Sometimes}", "spec.updateStrategy.type"},
		"an unknown policy":                   {"replicas: 1", "updateStrategy: {rollingUpdate: {podUpdatePolicy: Maybe}}", "spec.updateStrategy.rollingUpdate.podUpdatePolicy"},
		"a partition that is no number":       {"replicas: 1", "updateStrategy: {rollingUpdate: {partition: abc}}", "spec.updateStrategy.rollingUpdate.partition"},
		"a partition without its percent":     {"replicas: 1", `updateStrategy: {rollingUpdate: {partition: "30"}}`, "spec.updateStrategy.rollingUpdate.partition"},
		"a negative partition":                {"replicas: 1", "updateStrategy: {rollingUpdate: {partition: -1}}", "spec.updateStrategy.rollingUpdate.partition"},
		"neither unavailable nor surge":       {"replicas: 1", "replicas: 1\n  updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 0}}", "maxUnavailable"},
		"surge where Pods are never replaced": {"replicas: 1", "updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly, maxSurge: 1}}", "maxSurge"},
		"Pods that do not restart":            {"spec:\n      containers", "spec:\n      restartPolicy: Never\n      containers", "restartPolicy"},
		"a name twice in podsToDelete":        {"replicas: 1", "scaleStrategy: {podsToDelete: [a, a]}", "podsToDelete"},
		"a deadline for Pods":                 {"spec:\n      containers", "spec:\n      activeDeadlineSeconds: 5\n      containers", "activeDeadlineSeconds"},
		"a scatter term twice":                {"replicas: 1", "updateStrategy: {rollingUpdate: {scatterStrategy: [{key: a, value: b}, {key: a, value: b}]}}", "scatterStrategy"},
		"a throttle that is no number":        {"replicas: 1", "scaleStrategy: {maxUnavailable: x}", "spec.scaleStrategy.maxUnavailable"},
		"a negative history":                  {"replicas: 1", "revisionHistoryLimit: -1", "spec.revisionHistoryLimit"},
		"a negative grace period":             {"replicas: 1", "updateStrategy: {rollingUpdate: {inPlaceUpdateStrategy: {gracePeriodSeconds: -1}}}", "gracePeriodSeconds"},
		"negative minReadySeconds":            {"replicas: 1", "minReadySeconds: -1", "spec.minReadySeconds"},
		"a weight above 100":                  {"replicas: 1", "updateStrategy: {rollingUpdate: {priorityStrategy: {weightPriority: [{weight: 101, matchSelector: {matchLabels: {a: b}}}]}}}", "weight"},
		"both kinds of priority":              {"replicas: 1", "updateStrategy: {rollingUpdate: {priorityStrategy: {orderPriority: [{orderedKey: x}], weightPriority: [{weight: 1, matchSelector: {matchLabels: {a: b}}}]}}}", "priorityStrategy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			bad := strings.Replace(manifest, test.replace, test.with, 1)
			require.NotEqual(t, manifest, bad)
			out, err := e.kubectl(bad, "apply", "-f", "-")
			require.Error(t, err, out)
			require.Contains(t, out, test.field)
		})
	}
}

func TestScenario102_WhatIsAllowedIsAccepted(t *testing.T) {
	for name, with := range map[string]string{
		"no Pods and no budget":           "replicas: 0\n  updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 0}}",
		"a percentage with a fraction":    `updateStrategy: {rollingUpdate: {partition: "33.3%"}}`,
		"another type with parameters":    "updateStrategy: {type: OnDelete, rollingUpdate: {partition: 2, podUpdatePolicy: InPlaceOnly}}",
		"names of Pods that there aren't": "scaleStrategy: {podsToDelete: [a, b]}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			out, err := e.kubectl(strings.Replace(manifest, "replicas: 1", with, 1), "apply", "-f", "-")
			require.NoError(t, err, out)
		})
	}
}

func TestTheSelectorIsImmutable(t *testing.T) {
	e := newEnv(t)
	e.create(newSet(1))
	_, err := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"spec":{"selector":{"matchLabels":{"app":"web","more":"x"}},"template":{"metadata":{"labels":{"more":"x"}}}}}`), metav1.PatchOptions{})
	require.ErrorContains(t, err, "selector")
}

func TestEveryExampleRolls(t *testing.T) {
	e := newRunningEnv(t)
	cluster.ApplyExamples(t, e.namespace, "cloneset", "clonesets")
}
