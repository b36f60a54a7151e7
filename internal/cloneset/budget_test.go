package cloneset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// templateLabel changes what costs no container its life.
func templateLabel(value string) edit {
	return func(s *v1beta1.CloneSet) { s.Spec.Template.Labels["v"] = value }
}

func (f *fixture) labelled(value string) int {
	n := 0
	for _, p := range f.Active() {
		if p.Labels["v"] == value {
			n++
		}
	}
	return n
}

func TestAChangeOfMereMetadataCostsNoBudget(t *testing.T) {
	for name, c := range map[string]struct {
		edits  []edit
		broken int
	}{
		"as many are unavailable as may be":    {[]edit{unavailable("1")}, 1},
		"more are unavailable than may be":     {[]edit{unavailable("1")}, 3},
		"none may be unavailable":              {[]edit{unavailable("0"), surge("1")}, 0},
		"none may be, and some are":            {[]edit{unavailable("0"), surge("1")}, 2},
		"in place only, and all are available": {[]edit{unavailable("1"), inPlaceOnly}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(5, append([]edit{inPlace}, c.edits...)...)
			for _, n := range f.Names()[:c.broken] {
				f.breakPod(n)
			}
			f.Rest()
			f.Watch()
			names := f.Names()
			f.Edit(templateLabel("2"))
			f.Pass()
			require.Equal(t, 5, f.labelled("2"), "in one pass")
			f.Live(time.Hour)
			require.Equal(t, 5, f.labelled("2"))
			require.Equal(t, names, f.Names())
			require.Equal(t, 5-c.broken, f.Fewest)
			require.Equal(t, 5, f.Most)
		})
	}
}

// What waits for a hook is not available meanwhile.
func TestAChangeOfMereMetadataCostsBudgetWhereAHookHoldsIt(t *testing.T) {
	f := newFixture(t)
	f.start(4, inPlace, unavailable("1"), hooked(pub.Lifecycle{InPlaceUpdate: byLabel(false)}))
	f.Edit(templateLabel("2"))
	f.Rest()
	require.Equal(t, 3, f.Available())
	require.Len(t, f.inState(pub.LifecycleStatePreparingUpdate), 1)
}

// A change of images beside one of mere metadata has the budget for itself.
func TestMetadataPassesByAnUpdateThatUsesUpTheBudget(t *testing.T) {
	f := newFixture(t)
	f.start(4, inPlace, unavailable("1"), partition("2"))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "2a2b", f.Images())
	f.Edit(templateLabel("2"), partition("0"), unavailable("1"))
	f.Watch()
	f.Pass()
	require.Equal(t, 3, f.labelled("2"), "those at b, and one of the others")
	f.Rest()
	require.Equal(t, "4b", f.Images())
	require.Equal(t, 3, f.Fewest)
}

// Of a paused set with a surge, what a smaller number of replicas makes surplus is taken as always, and only the surge itself
// from the new Pods.
func TestAPausedSetIsScaledInFromItsOldPods(t *testing.T) {
	t.Run("no Pod is there by a surge", func(t *testing.T) {
		f := newFixture(t)
		f.start(3, surge("1"), paused(true))
		f.Edit(image("b"), replicas(5))
		f.Rest()
		require.Equal(t, "3a2b", f.Images())
		f.Edit(replicas(4))
		f.Rest()
		require.Equal(t, "2a2b", f.Images())
	})
	t.Run("it takes several syncs", func(t *testing.T) {
		f := newFixture(t)
		f.start(6, surge("2"), unavailable("1"), paused(true))
		f.Edit(image("b"), replicas(9))
		f.Rest()
		require.Equal(t, "6a3b", f.Images())
		for _, n := range f.Names() {
			f.EditPod(n, func(p *corev1.Pod) { p.Labels["hold"] = "true" })
		}
		f.Edit(replicas(5), func(s *v1beta1.CloneSet) {
			s.Spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{LabelsHandler: map[string]string{"hold": "true"}}}
		})
		f.Rest()
		for len(f.inState(pub.LifecycleStatePreparingDelete)) > 0 {
			f.release(f.inState(pub.LifecycleStatePreparingDelete)[0])
			f.Rest()
		}
		require.Equal(t, "2a3b", f.Images())
	})
	t.Run("there is a surge beside", func(t *testing.T) {
		f := newFixture(t)
		f.start(5, surge("2"), unavailable("0"))
		f.Edit(image("b"))
		f.Pass()
		require.Equal(t, "5a2b", f.Images())
		f.Edit(paused(true))
		f.ShowAll()
		_, err := f.Sync()
		require.NoError(t, err)
		f.Rest()
		require.Equal(t, "5a", f.Images())
	})
	t.Run("replicas are raised again", func(t *testing.T) {
		f := newFixture(t)
		f.start(4, surge("1"), paused(true))
		f.Edit(image("b"), replicas(6))
		f.Rest()
		f.Edit(replicas(5))
		f.Rest()
		f.Edit(replicas(6))
		f.Rest()
		f.Edit(replicas(4))
		f.Rest()
		require.Equal(t, "1a3b", f.Images())
	})
}

