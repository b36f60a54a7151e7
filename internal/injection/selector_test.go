package injection

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestOverlapIsExact compares with trying all labels, for random selectors over two keys and two values and others.
func TestOverlapIsExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var everything []labels.Set
	states := []string{"", "a", "b", "other"}
	for _, x := range states {
		for _, y := range states {
			set := labels.Set{}
			if x != "" {
				set["x"] = x
			}
			if y != "" {
				set["y"] = y
			}
			everything = append(everything, set)
		}
	}
	overlapping := 0
	for range 20000 {
		a, b := randomSelector(r), randomSelector(r)
		sa, err := metav1.LabelSelectorAsSelector(a)
		require.NoError(t, err)
		sb, err := metav1.LabelSelectorAsSelector(b)
		require.NoError(t, err)
		want := false
		for _, set := range everything {
			want = want || sa.Matches(set) && sb.Matches(set)
		}
		if want {
			overlapping++
		}
		require.Equal(t, want, Overlap(a, b), "%v %v", a, b)
		require.Equal(t, want, Overlap(b, a))
	}
	require.Greater(t, overlapping, 1000)
	require.Less(t, overlapping, 19000)
	require.True(t, Overlap(nil, randomSelector(rand.New(rand.NewPCG(1, 1)))))
	require.True(t, Overlap(nil, nil))
}

func randomSelector(r *rand.Rand) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	if r.IntN(3) == 0 {
		s.MatchLabels[pick("x", "y")] = pick("a", "b")
	}
	for range 1 + r.IntN(2) {
		e := metav1.LabelSelectorRequirement{Key: pick("x", "y"), Operator: metav1.LabelSelectorOperator(pick("In", "NotIn", "Exists", "DoesNotExist"))}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			e.Values = []string{"a", "b"}[r.IntN(2):]
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}
