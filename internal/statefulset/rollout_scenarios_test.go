package statefulset

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// states are the states after each pass, as long as they change.
func (f *fixture) states() []string {
	f.Helper()
	list := []string{f.state()}
	for range 60 {
		f.Pass()
		if now := f.state(); now != list[len(list)-1] {
			list = append(list, now)
		}
	}
	return list
}

func TestScenario49OnePodAfterTheOther(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.Edit(image("b"))
	require.Equal(t, []string{
		"0:a 1:a 2:a", "0:a 1:a", "0:a 1:a 2:b", "0:a 2:b", "0:a 1:b 2:b", "1:b 2:b", "0:b 1:b 2:b",
	}, f.states())
	require.Equal(t, 2, f.Fewest)
	status := f.Set().Status
	require.Equal(t, status.CurrentRevision, status.UpdateRevision)
	require.Equal(t, [5]int32{3, 3, 3, 3, 3}, [5]int32{status.Replicas, status.ReadyReplicas, status.AvailableReplicas, status.CurrentReplicas, status.UpdatedReplicas})
	require.Equal(t, "app=web", status.LabelSelector, "125")
}

func TestScenario50APartition(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.start(3, policy, partition(2))
		f.Edit(image("b"))
		f.Rest()
		require.Equal(t, "0:a 1:a 2:b", f.state())
		for _, gone := range []int{0, 2} {
			f.DeletePod(name(gone))
			f.Settle()
			f.Rest()
			require.Equal(t, "0:a 1:a 2:b", f.state())
		}
		require.NotEqual(t, f.Set().Status.CurrentRevision, f.Set().Status.UpdateRevision)
		f.Edit(partition(0))
		f.Rest()
		require.Equal(t, "0:b 1:b 2:b", f.state())
		require.Equal(t, f.Set().Status.CurrentRevision, f.Set().Status.UpdateRevision)
	}
}

func TestScenarios51And52APartitionThatHoldsAll(t *testing.T) {
	f := newFixture(t)
	f.start(3, partition(3))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a", f.state())
	require.NotEqual(t, f.Set().Status.CurrentRevision, f.Set().Status.UpdateRevision)

	f = newFixture(t)
	f.start(3, partition(5))
	f.Edit(image("b"))
	f.Rest()
	f.Edit(replicas(6))
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a 3:a 4:a 5:b", f.state())
}

func TestScenarios53To55APartitionCountsRanks(t *testing.T) {
	f := newFixture(t)
	f.start(5, parallel, reserve(1, 3), partition(2))
	f.Edit(image("b"))
	var order []string
	f.Changed = nil
	f.After = func(verb, resource, name string) error {
		if verb == "delete" && resource == "pods" {
			order = append(order, name)
		}
		return nil
	}
	f.Rest()
	require.Equal(t, "0:a 2:a 4:b 5:b 6:b", f.state())
	require.Equal(t, []string{"web-6", "web-5", "web-4"}, order)
	for _, gone := range []int{2, 4} {
		f.DeletePod(name(gone))
		f.Settle()
		f.Rest()
		require.Equal(t, "0:a 2:a 4:b 5:b 6:b", f.state())
	}
	f.Edit(reserve(0, 1, 3))
	f.Rest()
	require.Equal(t, "2:a 4:b 5:b 6:b 7:b", f.state(), "54")
	f.Edit(reserve())
	f.Rest()
	require.Equal(t, "0:a 1:a 2:b 3:b 4:b", f.state(), "54")

	f = newFixture(t)
	f.start(9, parallel, start(2), reserve("3-4"), partition(5))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "2:a 5:a 6:a 7:a 8:a 9:b 10:b 11:b 12:b", f.state(), "55")
}

func TestScenario56TwoAtATime(t *testing.T) {
	f := newFixture(t)
	f.start(6, parallel, partition(3), unavailable("2"))
	f.Edit(image("b"))
	f.sync()
	require.Equal(t, "4 5", f.terminating())
	f.Settle()
	f.Edit(image("b-unready"))
	f.sync()
	f.Settle()
	require.Len(t, f.Active(), 6)
	f.ready(4)
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a 3:b 4:b 5:b", f.state())
}

func TestScenario57PodsThatGoCostTheBudget(t *testing.T) {
	hold := func(f *fixture, ordinals ...int) {
		for _, o := range ordinals {
			f.EditPod(name(o), func(p *corev1.Pod) { p.Finalizers = []string{"somebody/holds"} })
			f.DeletePod(name(o))
		}
	}
	f := newFixture(t)
	f.start(6, parallel, partition(3), unavailable("2"))
	hold(f, 0)
	f.Edit(image("b"))
	f.sync()
	require.Equal(t, "0 5", f.terminating())

	f = newFixture(t)
	f.start(6, parallel, partition(3), unavailable("2"))
	f.Edit(partition(3), image("b"))
	hold(f, 0, 2)
	f.sync()
	require.Equal(t, "0 2", f.terminating())
}

