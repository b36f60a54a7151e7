package revision

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/takeover"
)

func read[T any](t *testing.T, list string) []T {
	t.Helper()
	objects, err := takeover.Read[T](list)
	require.NoError(t, err)
	return objects
}

// The objects that are read were written by another implementation of this API.

func TestRevisionsOfAnotherImplementationHaveTheirNames(t *testing.T) {
	n := 0
	for _, r := range read[appsv1.ControllerRevision](t, takeover.Revisions) {
		if metav1.GetControllerOf(&r).Kind != "CloneSet" {
			continue
		}
		n++
		owner := metav1.GetControllerOf(&r).Name
		require.Equal(t, r.Name, Name(owner, Hash(r.Data.Raw, 0)))
		require.Equal(t, r.Labels[pub.ControllerHashKey], Hash(r.Data.Raw, 0))
	}
	require.Positive(t, n)
}

func TestCloneSetsOfAnotherImplementationEncodeToTheirRevision(t *testing.T) {
	revisions := read[appsv1.ControllerRevision](t, takeover.Revisions)
	n := 0
	for _, set := range read[v1beta1.CloneSet](t, takeover.Owners) {
		if set.Kind != "CloneSet" {
			continue
		}
		n++
		stored := set.Spec.VolumeClaimTemplates
		hash, err := ClaimTemplatesHash(stored)
		require.NoError(t, err)
		v1beta1.SetDefaults_CloneSet(&set)
		data, err := Encode(&set.Spec.Template)
		require.NoError(t, err)
		require.Equal(t, set.Status.UpdateRevision, Name(set.Name, Hash(data, 0)), "the template of %s encodes to other bytes", set.Name)
		for _, r := range revisions {
			if r.Name == set.Status.UpdateRevision {
				require.Equal(t, string(r.Data.Raw), string(data))
				require.Equal(t, r.Annotations[pub.CloneSetVolumeClaimTemplateHashKey], hash)
			}
		}
	}
	require.Equal(t, 5, n)
}

func TestRevisionsAreComparedByMeaning(t *testing.T) {
	template := &corev1.PodTemplateSpec{}
	template.Spec.Containers = []corev1.Container{{Name: "main", Image: "a"}}
	data, err := Encode(template)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		from, to string
		equal    bool
	}{
		"the null that old libraries write": {`"creationTimestamp":null`, `"labels":{}`, true},
		"a default that is spelled out":     {`"name":"main"`, `"name":"main","imagePullPolicy":"Always"`, true},
		"an empty list":                     {`"name":"main"`, `"name":"main","env":[]`, true},
		"another image":                     {`"image":"a"`, `"image":"b"`, false},
		"another policy than the default":   {`"name":"main"`, `"name":"main","imagePullPolicy":"Never"`, false},
		"a quantity that is spelled otherwise": {
			`"resources":{}`, `"resources":{}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			other := strings.Replace(string(data), c.from, c.to, 1)
			require.Equal(t, c.equal, Equal(data, []byte(other)), other)
		})
	}
	thousand := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1000m"}}}]}}}}`)
	one := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":1}}}]}}}}`)
	require.True(t, Equal(thousand, one))
	require.False(t, Equal(thousand, []byte("no JSON")))
}

func TestNamesAreCut(t *testing.T) {
	require.Equal(t, strings.Repeat("a", 223)+"-h", Name(strings.Repeat("a", 300), "h"))
	require.Equal(t, "web-5d6448d95b", LabelValue("web-5d6448d95b"))
	require.Equal(t, "5d6448d95b", LabelValue(strings.Repeat("a", 60)+"-5d6448d95b"))
}

func TestSurplusSparesWhatLives(t *testing.T) {
	var list []*appsv1.ControllerRevision
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		list = append(list, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}, Revision: int64(len(list) + 1)})
	}
	live := func(r *appsv1.ControllerRevision) bool { return r.Name == "a" || r.Name == "e" }
	surplus := Surplus(Sort(list), live, 2)
	require.Len(t, surplus, 1)
	require.Equal(t, "b", surplus[0].Name)
	require.Empty(t, Surplus(list, live, 3))
	require.Len(t, Surplus(list, live, -1), 3)
}
