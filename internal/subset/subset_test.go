package subset

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

func TestSharesAreRoundedHalfUp(t *testing.T) {
	for _, c := range []struct {
		q     string
		total int32
		want  int64
	}{
		{"50%", 5, 3}, {"25%", 10, 3}, {"24%", 10, 2}, {"33%", 7, 2}, {"5%", 30, 2}, {"50%", 1, 1}, {"49%", 1, 0},
		{"+5%", 100, 5}, {"007%", 100, 7}, {"100%", 2147483647, 2147483647}, {"0%", 9, 0}, {"12", 1, 12},
	} {
		got, err := Resolve(intstr.Parse(c.q), c.total)
		require.NoError(t, err, c.q)
		require.Equal(t, c.want, got, "%s of %d", c.q, c.total)
	}
	for _, bad := range []intstr.IntOrString{
		intstr.FromString("101%"), intstr.FromString("-1%"), intstr.FromString("5"), intstr.FromString("1.5%"), intstr.FromString("%"), intstr.FromString(""), intstr.FromInt32(-1),
	} {
		_, err := Resolve(bad, 10)
		require.Error(t, err, bad.String())
	}
}

func TestWhatASubsetMakesOfTheTemplate(t *testing.T) {
	for name, c := range map[string]struct{ template, subset, want string }{
		"labels alone": {
			`{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"main"}]}}`, `{"name":"a"}`,
			`{"metadata":{"labels":{"app":"x","apps.kruise.io/subset-name":"a","apps.kruise.io/controller-revision-hash":"r"}},"spec":{"containers":[{"name":"main","resources":{}}]}}`,
		},
		"a term without others, and fields": {
			`{"spec":{"containers":null,"tolerations":[{"key":"mine"}]}}`,
			`{"name":"a","nodeSelectorTerm":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]},"tolerations":[{"key":"also"}],"patch":{}}`,
			`{"metadata":{"labels":{"apps.kruise.io/subset-name":"a","apps.kruise.io/controller-revision-hash":"r"}},"spec":{"containers":null,"tolerations":[{"key":"mine"},{"key":"also"}],
				"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}}}}`,
		},
		"every term that is there, and a patch with the last word": {
			`{"spec":{"containers":[{"name":"main","image":"a"},{"name":"side","image":"b"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
				{"matchExpressions":[{"key":"a","operator":"Exists"}]},{"matchExpressions":[{"key":"b","operator":"Exists"}]}]}}}}}`,
			`{"name":"a","nodeSelectorTerm":{"matchExpressions":[{"key":"z","operator":"Exists"}]},"patch":{"metadata":{"annotations":{"x":"y"}},"spec":{"containers":[{"name":"side","image":"c"}]}}}`,
			`{"metadata":{"annotations":{"x":"y"},"labels":{"apps.kruise.io/subset-name":"a","apps.kruise.io/controller-revision-hash":"r"}},
				"spec":{"containers":[{"name":"main","image":"a","resources":{}},{"name":"side","image":"c","resources":{}}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
				{"matchExpressions":[{"key":"a","operator":"Exists"},{"key":"z","operator":"Exists"}]},{"matchExpressions":[{"key":"b","operator":"Exists"},{"key":"z","operator":"Exists"}]}]}}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			template, s := &corev1.PodTemplateSpec{}, &v1beta1.Subset{}
			require.NoError(t, json.Unmarshal([]byte(c.template), template))
			require.NoError(t, json.Unmarshal([]byte(c.subset), s))
			before, unchanged := template.DeepCopy(), s.DeepCopy()
			got, err := PodTemplate(template, s, "r")
			require.NoError(t, err)
			raw, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(raw))
			require.Equal(t, before, template)
			require.Equal(t, unchanged, s)
		})
	}
	for _, bad := range []string{`[]`, `"x"`, `{"spec":5}`, `{"spec":{"containers":[{"image":"no name"}]}}`, `{"spec":{"terminationGracePeriodSeconds":"x"}}`} {
		s := &v1beta1.Subset{Name: "a"}
		s.Patch.Raw = []byte(bad)
		_, err := PodTemplate(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}, s, "r")
		require.Error(t, err, bad)
	}
}

func TestPatchesAreComparedByWhatTheySay(t *testing.T) {
	for _, same := range [][2]string{{"", "null"}, {"{}", " "}, {`{"a":1,"b":2}`, `{ "b":2, "a":1 }`}, {"{", "{"}} {
		require.True(t, SamePatch([]byte(same[0]), []byte(same[1])), same)
	}
	for _, other := range [][2]string{{"", `{"a":1}`}, {`{"a":1}`, `{"a":2}`}, {`{"a":[1,2]}`, `{"a":[2,1]}`}, {"{", "[1]"}} {
		require.False(t, SamePatch([]byte(other[0]), []byte(other[1])), other)
	}
}