func TestScenario58PercentagesAreRoundedDownToAtLeastOne(t *testing.T) {
	for _, c := range []struct {
		replicas int32
		limit    string
		want     int
	}{{10, "25%", 2}, {3, "20%", 1}} {
		f := newFixture(t)
		f.start(c.replicas, parallel, unavailable(c.limit))
		f.Edit(image("b"))
		f.sync()
		require.Len(t, f.Active(), int(c.replicas)-c.want)
		f.Rest()
		require.Equal(t, f.Set().Status.UpdatedReplicas, c.replicas)
	}
}

func TestScenario59ABrokenRevisionIsReplacedAtOnce(t *testing.T) {
	f := newFixture(t)
	f.start(5, parallel, unavailable("2"))
	f.Edit(image("broken"))
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a 3:broken 4:broken", f.state())
	f.Edit(image("c"))
	f.sync()
	require.Equal(t, "3 4", f.terminating())
	f.Settle()
	f.sync()
	f.Settle()
	f.Watch()
	f.sync()
	f.Rest()
	require.Equal(t, "0:c 1:c 2:c 3:c 4:c", f.state())
	require.GreaterOrEqual(t, f.Fewest, 3)
}

func TestScenario60BrokenPodsAreReplacedBeyondTheBudget(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel)
	f.unready(0, 1, 2)
	f.Edit(image("b"))
	f.sync()
	require.Equal(t, "0 1 2", f.terminating())
}

func TestScenarios61And62ABrokenPodIsReplacedFirst(t *testing.T) {
	for _, e := range []edit{parallel, both(parallel, unordered(nil))} {
		f := newFixture(t)
		f.start(5, e)
		f.unready(1)
		f.Edit(image("b"))
		var order []string
		f.After = func(verb, resource, name string) error {
			if verb == "delete" && resource == "pods" {
				order = append(order, name)
			}
			return nil
		}
		f.Rest()
		require.Equal(t, []string{"web-1", "web-4", "web-3", "web-2", "web-0"}, order)
		require.Equal(t, "0:b 1:b 2:b 3:b 4:b", f.state())
	}
}

func TestScenario63ScalingOutTogetherWithAnUpdate(t *testing.T) {
	f := newFixture(t)
	f.start(5, parallel, unavailable("2"))
	f.Edit(replicas(7), image("b"))
	f.sync()
	require.Equal(t, "0:a 1:a 2:a 3:a 4:a 5:b 6:b", f.state())
	f.sync()
	require.Equal(t, "0:a 1:a 2:a 3:a 4:a 5:b 6:b", f.state())
	f.Settle()
	f.sync()
	require.Equal(t, "0:a 1:a 2:a 5:b 6:b", f.state())
}

func TestScenario64MinReadySecondsHoldsTheUpdate(t *testing.T) {
	f := newFixture(t)
	f.start(5, parallel, unavailable("2"), minReady(60))
	f.Wait(2 * time.Minute)
	f.Rest()
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a 3:b 4:b", f.state())
	require.EqualValues(t, 5, f.Set().Status.ReadyReplicas)
	require.EqualValues(t, 3, f.Set().Status.AvailableReplicas)
	f.Wait(2 * time.Minute)
	f.Rest()
	require.Equal(t, "0:a 1:b 2:b 3:b 4:b", f.state())
}

func TestScenario65InPlaceWithinTheBudget(t *testing.T) {
	for _, c := range []struct {
		limit    string
		minReady int32
		want     []string
	}{
		{"1", 0, []string{"0:a 1:a 2:a 3:a 4:a", "0:a 1:a 2:a 3:a 4:b", "0:a 1:a 2:a 3:b 4:b", "0:a 1:a 2:b 3:b 4:b", "0:a 1:b 2:b 3:b 4:b", "0:b 1:b 2:b 3:b 4:b"}},
		{"2", 0, []string{"0:a 1:a 2:a 3:a 4:a", "0:a 1:a 2:a 3:b 4:b", "0:a 1:b 2:b 3:b 4:b", "0:b 1:b 2:b 3:b 4:b"}},
		{"2", 60, []string{"0:a 1:a 2:a 3:a 4:a", "0:a 1:a 2:a 3:b 4:b"}},
	} {
		f := newFixture(t)
		f.start(5, parallel, inPlace, unavailable(c.limit), minReady(c.minReady))
		f.Wait(2 * time.Minute)
		f.Rest()
		f.Edit(image("b"))
		require.Equal(t, c.want, f.states())
	}
}

