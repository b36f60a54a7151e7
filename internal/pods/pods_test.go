package pods

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(d)) }

// pod is running and ready on a node since an hour.
func pod(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, CreationTimestamp: at(-2 * time.Hour)}}
	p.Spec.NodeName = name
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(-time.Hour)}}
	for _, e := range edits {
		e(p)
	}
	return p
}

func state(s pub.LifecycleStateType) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[pub.LifecycleStateKey] = string(s) }
}

func condition(t corev1.PodConditionType, s corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: s})
	}
}

func notReady(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func readySince(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = at(-d) }
}

func TestAvailability(t *testing.T) {
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		seconds int32
		want    bool
	}{
		"ready":                                    {pod("a"), 0, true},
		"ready and normal":                         {pod("a", state(pub.LifecycleStateNormal)), 0, true},
		"held by a hook":                           {pod("a", state(pub.LifecycleStateUpdated)), 0, false},
		"not ready":                                {pod("a", notReady), 0, false},
		"in the middle of an in-place update":      {pod("a", condition(pub.InPlaceUpdateReady, corev1.ConditionFalse)), 0, false},
		"pending":                                  {pod("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), 0, false},
		"ready for exactly minReadySeconds":        {pod("a", readySince(30*time.Second)), 30, false},
		"ready for a little more":                  {pod("a", readySince(31*time.Second)), 30, true},
		"an endless minReadySeconds":               {pod("a"), math.MaxInt32, false},
		"ready without a time":                     {pod("a", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }), 5, false},
		"ready without a time, no minReadySeconds": {pod("a", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, IsAvailable(c.pod, c.seconds, now))
		})
	}
	left, ok := AvailableAfter(pod("a", readySince(10*time.Second)), 30, now)
	require.True(t, ok)
	require.InDelta(t, 20*time.Second, left, float64(time.Second))
}

func TestRevisionsAreKnownByNameOrHash(t *testing.T) {
	p := pod("a", func(p *corev1.Pod) { p.Labels[pub.ControllerRevisionHashKey] = "5d64" })
	require.True(t, AtRevision(p, "web-5d64"))
	require.False(t, AtRevision(p, "web-5d65"))
	require.False(t, AtRevision(pod("b"), "web-5d64"))
	require.False(t, SameRevision("", ""))
}

func order(r Ranking, list ...*corev1.Pod) string {
	var names []string
	for _, p := range r.SortForDeletion(list, list) {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

func TestRankingForDeletionGoesByOneRuleAfterTheOther(t *testing.T) {
	annotate := func(cost string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: cost} }
	}
	restarts := func(n int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: n}} }
	}
	for name, c := range map[string]struct {
		list []*corev1.Pod
		want string
	}{
		"no node first":             {[]*corev1.Pod{pod("a"), pod("b", func(p *corev1.Pod) { p.Spec.NodeName = "" })}, "b a"},
		"pending, unknown, running": {[]*corev1.Pod{pod("a"), pod("b", func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }), pod("c", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })}, "c b a"},
		"not ready first":           {[]*corev1.Pod{pod("a"), pod("b", notReady)}, "b a"},
		"lower cost first":          {[]*corev1.Pod{pod("a", annotate("10")), pod("b", annotate("-5")), pod("c", annotate("+3")), pod("d", annotate("007"))}, "b c d a"},
		"later ready first":         {[]*corev1.Pod{pod("a", readySince(time.Hour)), pod("b", readySince(time.Minute))}, "b a"},
		"more restarts first":       {[]*corev1.Pod{pod("a"), pod("b", restarts(2))}, "b a"},
		"younger first":             {[]*corev1.Pod{pod("a"), pod("b", func(p *corev1.Pod) { p.CreationTimestamp = at(-time.Hour) })}, "b a"},
		"by name otherwise":         {[]*corev1.Pod{pod("b"), pod("a")}, "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, order(Ranking{Now: now}, c.list...))
		})
	}
}

func TestCrowdedNodesGoFirst(t *testing.T) {
	on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	list := []*corev1.Pod{pod("1", on("a")), pod("2", on("a")), pod("3", on("a")), pod("4", on("b")), pod("5", on("b")), pod("6", on("c"))}
	sorted := Ranking{Now: now}.SortForDeletion(list, list)
	left := map[string]bool{}
	for _, p := range sorted[3:] {
		left[p.Spec.NodeName] = true
	}
	require.Len(t, left, 3, "one of each node is left")

	zones := map[string]map[string]string{"a": {"zone": "x"}, "b": {"zone": "x"}, "c": {"zone": "y"}}
	byZone := Ranking{Now: now, NodeLabels: zones, Constraints: []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}}}
	sorted = byZone.SortForDeletion(list, list)
	require.NotEqual(t, "6", sorted[0].Name, "the only Pod of its zone is not the first to go")
	require.Contains(t, []string{"5", "6", "3", "4"}, sorted[len(sorted)-1].Name)
}

func TestScenario72UpdatesTakeTheWorstFirst(t *testing.T) {
	list := []*corev1.Pod{
		pod("old", readySince(2*time.Hour)), pod("fresh", readySince(time.Minute)), pod("broken", notReady),
		pod("pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), pod("nowhere", func(p *corev1.Pod) { p.Spec.NodeName = "" }),
	}
	var names []string
	for _, p := range SortForUpdate(list) {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"nowhere", "pending", "broken", "fresh", "old"}, names)
}
