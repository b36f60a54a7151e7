package rollout

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

func TestScaled(t *testing.T) {
	for _, c := range []struct {
		value    string
		total    int
		up, down int
	}{
		{"3", 10, 3, 3}, {"20%", 3, 1, 0}, {"20%", 5, 1, 1}, {"20%", 6, 2, 1}, {"33.3%", 10, 4, 3}, {"0%", 10, 0, 0}, {"150%", 4, 6, 6},
	} {
		value := intstr.Parse(c.value)
		up, err := Scaled(&value, c.total, 0, Up)
		require.NoError(t, err)
		down, err := Scaled(&value, c.total, 0, Down)
		require.NoError(t, err)
		require.Equal(t, []int{c.up, c.down}, []int{up, down}, "%s of %d", c.value, c.total)
	}
	absent, err := Scaled(nil, 10, 7, Up)
	require.NoError(t, err)
	require.Equal(t, 7, absent)
	for _, bad := range []string{"abc", "30", "-1%", "1.%", ".5%", "%", "1e3%", strings.Repeat("9", 40) + "%", "5 %"} {
		_, err := Scaled(&intstr.IntOrString{Type: intstr.String, StrVal: bad}, 10, 0, Up)
		require.Error(t, err, bad)
	}
	_, err = Scaled(&intstr.IntOrString{IntVal: -1}, 10, 0, Up)
	require.Error(t, err)
}

func TestPartition(t *testing.T) {
	for _, c := range []struct {
		value string
		total int
		want  int
	}{
		{"99%", 4, 3}, {"50%", 5, 3}, {"50%", 1, 1}, {"50%", 2, 1}, {"99%", 2, 1}, {"100%", 3, 3}, {"0%", 10, 0}, {"1%", 10, 1}, {"5", 3, 3}, {"150%", 4, 4},
	} {
		value := intstr.Parse(c.value)
		n, err := Partition(&value, c.total)
		require.NoError(t, err)
		require.Equal(t, c.want, n, "%s of %d", c.value, c.total)
	}
}

func numbered(n int, label func(i int) map[string]string) []*corev1.Pod {
	list := make([]*corev1.Pod, n)
	for i := range list {
		list[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i), Labels: label(i)}}
	}
	return list
}

func names(list []*corev1.Pod) string {
	var out []string
	for _, p := range list {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func TestScenarios70And71Scatter(t *testing.T) {
	from := func(first int) func(int) map[string]string {
		return func(i int) map[string]string {
			if i >= first {
				return map[string]string{"k": "v"}
			}
			return nil
		}
	}
	for _, c := range []struct {
		total, firstMatch int
		want              string
	}{
		{6, 4, "4 0 1 2 3 5"}, {6, 3, "3 0 1 4 2 5"}, {9, 6, "6 0 1 2 7 3 4 5 8"}, {6, 2, "2 3 0 4 1 5"}, {3, 2, "0 1 2"},
		{10, 7, "7 0 1 2 3 8 4 5 6 9"},
	} {
		list := numbered(c.total, from(c.firstMatch))
		got := Scatter([]Term{{"k", "v"}}, list, list)
		require.Equal(t, c.want, names(got))
	}
	list := numbered(10, from(7))
	places := []int{}
	for i, p := range Scatter([]Term{{"k", "v"}}, list, list) {
		if p.Labels["k"] == "v" {
			places = append(places, i+1)
		}
	}
	require.Equal(t, []int{1, 6, 10}, places)
}

func TestScatterLosesAndDoublesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := numbered(rapid.IntRange(0, 30).Draw(t, "all"), func(i int) map[string]string {
			return map[string]string{"a": fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "a")), "b": fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "b"))}
		})
		candidates := all[:rapid.IntRange(0, len(all)).Draw(t, "candidates")]
		got := Scatter([]Term{{"a", "1"}, {"b", "2"}, {"c", "x"}}, candidates, all)
		seen := map[string]bool{}
		for _, p := range got {
			seen[p.Name] = true
		}
		if len(got) != len(candidates) || len(seen) != len(candidates) {
			t.Fatalf("%s became %s", names(candidates), names(got))
		}
	})
}

func TestScenario68OrderPriority(t *testing.T) {
	values := []string{"x-1", "x-3", "x-5", ""}
	list := numbered(4, func(i int) map[string]string {
		if values[i] == "" {
			return nil
		}
		return map[string]string{"x": values[i]}
	})
	got, err := SortByPriority(&pub.UpdatePriorityStrategy{OrderPriority: []pub.UpdatePriorityOrderTerm{{OrderedKey: "x"}}}, list)
	require.NoError(t, err)
	require.Equal(t, "3 2 1 0", names(got))
}

func TestScenario69WeightPriority(t *testing.T) {
	list := numbered(4, func(i int) map[string]string {
		return []map[string]string{{"k": "c"}, {"l": "b"}, {"k": "a"}, {"k": "a", "l": "b"}}[i]
	})
	term := func(key, value string, weight int32) pub.UpdatePriorityWeightTerm {
		return pub.UpdatePriorityWeightTerm{Weight: weight, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
	}
	got, err := SortByPriority(&pub.UpdatePriorityStrategy{WeightPriority: []pub.UpdatePriorityWeightTerm{term("k", "a", 50), term("l", "b", 30)}}, list)
	require.NoError(t, err)
	require.Equal(t, "3 2 1 0", names(got))
	_, err = SortByPriority(&pub.UpdatePriorityStrategy{WeightPriority: []pub.UpdatePriorityWeightTerm{{MatchSelector: metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}}}, list)
	require.ErrorContains(t, err, "weightPriority[0].matchSelector")
}