func TestScenario66Paused(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.Edit(image("b"), paused(true))
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a", f.state())
	require.Zero(t, f.Set().Status.UpdatedReplicas)
	f.Edit(replicas(5))
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a 3:b 4:b", f.state())
	f.DeletePod(name(0))
	f.Settle()
	f.Rest()
	require.Equal(t, "0:b 1:a 2:a 3:b 4:b", f.state())
}

func TestScenarios67And68OnDelete(t *testing.T) {
	f := newFixture(t)
	f.start(3, onDelete)
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a", f.state())
	for _, gone := range []int{1, 0, 2} {
		f.DeletePod(name(gone))
		f.Settle()
		f.Rest()
	}
	require.Equal(t, "0:b 1:b 2:b", f.state())
	require.Equal(t, f.Set().Status.UpdateRevision, f.Set().Status.CurrentRevision)
}

// updateOrder are the Pods in the order of their updates.
func updateOrder(t *testing.T, e edit, prepare func(*fixture), change edit) []string {
	f := newFixture(t)
	f.start(5, parallel, e)
	prepare(f)
	f.Edit(change)
	var order []string
	f.After = func(verb, resource, name string) error {
		if verb == "delete" && resource == "pods" {
			order = append(order, name[len("web-"):])
		}
		return nil
	}
	f.Rest()
	return order
}

func TestScenarios69To71Priorities(t *testing.T) {
	weights := unordered(&pub.UpdatePriorityStrategy{WeightPriority: []pub.UpdatePriorityWeightTerm{
		{Weight: 50, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"heavy": "50"}}},
		{Weight: 30, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"heavy": "30"}}},
	}})
	keys := unordered(&pub.UpdatePriorityStrategy{OrderPriority: []pub.UpdatePriorityOrderTerm{{OrderedKey: "k"}}})
	require.Equal(t, []string{"1", "0"}, updateOrder(t, both(weights, partition(3), unavailable("5")), func(f *fixture) {
		f.label(0, "heavy", "50")
		f.label(1, "heavy", "50")
	}, image("b")), "69")
	require.Equal(t, []string{"4", "2", "1", "3", "0"}, updateOrder(t, keys, func(f *fixture) {
		f.label(0, "k", "x-1")
		f.label(1, "k", "x-5")
		f.label(3, "k", "x-3")
	}, image("b")), "70")
	weigh := func(f *fixture) {
		f.label(0, "heavy", "50")
		f.label(3, "heavy", "30")
	}
	require.Equal(t, []string{"0", "3", "4", "2", "1"}, updateOrder(t, weights, weigh, image("b")), "71")
	require.Equal(t, []string{"0", "3"}, updateOrder(t, both(weights, partition(3)), weigh, image("b")), "71 with a partition")
}

func TestScenario72UpdatedPodsComeFirst(t *testing.T) {
	f := newFixture(t)
	f.start(10, parallel, partition(10), unordered(nil))
	f.Edit(image("b"))
	f.Rest()
	for _, o := range []int{6, 7} {
		f.EditPod(name(o), func(p *corev1.Pod) {
			p.Labels[pub.ControllerRevisionHashKey] = f.Set().Status.UpdateRevision
			p.Spec.Containers[0].Image = "b"
		})
	}
	f.Settle()
	f.Edit(partition(6))
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a 3:a 4:a 5:a 6:b 7:b 8:b 9:b", f.state())
}

func TestScenario73UnorderedReplacements(t *testing.T) {
	f := newFixture(t)
	f.start(5, parallel, partition(3), unordered(nil))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a 3:b 4:b", f.state())
	for _, gone := range [][]int{{4}, {0}, {0, 1}} {
		for _, o := range gone {
			f.DeletePod(name(o))
		}
		f.Settle()
		f.Rest()
		require.Equal(t, "0:a 1:a 2:a 3:b 4:b", f.state())
	}
}

func TestScenario74ABadRolloutIsTakenBackInOrder(t *testing.T) {
	for _, next := range []string{"a", "c"} {
		f := newFixture(t)
		f.start(3)
		f.Edit(image("broken"))
		f.Rest()
		require.Equal(t, "0:a 1:a 2:broken", f.state())
		f.Edit(image(next))
		f.Rest()
		require.Equal(t, "0:x 1:x 2:x", replaceAll(f.state(), next))
		require.GreaterOrEqual(t, f.Fewest, 1)
	}
}

