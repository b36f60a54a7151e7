package admission

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

func TestEveryMemberThatDoesNotFitIsNamed(t *testing.T) {
	object := []byte(`{"metadata":{"name":5,"labels":{"a/b":{}},"creationTimestamp":"yesterday"},"-":1,"":2,"future":[1],
		"spec":{"schedule":"* * * * *","paused":"yes","successfulJobsHistoryLimit":3000000000,"failedJobsHistoryLimit":1.5,
			"template":{"jobTemplate":{"metadata":[],"spec":{"template":{"spec":{"containers":[{},{"env":"none","command":["a",5]}]}}}},
				"imageListPullJobTemplate":{"spec":{"selector":{"names":[true],"matchLabels":"x"},"parallelism":{}}}}}}`)
	got := map[string]string{}
	for _, e := range misfits(object, reflect.TypeFor[v1beta1.AdvancedCronJob](), nil) {
		got[e.Field] = e.Detail
	}
	for field, detail := range map[string]string{"metadata.creationTimestamp": "parsing time", "spec.template.imageListPullJobTemplate.spec.parallelism": "must be a number or a string"} {
		require.Contains(t, got[field], detail, field)
		delete(got, field)
	}
	require.Equal(t, map[string]string{
		"metadata.name":                      "must be a string",
		"metadata.labels[a/b]":               "must be a string",
		"spec.paused":                        "must be true or false",
		"spec.successfulJobsHistoryLimit":    "must be a number in the range of int32",
		"spec.failedJobsHistoryLimit":        "must be a number in the range of int32",
		"spec.template.jobTemplate.metadata": "must be an object",
		"spec.template.jobTemplate.spec.template.spec.containers[1].env":        "must be a list",
		"spec.template.jobTemplate.spec.template.spec.containers[1].command[1]": "must be a string",
		"spec.template.imageListPullJobTemplate.spec.selector.names[0]":         "must be a string",
		"spec.template.imageListPullJobTemplate.spec.selector.matchLabels":      "must be an object",
	}, got)
	require.Empty(t, misfits([]byte(`{"matchLabels":null}`), reflect.TypeFor[metav1.LabelSelector](), nil))
}