func TestScaledInCountsWhatTheUserTookAway(t *testing.T) {
	var m memory
	for i, c := range []struct{ replicas, pods, want int }{
		{5, 8, 0}, // the first that is known
		{4, 8, 1},
		{4, 7, 1},
		{2, 6, 3},
		{3, 6, 2},
		{9, 6, 0},
		{5, 6, 4},
		{6, 6, 0}, // nothing is left of it
		{5, 6, 1},
	} {
		require.Equal(t, c.want, m.scaledIn("set", c.replicas, c.pods), i)
	}
}

func TestASetThatIsStalledIsNotReady(t *testing.T) {
	f := newFixture(t)
	f.start(2, inPlaceOnly, unavailable("1"))
	f.Edit(image("b"), func(s *v1beta1.CloneSet) { s.Spec.Template.Spec.Containers[0].Args = []string{"x"} })
	f.Rest()
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionReady).Status)
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionReconciling).Status)

	// A Pod that has the label of the new revision is not updated for that.
	s := &Snapshot{Set: f.Set().DeepCopy()}
	c := conditionsOf(&s.Set.Status, f.Clock.Now())
	s.Set.Status.UpdatedReplicas = 2
	s.summarise(c, &s.Set.Status, false)
	s.Set.Status.Conditions = c.List
	require.Equal(t, corev1.ConditionTrue, c.get(v1beta1.CloneSetConditionStalled).Status)
	require.Equal(t, corev1.ConditionFalse, c.get(v1beta1.CloneSetConditionReady).Status)
	require.Equal(t, ReasonInPlaceImpossible, c.get(v1beta1.CloneSetConditionReady).Reason)
}

func TestASetThatIsAsSpecifiedIsNotStalled(t *testing.T) {
	f := newFixture(t)
	f.start(2, onDelete, deadline(60))
	f.Edit(image("b"))
	f.Live(time.Hour)
	require.Equal(t, ReasonDeadlineExceeded, f.conditionOf(v1beta1.CloneSetConditionTypeProgressing).Reason)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionReady).Status)
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)
}

func TestASyncThatScalesSaysNothingAboutUpdates(t *testing.T) {
	f := newFixture(t)
	f.start(2, inPlaceOnly, unavailable("1"))
	f.Edit(func(s *v1beta1.CloneSet) { s.Spec.Template.Spec.Containers[0].Args = []string{"x"} })
	f.Rest()
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)
	f.Edit(replicas(3))
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)
}

func TestAnEmptySetWhosePartitionHoldsNothingIsPromoted(t *testing.T) {
	f := newFixture(t)
	f.start(0, partition("0%"))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, f.Set().Status.UpdateRevision, f.Set().Status.CurrentRevision)
}

// The stand-in of a Pod of the update revision is of that revision from the start.
func TestAStandInIsOfTheRevisionOfThePodThatIsToGo(t *testing.T) {
	f := newFixture(t)
	f.start(4, partition("2"), unavailable("1"))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "2a2b", f.Images())
	f.Edit(unavailable("0"), surge("1"))
	f.Rest()
	f.markDelete(f.WithImage("b"))
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	require.Equal(t, "2a3b", f.Images())
}