// A new revision may also run and never become ready. Its Pod is of neither the old nor the wanted revision by then, so that
// there is nothing to wait for.
func TestARevisionThatRunsAndIsNeverReadyIsTakenBackInOrder(t *testing.T) {
	for n, policy := range map[string]edit{"anew": func(*v1beta1.StatefulSet) {}, "in place": inPlace} {
		for _, next := range []string{"a", "c"} {
			t.Run(n+" to "+next, func(t *testing.T) {
				f := newFixture(t)
				f.start(3, policy)
				f.Edit(image("b-unready"))
				f.Rest()
				require.Equal(t, "0:a 1:a 2:b", f.state())
				require.Equal(t, corev1.PodRunning, f.Pod(name(2)).Status.Phase)
				require.Equal(t, 2, f.Available())
				f.Edit(image(next))
				f.Rest()
				require.Equal(t, "0:x 1:x 2:x", replaceAll(f.state(), next))
				require.Equal(t, 3, f.Available())
				require.Equal(t, f.Set().Status.UpdateRevision, f.Set().Status.CurrentRevision)
			})
		}
	}
}

func replaceAll(state, image string) string {
	out := []byte(state)
	for i := range out {
		if string(out[i]) == image && i > 0 && out[i-1] == ':' {
			out[i] = 'x'
		}
	}
	return string(out)
}

func TestScenario75AFirstRevisionThatNeverStartsInOrder(t *testing.T) {
	for _, bad := range []string{"crashes", "broken"} {
		f := newFixture(t)
		f.create(3, image(bad))
		f.Rest()
		require.Equal(t, "0", f.ordinals())
		f.Edit(image("b"))
		f.Rest()
		require.Equal(t, "0:b 1:b 2:b", f.state())
	}
}

func TestScenario76APodThatIsMerelyNotReadyIsWaitedFor(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.unready(1)
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a", f.state())
	f.ready(1)
	require.Equal(t, []string{
		"0:a 1:a 2:a", "0:a 1:a", "0:a 1:a 2:b", "0:a 2:b", "0:a 1:b 2:b", "1:b 2:b", "0:b 1:b 2:b",
	}, f.states())
}

func TestScenario77NoFurtherPodGoesWhileOthersMayNotBeCreated(t *testing.T) {
	f := newFixture(t)
	f.start(20, parallel, unavailable("60%"), scaleUnavailable("20%"))
	f.Edit(image("b"))
	f.sync()
	require.Len(t, f.Active(), 8)
	f.Settle()
	for range 40 {
		missing := 20 - len(f.Active())
		before := f.Writes["delete pods"]
		f.Pass()
		if missing > 4 {
			require.Equal(t, before, f.Writes["delete pods"])
		}
	}
	f.Rest()
	require.Equal(t, "20b", f.Images())
}

func TestScenario78InPlace(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.start(2, policy, inPlace)
		uid := f.Pod(name(1)).UID
		f.Edit(image("b"))
		var states []pub.LifecycleStateType
		var gates []bool
		for range 30 {
			f.sync()
			p := f.Pod(name(1))
			if s := pods.LifecycleState(p); len(states) == 0 || states[len(states)-1] != s {
				states = append(states, s)
			}
			if is := pods.IsConditionTrue(p, pub.InPlaceUpdateReady); len(gates) == 0 || gates[len(gates)-1] != is {
				gates = append(gates, is)
			}
			f.Settle()
		}
		require.Equal(t, "0:b 1:b", f.state())
		p := f.Pod(name(1))
		require.Equal(t, uid, p.UID)
		require.Equal(t, f.Set().Status.UpdateRevision, p.Labels[pub.ControllerRevisionHashKey])
		require.Equal(t, []pub.LifecycleStateType{pub.LifecycleStateUpdating, pub.LifecycleStateNormal}, states)
		require.Equal(t, []bool{false, true}, gates)
		require.Zero(t, f.Writes["delete pods"])
	}
}

func TestScenario79InPlaceOnlyShowsWhatItCannotDo(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, inPlace, inPlaceOnly)
	f.Edit(func(s *v1beta1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "x", Value: "y"}}
	})
	f.Rest()
	require.Zero(t, f.Writes["delete pods"])
	c := f.conditionOf(v1beta1.FailedUpdatePod)
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Equal(t, ReasonInPlaceImpossible, c.Reason)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
	require.Equal(t, 1, len(slices.DeleteFunc(slices.Clone(f.Events), func(e string) bool { return e[:len("Warning")] != "Warning" })), f.Events)
	f.Edit(func(s *v1beta1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Env = nil })
	f.Rest()
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.FailedUpdatePod).Status)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionReady).Status)
}

