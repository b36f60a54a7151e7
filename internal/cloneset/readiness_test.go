package cloneset

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

// Whoever waits for Ready with the generation of a change relies on the change being carried out by then.

func (f *fixture) syncOnce() {
	f.Helper()
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(f, err)
	require.Equal(f, f.Set().Generation, f.Set().Status.ObservedGeneration)
}

func (f *fixture) isReadyNow() bool {
	f.Helper()
	return f.conditionOf(v1beta1.CloneSetConditionReady).Status == corev1.ConditionTrue
}

func TestASetIsNotReadyWhilePodsAreToGo(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.Edit(func(s *v1beta1.CloneSet) { s.Spec.ScaleStrategy.PodsToDelete = f.Names()[:1] })
	f.syncOnce()
	require.False(t, f.isReadyNow())
	f.Rest()
	require.True(t, f.isReadyNow())
}

func TestASetIsNotReadyWhilePodsAreTakenBack(t *testing.T) {
	f := fixtureOf(t, Options{PartitionRollback: true}, modelcluster.Pseudorandom())
	f.start(3, partition("0"), unavailable("1"))
	f.Edit(image("b"), partition("1"))
	f.Rest()
	require.Equal(t, "1a2b", f.Images())
	f.Edit(partition("3"))
	f.syncOnce()
	require.False(t, f.isReadyNow())
	for f.Images() != "3a" {
		f.Pass()
		require.False(t, f.isReadyNow() && f.Images() != "3a")
	}
	f.Rest()
	require.True(t, f.isReadyNow())
}

func TestStalledIsNotOfTheFormerSpec(t *testing.T) {
	command := func(words ...string) edit {
		return func(s *v1beta1.CloneSet) { s.Spec.Template.Spec.Containers[0].Command = words }
	}
	f := newFixture(t)
	f.start(3, inPlaceOnly)
	f.Edit(command("x"))
	f.Rest()
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)
	f.Edit(command(), replicas(4))
	f.syncOnce()
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)
}

func TestThatThereIsNoRevisionIsWrittenOnce(t *testing.T) {
	f := newFixture(t)
	f.create(2)
	f.Refuse("create", modelcluster.Revisions, nil)
	for range 5 {
		f.ShowAll()
		_, err := f.Sync()
		require.Error(t, err)
	}
	require.Equal(t, 1, f.Writes["patch/status clonesets"])
}

// While Pods are not to be replaced, those whose nodes have no room serve with what they have. If they may be replaced later, that is
// within the budget.
func TestPodsThatServeAreReplacedForTheirResourcesWithinTheBudget(t *testing.T) {
	for what, c := range map[string]struct {
		edit      edit
		available int
	}{
		"rolling":      {unavailable("2"), 3},
		"paused":       {func(s *v1beta1.CloneSet) { s.Spec.UpdateStrategy.RollingUpdate.Paused = true }, 5},
		"by deletions": {onDelete, 5},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			f.start(5, inPlaceOnly, cpu("2"), unavailable("5"))
			f.Edit(cpu("200"))
			f.Rest()
			require.Equal(t, 5, f.Available(), "they serve with what they have")
			f.Edit(rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
				r.PodUpdatePolicy = v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType
			}), c.edit)
			f.syncOnce()
			require.Equal(t, c.available, f.Available())
		})
	}
}
