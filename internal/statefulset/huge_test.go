package statefulset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

// BenchmarkHugeSet is a sync of a set that somebody has asked for far more Pods than there can be.
func BenchmarkHugeSet(b *testing.B) {
	f := newFixture(nil)
	f.create(3_000_000, parallel, scaleUnavailable("1"), claimTemplate("www", "1Gi"))
	b.ReportAllocs()
	for b.Loop() {
		f.ShowAll()
		if _, err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// A number that nobody can mean is worked on like any other, and costs what there is and not what was asked for.
func TestASyncOfAHugeSetIsSmall(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		f := newFixture(t)
		f.start(3, policy, claimTemplate("www", "1Gi"))
		f.Edit(replicas(math.MaxInt32-10), reserve("5-9"), image("b"))
		for range 5 {
			f.Pass()
		}
		require.Subset(t, f.Names(), []string{name(0), name(1), name(2), name(3), name(4)})
		require.Nil(t, f.Pod(name(5)))
		require.Empty(t, f.conditionOf(v1beta1.StatefulSetConditionStalled).Message)
		s := f.gathered()
		require.LessOrEqual(t, len(s.Missing), defaultAtOnce+1)
		f.Edit(replicas(2))
		f.Rest()
		require.Equal(t, "0:b 1:b", f.state())
	})
}

// gathered is what a sync would decide from.
func (f *fixture) gathered() *Snapshot {
	f.Helper()
	f.ShowAll()
	set := f.Set().DeepCopy()
	v1beta1.SetDefaults_StatefulSet(set)
	selector, problem := check(&set.Spec)
	require.Nil(f, problem)
	s, err := f.controller.gather(set, selector, f.Clock.Now())
	require.NoError(f, err)
	require.NoError(f, f.controller.history().Resolve(f.Context(), &s.History, f.controller.revisionOwner(set)))
	return s
}

// outline is what a plan does, but for Pods that are not there yet.
func outline(p *Plan) string {
	out := fmt.Sprint(p.UpdateReached)
	for _, d := range p.Delete {
		out += " delete " + d.Pod.Name
	}
	for _, u := range p.Update {
		out += fmt.Sprint(" update ", u.Pod.Name, u.Delete != nil, u.InPlace != nil)
	}
	for _, r := range p.Refresh {
		out += fmt.Sprint(" refresh ", r.Pod.Name, r.Step.State)
	}
	for _, r := range p.Resize {
		out += " resize " + r.Claim.Name
	}
	return out
}

// What a sync does to the Pods that there are does not depend on how many missing ones it looks at.
func TestMissingPodsCountAlsoWhereASyncDoesNotGetToThem(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 250 {
		f := newFixture(t)
		f.inTheMiddle(random)
		f.controller.createAtOnce = 1000
		whole, err := f.gathered().Plan(f.Clock.Now())
		require.NoError(t, err)
		f.controller.createAtOnce = random.IntN(2)
		part, err := f.gathered().Plan(f.Clock.Now())
		require.NoError(t, err)
		require.Equal(t, outline(whole), outline(part))
		require.Len(t, part.Create, min(len(whole.Create), f.controller.createAtOnce+1))
		for i, c := range part.Create {
			require.Equal(t, whole.Create[i].Ordinal, c.Ordinal)
			require.Equal(t, whole.Create[i].Revision.Name, c.Revision.Name)
		}
	}
}

// inTheMiddle is somewhere in an update, of which Pods are missing.
func (f *fixture) inTheMiddle(random *rand.Rand) {
	weights := &pub.UpdatePriorityStrategy{OrderPriority: []pub.UpdatePriorityOrderTerm{{OrderedKey: "w"}}}
	n := 4 + random.IntN(8)
	some := func() string { return fmt.Sprint(1 + random.IntN(n)) }
	var edits []edit
	for _, e := range []edit{unordered(weights), inPlace, preUpdate, scaleUnavailable(some())} {
		if random.IntN(2) == 0 {
			edits = append(edits, e)
		}
	}
	f.class(ptr.To(true))
	f.start(int32(n), append(edits, parallel, reserve(3), follow, claimTemplate("www", "1Gi"), unavailable(fmt.Sprint(n)))...)
	f.Edit(image("b"), partition(int32(random.IntN(n))), unavailable(some()))
	for range random.IntN(3) {
		f.Pass()
	}
	f.Edit(partition(int32(random.IntN(n))))
	if random.IntN(2) == 0 {
		f.Edit(unavailable(fmt.Sprint(n)))
	}
	if random.IntN(2) == 0 {
		f.Edit(claimTemplate("www", "2Gi"))
	}
	for _, p := range f.Active() {
		switch _, ordinal, _ := parentAndOrdinal(p.Name); random.IntN(6) {
		case 0, 1:
			f.Remove(modelcluster.Pods, namespace+"/"+p.Name)
		case 2:
			f.unready(int(ordinal))
		case 3:
			f.label(int(ordinal), "w", fmt.Sprint(random.IntN(3)))
		}
	}
}