// Whoever holds up all others is not tried again and again when its update was refused.
func TestAnUpdateThatWasRefusedIsPutOffInOrder(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace)
	f.Edit(image("broken"))
	f.Rest()
	f.Refuse("patch", "pods", nil)
	f.Edit(image("c"))
	n := 0
	for range 10 {
		f.ShowAll()
		if _, err := f.Sync(); err != nil {
			n++
		}
		f.EditPod(name(2), func(p *corev1.Pod) { p.Annotations["x"] += "y" })
	}
	require.Equal(t, 1, n, f.Events)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.FailedUpdatePod).Status)
	f.Before = nil
	f.Wait(2 * time.Minute)
	f.Rest()
	require.Equal(t, "0:c 1:c 2:c", f.state())
}

func TestScenario71APodThatGoesHasItsPlace(t *testing.T) {
	term := func(v string, weight int32) pub.UpdatePriorityWeightTerm {
		return pub.UpdatePriorityWeightTerm{Weight: weight, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"heavy": v}}}
	}
	f := newFixture(t)
	f.start(5, parallel, unavailable("5"), partition(3), unordered(&pub.UpdatePriorityStrategy{
		WeightPriority: []pub.UpdatePriorityWeightTerm{term("50", 50), term("30", 30)},
	}))
	f.label(0, "heavy", "50")
	f.label(3, "heavy", "30")
	f.stick(2)
	f.Edit(image("b"))
	f.sync()
	require.Equal(t, "0 2", f.terminating())
}

// stick makes a Pod go and not get away.
func (f *fixture) stick(ordinal int) {
	f.EditPod(name(ordinal), func(p *corev1.Pod) { p.Finalizers = []string{"example.com/stuck"} })
	f.DeletePod(name(ordinal))
}

// Admission refuses the number; the order is promised whether or not it was asked.
func TestOrderedReadyTakesOnePodDownWhateverTheBudget(t *testing.T) {
	f := newFixture(t)
	f.start(3, unavailable("2"))
	f.Edit(image("b"))
	f.sync()
	require.Equal(t, "2", f.terminating())
}

func TestNothingIsUpdatedAfterAPodThatCannotBeInPlaceOnly(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, inPlace, inPlaceOnly, unavailable("3"))
	f.label(2, "controller-revision-hash", "web-gone")
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a", f.state())
}

func TestAnUpdateThatWasRefusedIsPutOffInParallel(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel, inPlace)
	f.Refuse("patch", modelcluster.Pods, nil)
	f.Edit(image("b"))
	n := 0
	for range 5 {
		f.ShowAll()
		if _, err := f.Sync(); err != nil {
			n++
		}
	}
	require.Equal(t, 1, n)
}

// What is wrong may be mended by the very change of the spec.
func TestAnotherSpecIsTriedAtOnceAfterARefusal(t *testing.T) {
	f := newFixture(t)
	f.start(1, parallel, inPlace)
	f.Refuse("patch", modelcluster.Pods, nil)
	f.Edit(image("b"))
	f.Live(10 * time.Minute)
	f.Before = nil
	f.Edit(image("c"))
	f.Live(time.Second)
	require.Equal(t, "0:c", f.state())
}

// A Pod that serves and whose update has not arrived is as good as out of service: it comes first, and has its share of the
// budget.
func TestAPodInTheMiddleOfItsUpdateComesFirst(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, inPlace, cpu("2"), unavailable("3"))
	f.Edit(cpu("3"))
	f.sync()
	f.label(0, pub.LifecycleStateKey, string(pub.LifecycleStateNormal))
	for _, ordinal := range []int{1, 2} {
		f.EditPod(name(ordinal), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].Resources = p.Spec.Containers[0].Resources.DeepCopy()
		})
	}
	f.sync()
	f.sync()
	require.Equal(t, 3, f.Available())
	f.Edit(image("b"), unavailable("1"))
	f.sync()
	require.Equal(t, "0:b 1:a 2:a", f.state())
}

func TestScenario67OnDeleteRepairsNothing(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		f := newFixture(t)
		f.create(2, policy, onDelete, image("a-broken"))
		f.Rest()
		before := f.ordinals()
		f.Edit(image("b"))
		f.Live(time.Hour)
		require.Equal(t, before, f.ordinals())
		require.Contains(t, f.state(), "0:a-broken")
		f.DeletePod(name(0))
		f.Settle()
		f.Rest()
		require.Contains(t, f.state(), "0:b")
	})
}
