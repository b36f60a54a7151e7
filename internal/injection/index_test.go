package injection

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// selecting is a set of that name.
func selecting(name string, pods, namespaces *metav1.LabelSelector) *v1beta1.SidecarSet {
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.Selector, set.Spec.NamespaceSelector = pods, namespaces
	return set
}

func match(pairs ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		s.MatchLabels[pairs[i]] = pairs[i+1]
	}
	return s
}

func having(s *metav1.LabelSelector, key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values})
	return s
}

func namesOf(sets []*v1beta1.SidecarSet) []string {
	out := []string{}
	for _, s := range sets {
		out = append(out, s.Name)
	}
	return out
}

// TestTheIndexFindsWhatALookAtEverySetFinds puts random sets up, changes and removes them.
func TestTheIndexFindsWhatALookAtEverySetFinds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	known, x := map[string]*v1beta1.SidecarSet{}, NewIndex()
	found := 0
	for range 20000 {
		name := fmt.Sprint(r.IntN(30))
		if r.IntN(4) == 0 {
			x.Remove(name)
			delete(known, name)
		} else {
			set := selecting(name, randomSelector(r), nil)
			if r.IntN(2) == 0 {
				set.Spec.NamespaceSelector = having(&metav1.LabelSelector{}, pick("kubernetes.io/metadata.name", "env"),
					metav1.LabelSelectorOperator(pick("In", "NotIn")), pick("a", "b"))
			}
			set.Spec.InjectionStrategy.Paused = r.IntN(5) == 0
			x.Put(set)
			known[name] = set
		}
		namespace, env := pick("a", "b", "c"), pick("a", "b", "c")
		pod := labels.Set{"x": pick("a", "b", "other")}
		if r.IntN(2) == 0 {
			pod["y"] = pick("a", "b", "other")
		}
		everywhere := map[string]string{"kubernetes.io/metadata.name": namespace, "env": env}
		certain, dependent := x.Find(namespace, pod)
		for _, s := range dependent {
			if Selects(s.Spec.NamespaceSelector, everywhere) {
				certain = append(certain, s)
			}
		}
		want := []string{}
		for _, s := range known {
			if !s.Spec.InjectionStrategy.Paused && matches(t, s.Spec.Selector, pod) &&
				(s.Spec.NamespaceSelector == nil || matches(t, s.Spec.NamespaceSelector, everywhere)) {
				want = append(want, s.Name)
			}
		}
		require.ElementsMatch(t, want, namesOf(certain))
		found += len(want)
	}
	require.Greater(t, found, 20000)
	for name := range known {
		x.Remove(name)
	}
	require.Equal(t, NewIndex(), x, "nothing is kept of sets that are gone")
}

func matches(t *testing.T, s *metav1.LabelSelector, l map[string]string) bool {
	t.Helper()
	parsed, err := metav1.LabelSelectorAsSelector(s)
	require.NoError(t, err)
	return parsed.Matches(labels.Set(l))
}

func TestWhoIsInNoFile(t *testing.T) {
	x := NewIndex()
	const in, exists = metav1.LabelSelectorOpIn, metav1.LabelSelectorOpExists
	paused := selecting("paused", match("app", "web"), nil)
	paused.Spec.InjectionStrategy.Paused = true
	for _, set := range []*v1beta1.SidecarSet{
		paused, selecting("without a selector", nil, nil), selecting("an empty selector", &metav1.LabelSelector{}, nil),
		selecting("two values of one label", having(match("app", "web"), "app", in, "db"), nil),
		selecting("a label that is and is not", having(match("app", "web"), "app", metav1.LabelSelectorOpDoesNotExist), nil),
		selecting("no value", having(match(), "app", in), nil),
		selecting("no namespace", match("app", "web"), having(match("env", "a"), "env", in, "b")),
	} {
		x.Put(set)
		require.Empty(t, x.files, set.Name)
	}
	x.Put(selecting("everywhere", match("app", "web"), &metav1.LabelSelector{}))
	x.Put(selecting("an operator that is not known", having(match("app", "web"), "app", "Like", "w"), nil))
	x.Put(selecting("no value to be absent", having(having(match(), "app", exists), "app", metav1.LabelSelectorOpNotIn), nil))
	certain, dependent := x.Find("ns", map[string]string{"app": "web"})
	require.Equal(t, []string{"everywhere", "no value to be absent"}, namesOf(certain))
	require.Empty(t, dependent)
}

// TestScenario076_FewOfManyAreLookedAt has 1,000 sets that share a label and differ in another.
func TestScenario076_FewOfManyAreLookedAt(t *testing.T) {
	x := NewIndex()
	for i := range 1000 {
		x.Put(selecting(fmt.Sprint(i), match("env", "prod", "app", fmt.Sprint(i)), nil))
		x.Put(selecting(fmt.Sprint("named-", i), match("env", "prod"), match("kubernetes.io/metadata.name", fmt.Sprint("ns-", i))))
	}
	for f, sets := range x.files {
		require.LessOrEqual(t, len(sets), 2, "%+v", f)
	}
	certain, _ := x.Find("ns-7", map[string]string{"env": "prod", "app": "7"})
	require.Equal(t, []string{"7", "named-7"}, namesOf(certain))
}