// Which Pods have a place in an unordered update depends on those that are missing, too.
func TestPlacesOfMissingPodsInAnUnorderedUpdate(t *testing.T) {
	first := func(key string) edit {
		return unordered(&pub.UpdatePriorityStrategy{WeightPriority: []pub.UpdatePriorityWeightTerm{
			{Weight: 50, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: "1"}}},
		}})
	}
	t.Run("one that is held back comes last", func(t *testing.T) {
		f := newFixture(t)
		f.start(4, parallel, preUpdate, unavailable("4"), unordered(nil))
		f.Edit(image("b"))
		f.Rest()
		require.Len(t, f.lifecycle(), 4)
		f.Remove(modelcluster.Pods, namespace+"/"+name(3))
		f.Edit(partition(2))
		f.sync()
		require.Equal(t, pub.LifecycleStatePreparingUpdate, f.stateOf(2))
		require.Equal(t, pub.LifecycleStatePreparingUpdate, f.stateOf(1))
		require.Equal(t, pub.LifecycleStateNormal, f.stateOf(0))
	})
	t.Run("one that is made new takes the place of a lower one", func(t *testing.T) {
		f := newFixture(t)
		f.start(3, parallel, preUpdate, unavailable("3"), partition(2), first("w"))
		f.label(0, "w", "1")
		f.Edit(image("b"))
		f.Rest()
		require.Equal(t, pub.LifecycleStatePreparingUpdate, f.stateOf(0))
		f.EditPod(name(1), func(p *corev1.Pod) { p.Finalizers = []string{"example.com/stuck"} })
		f.DeletePod(name(1))
		f.Remove(modelcluster.Pods, namespace+"/"+name(2))
		f.Edit(partition(1))
		f.sync()
		require.Equal(t, pub.LifecycleStateNormal, f.stateOf(0))
	})
}

func TestPodsThatCannotBeCreatedDoNotUseUpWhatASyncMayLookAt(t *testing.T) {
	f := newFixture(t)
	f.controller.createAtOnce = 2
	f.create(12, parallel)
	f.Refuse("create", modelcluster.Pods, func(pod string) bool { return strings.Compare(pod, name(5)) >= 0 })
	f.Live(10 * time.Minute)
	require.Equal(t, "5 6 7 8 9", f.ordinals(), "names are compared as texts: neither 10 nor 11")
	f.Before = nil
	f.Live(2 * time.Minute)
	require.Equal(t, "0 1 2 3 4 5 6 7 8 9 10 11", f.ordinals())
}

// A failure is not forgotten while lower ordinals are in turn.
func TestFailuresOfPodsThatASyncDoesNotGetToAreRemembered(t *testing.T) {
	f := newFixture(t)
	f.controller.createAtOnce = 1
	f.create(6, parallel)
	attempts := 0
	f.Before = func(verb, resource, pod string) error {
		if verb == "create" && resource == modelcluster.Pods && pod == name(5) {
			attempts++
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, pod, fmt.Errorf("a policy says no"))
		}
		return nil
	}
	f.Live(10 * time.Minute)
	before := attempts
	for range 4 {
		for i := range 3 {
			f.Remove(modelcluster.Pods, namespace+"/"+name(i))
		}
		f.Live(time.Second)
	}
	require.LessOrEqual(t, attempts-before, 1)
	require.Equal(t, "0 1 2 3 4", f.ordinals())
}

func TestNamesThatOthersHoldDoNotUseUpWhatASyncMayLookAt(t *testing.T) {
	f := newFixture(t)
	f.controller.createAtOnce = 1
	f.start(4, parallel)
	for i := range 4 {
		f.EditPod(name(i), func(p *corev1.Pod) { p.Labels["app"] = "theirs" })
	}
	f.Edit(replicas(5))
	f.Rest()
	require.Equal(t, "4", f.ordinals())
}

func TestTheRestOfManyPodsIsCreatedWithoutAnEvent(t *testing.T) {
	f := newFixture(t)
	f.start(0, parallel)
	f.Edit(replicas(defaultAtOnce + 1))
	f.ShowAll()
	after, err := f.Sync()
	require.NoError(t, err)
	require.Len(t, f.Pods(), defaultAtOnce)
	require.Positive(t, after)
}
