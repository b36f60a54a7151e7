package cloneset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// Tests with a number carry out the scenario of that number.

func TestScenario1CreatedPodsCarryTheirIdentity(t *testing.T) {
	f := newFixture(t)
	f.create(5)
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	require.Len(t, f.Active(), 5)
	for _, p := range f.Active() {
		id := p.Labels[pub.CloneSetInstanceIDKey]
		require.Len(t, id, 5)
		require.Equal(t, setName+"-"+id, p.Name)
		require.Equal(t, "PreparingNormal", p.Labels[pub.LifecycleStateKey])
		require.Equal(t, f.Set().Status.UpdateRevision, p.Labels[pub.ControllerRevisionHashKey])
		require.True(t, strings.HasSuffix(p.Labels[pub.ControllerRevisionHashKey], "-"+p.Labels[pub.PodTemplateHashKey]))
		require.True(t, pods.HasGate(p, pub.InPlaceUpdateReady) && pods.HasGate(p, pub.KruisePodReady))
		require.True(t, metav1.IsControlledBy(p, f.Set()))
		require.Equal(t, corev1.PullAlways, p.Spec.Containers[0].ImagePullPolicy)
	}
	f.Rest()
	for _, p := range f.Active() {
		require.Equal(t, "Normal", p.Labels[pub.LifecycleStateKey])
	}
	s := f.Set().Status
	require.EqualValues(t, 5, s.Replicas)
	require.EqualValues(t, 5, s.UpdatedReplicas)
	require.Equal(t, s.CurrentRevision, s.UpdateRevision)
	require.Equal(t, map[string]int{"create pods": 5, "create controllerrevisions": 1, "patch/status pods": 5, "patch/status clonesets": f.Writes["patch/status clonesets"]}, f.Writes)
}

func TestScenario2AnUnschedulablePodStaysPreparingNormal(t *testing.T) {
	f := newFixture(t)
	f.create(1, func(s *v1beta1.CloneSet) {
		s.Spec.Template.Labels = map[string]string{"app": "web", "unschedulable": "yes"}
	})
	f.Rest()
	require.Equal(t, "PreparingNormal", f.Active()[0].Labels[pub.LifecycleStateKey])
	require.EqualValues(t, 1, f.Set().Status.Replicas)
	require.EqualValues(t, 0, f.Set().Status.ReadyReplicas)
}

func TestScenarios3And4AQuotaStopsTheSlowStartAndFailedScaleClears(t *testing.T) {
	f := newFixture(t)
	quota := 3
	attempts := 0
	f.Before = func(verb, resource, name string) error {
		if verb != "create" || resource != resourcePods {
			return nil
		}
		attempts++
		if quota--; quota < 0 {
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, fmt.Errorf("exceeded quota"))
		}
		return nil
	}
	f.create(10)
	f.ShowAll()
	_, err := f.Sync()
	require.Error(t, err)
	require.Equal(t, 7, attempts)
	require.Len(t, f.Active(), 3)
	c := f.conditionOf(v1beta1.CloneSetConditionFailedScale)
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Equal(t, ReasonFailedCreate, c.Reason)
	require.NotContains(t, c.Message, "\n")

	quota = 100
	f.Wait(workload.FirstRetry)
	f.Rest()
	require.Len(t, f.Active(), 10)
	c = f.conditionOf(v1beta1.CloneSetConditionFailedScale)
	require.Equal(t, corev1.ConditionFalse, c.Status)
	require.Equal(t, ReasonSucceeded, c.Reason)
}

func (f *fixture) revisionNumbers() map[string]int64 {
	out := map[string]int64{}
	for _, o := range f.Objects[resourceRevisions] {
		out[o.GetName()] = o.(*appsv1.ControllerRevision).Revision
	}
	return out
}

func TestScenario5ARollbackRenewsTheOldRevision(t *testing.T) {
	f := newFixture(t)
	f.start(1)
	first := f.Set().Status.UpdateRevision
	f.Edit(image("b"))
	f.Rest()
	second := f.Set().Status.UpdateRevision
	f.Edit(image("a"))
	f.Rest()
	require.Equal(t, first, f.Set().Status.UpdateRevision)
	require.Equal(t, map[string]int64{first: 3, second: 2}, f.revisionNumbers())
}

func TestScenario6HistoryKeepsTheLimit(t *testing.T) {
	f := newFixture(t)
	f.start(1, func(s *v1beta1.CloneSet) { s.Spec.RevisionHistoryLimit = ptr.To(int32(2)) })
	for _, i := range []string{"b", "c", "d", "e"} {
		f.Edit(image(i))
		f.Rest()
	}
	require.Len(t, f.revisionNumbers(), 3)
}

func TestScenario7AForeignRevisionOfTheNameCountsACollision(t *testing.T) {
	f := newFixture(t)
	f.start(1)
	name := f.Set().Status.UpdateRevision
	g := newFixture(t)
	g.Put(resourceRevisions, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: "foreign"},
		Data:       runtime.RawExtension{Raw: []byte(`{"x":1}`)},
	})
	g.start(1)
	require.EqualValues(t, 1, *g.Set().Status.CollisionCount)
	require.NotEqual(t, name, g.Set().Status.UpdateRevision)
	require.Len(t, g.Active(), 1)
}

func TestScenario8ARevisionOfTheSameMeaningIsTheSame(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	name := f.Set().Status.UpdateRevision
	r := f.Objects[resourceRevisions][namespace+"/"+name].DeepCopyObject().(*appsv1.ControllerRevision)
	r.Data.Raw = []byte(strings.Replace(string(r.Data.Raw), `"creationTimestamp":null,`, `"annotations":{},`, 1))
	require.Contains(t, string(r.Data.Raw), "annotations")
	f.Put(resourceRevisions, r)
	before := f.Changes()
	f.Restart()
	f.Rest()
	require.Equal(t, before, f.Changes(), "nothing is written")
}

func TestScenario9OtherFieldsMakeNoRevision(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	names := f.Names()
	f.Edit(func(s *v1beta1.CloneSet) {
		s.Labels = map[string]string{"x": "y"}
		s.Spec.MinReadySeconds = 1
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	})
	f.Rest()
	require.Len(t, f.revisionNumbers(), 1)
	require.Equal(t, names, f.Names())
}

func claimTemplate(s *v1beta1.CloneSet) {
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"tier": "db"}}}}
	s.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "other"}}
}

func TestScenario11EveryPodHasItsClaims(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate)
	require.Len(t, f.Objects[resourceClaims], 2)
	for _, p := range f.Active() {
		id := p.Labels[pub.CloneSetInstanceIDKey]
		claim := f.Objects[resourceClaims][namespace+"/data-web-"+id]
		require.NotNil(t, claim)
		require.Equal(t, map[string]string{"tier": "db", "app": "web", pub.CloneSetInstanceIDKey: id}, claim.GetLabels())
		require.True(t, metav1.IsControlledBy(claim, f.Set()))
		require.Equal(t, "data-web-"+id, p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
		require.Len(t, p.Spec.Volumes, 2)
		require.Equal(t, "other", p.Spec.Volumes[1].Name)
	}
}

func scaleUnavailable(v string) edit {
	return func(s *v1beta1.CloneSet) { s.Spec.ScaleStrategy.MaxUnavailable = ptr.To(intstr.Parse(v)) }
}

func TestScenario12CreationIsThrottled(t *testing.T) {
	f := newFixture(t)
	f.create(5, scaleUnavailable("2"))
	f.Rest()
	require.Equal(t, []int{2, 4, 5}, f.Counts)
	require.Contains(t, strings.Join(f.Events, "\n"), EventScaleUpLimited)
}

func TestCreationWaitsForWhatIsNotAvailable(t *testing.T) {
	f := newFixture(t)
	f.create(5, scaleUnavailable("2"))
	for range 5 {
		f.ShowAll()
		_, err := f.Sync()
		require.NoError(t, err)
	}
	require.Len(t, f.Active(), 2)
}

func TestScenario13NothingIsCreatedWithAScaleBudgetOfZero(t *testing.T) {
	f := newFixture(t)
	f.create(5, scaleUnavailable("0"))
	f.Rest()
	require.Empty(t, f.Active())
}

func TestScenario14ScaleInTakesAllAtOnce(t *testing.T) {
	f := newFixture(t)
	f.start(10)
	f.Edit(replicas(2))
	f.Pass()
	require.Len(t, f.Active(), 2)
}

func TestScenario15ScaleInTakesTheBrokenPodFirst(t *testing.T) {
	f := newFixture(t)
	f.start(5, unavailable("1"), partition("3"))
	f.Edit(image("broken"))
	f.Rest()
	require.Equal(t, "4a1broken", f.Images())
	f.Edit(replicas(3))
	f.Pass()
	require.Equal(t, "3a", f.Images())
}

func TestScenario17OnePodPerNodeIsLeft(t *testing.T) {
	f := newFixture(t)
	f.start(6)
	for i, p := range f.Active() {
		f.EditPod(p.Name, func(p *corev1.Pod) { p.Spec.NodeName = strings.Split("a a a b b c", " ")[i] })
	}
	f.Edit(replicas(3))
	f.Rest()
	nodes := map[string]bool{}
	for _, p := range f.Active() {
		nodes[p.Spec.NodeName] = true
	}
	require.Equal(t, map[string]bool{"a": true, "b": true, "c": true}, nodes)
}

func TestScenario18DeletionCosts(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	costs := []string{"10", "-5", "+3"}
	for i, p := range f.Active() {
		f.EditPod(p.Name, func(p *corev1.Pod) {
			p.Annotations[corev1.PodDeletionCost] = costs[i]
			p.Spec.NodeName = fmt.Sprint(i)
		})
	}
	left := func() (out []string) {
		for _, p := range f.Active() {
			out = append(out, p.Annotations[corev1.PodDeletionCost])
		}
		return out
	}
	f.Edit(replicas(2))
	f.Rest()
	require.ElementsMatch(t, []string{"10", "+3"}, left())
	f.Edit(replicas(1))
	f.Rest()
	require.Equal(t, []string{"10"}, left())
}

func TestScenarios19And20TheSplitFollowsThePartition(t *testing.T) {
	for _, c := range []struct {
		partition            string
		start                int32
		first, second, third string
		to, back             int32
	}{
		{"3", 5, "3a2b", "3a7b", "3a2b", 10, 5},
		{"50%", 4, "2a2b", "5a5b", "2a1b", 10, 3},
	} {
		f := newFixture(t)
		f.start(c.start, partition(c.partition))
		f.Edit(image("b"))
		f.Rest()
		require.Equal(t, c.first, f.Images())
		f.Edit(replicas(c.to))
		f.Rest()
		require.Equal(t, c.second, f.Images())
		f.Edit(replicas(c.back))
		f.Rest()
		require.Equal(t, c.third, f.Images())
	}
}

func TestScenario21PodsThatAreReadyButNotAvailableAreFreeToGo(t *testing.T) {
	f := newFixture(t)
	f.start(5, func(s *v1beta1.CloneSet) { s.Spec.MinReadySeconds = 9999 })
	f.Edit(replicas(3))
	f.Pass()
	require.Len(t, f.Active(), 3)
}

func TestScenario22ScaleInAndRolloutInOneWrite(t *testing.T) {
	f := newFixture(t)
	f.start(10, unavailable("2"))
	f.Edit(replicas(6), image("b"))
	f.Rest()
	require.GreaterOrEqual(t, f.Fewest, 4)
	require.Equal(t, "6b", f.Images())
}

func TestScenario23ScaleOutAndRolloutInOneWrite(t *testing.T) {
	f := newFixture(t)
	f.start(3, unavailable("1"))
	f.Edit(replicas(6), image("b"))
	f.Pass()
	require.Equal(t, "3a3b", f.Images())
	f.Rest()
	require.Equal(t, "6b", f.Images())
}

func TestScenarios24And25LostPodsAreReplacedAtOnce(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	failed, deleted := f.Names()[0], f.Names()[1]
	f.EditPod(failed, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	f.DeletePod(deleted)
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	require.Len(t, f.Active(), 3)
	require.Len(t, f.Pods(), 5, "the failed Pod stays, and the deleted one is still terminating")
	f.Rest()
	require.EqualValues(t, 3, f.Set().Status.Replicas)
}

func (f *fixture) markDelete(name string) {
	f.EditPod(name, func(p *corev1.Pod) { p.Labels[pub.SpecifiedDeleteKey] = "yes" })
}

func (f *fixture) breakPod(name string) {
	f.EditPod(name, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "broken" })
	f.Settle()
}

func TestAPodIsReplacedByOneOfItsRevision(t *testing.T) {
	for _, limits := range []edit{surge("1"), surge("2"), unavailable("1")} {
		for _, chosen := range []string{"a", "b"} {
			f := newFixture(t)
			f.start(5, partition("3"), unavailable("0"), surge("1"))
			f.Edit(image("b"))
			f.Rest()
			f.Edit(limits)
			f.markDelete(f.WithImage(chosen))
			f.Rest()
			require.Equal(t, "3a2b", f.Images(), "without one at %s", chosen)
		}
	}
}

func TestWhatThePartitionLacksIsCreatedFirst(t *testing.T) {
	f := newFixture(t)
	f.start(5, partition("3"))
	f.Edit(image("b"))
	f.Rest()
	f.DeletePod(f.WithImage("a"))
	f.DeletePod(f.WithImage("b"))
	f.Edit(scaleUnavailable("1"))
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	require.Equal(t, "3a1b", f.Images())
}

func TestScenarios28To31SpecifiedDelete(t *testing.T) {
	t.Run("28 a ready Pod waits for the broken one", func(t *testing.T) {
		f := newFixture(t)
		f.start(5, unavailable("1"))
		a, b := f.Names()[0], f.Names()[1]
		f.breakPod(a)
		f.markDelete(b)
		f.Rest()
		require.Contains(t, f.Names(), b)
		f.EditPod(a, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "a" })
		f.Settle()
		f.Rest()
		require.NotContains(t, f.Names(), b)
		require.Len(t, f.Active(), 5)
	})
	t.Run("29 with a surge the replacement comes first", func(t *testing.T) {
		f := newFixture(t)
		f.start(5, unavailable("1"), surge("1"))
		a, b := f.Names()[0], f.Names()[1]
		f.breakPod(a)
		f.markDelete(b)
		f.Pass()
		require.Len(t, f.Active(), 6)
		require.Contains(t, f.Names(), b)
		f.Rest()
		require.NotContains(t, f.Names(), b)
		require.GreaterOrEqual(t, f.Fewest, 4)
	})
	t.Run("30 a broken Pod goes at once", func(t *testing.T) {
		f := newFixture(t)
		f.start(5, unavailable("1"), surge("1"))
		a := f.Names()[0]
		f.breakPod(a)
		f.markDelete(a)
		f.Pass()
		require.NotContains(t, f.Names(), a)
	})
	t.Run("31 a ready Pod goes at once within the budget", func(t *testing.T) {
		f := newFixture(t)
		f.start(5, unavailable("2"), surge("1"))
		a, b := f.Names()[0], f.Names()[1]
		f.breakPod(a)
		f.markDelete(b)
		f.Pass()
		require.NotContains(t, f.Names(), b)
	})
}

func toDelete(names ...string) edit {
	return func(s *v1beta1.CloneSet) { s.Spec.ScaleStrategy.PodsToDelete = names }
}

func TestScenarios32And33PodsToDelete(t *testing.T) {
	f := newFixture(t)
	f.start(5, unavailable("1"))
	x := f.Names()[2]
	f.Edit(replicas(4), toDelete(x, "nosuch"))
	f.Rest()
	require.Len(t, f.Active(), 4)
	require.NotContains(t, f.Names(), x)
	require.Empty(t, f.Set().Spec.ScaleStrategy.PodsToDelete)
	require.Contains(t, strings.Join(f.Events, "\n"), "Warning PodsToDeleteNotFound nosuch")
	require.NotContains(t, strings.Join(f.Events, "\n"), "PodsToDeleteNotFound "+x)

	f.Watch()
	two := f.Names()[:2]
	f.Edit(toDelete(two...))
	f.Rest()
	require.NotContains(t, f.Names(), two[0])
	require.NotContains(t, f.Names(), two[1])
	require.Len(t, f.Active(), 4)
	require.Equal(t, 3, f.Fewest)
}

func onDelete(s *v1beta1.CloneSet) {
	s.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{Type: v1beta1.OnDeleteCloneSetUpdateStrategyType}
}

func TestScenario34SpecifiedDeleteWithOnDelete(t *testing.T) {
	f := newFixture(t)
	f.start(4, onDelete)
	x := f.Names()[0]
	f.markDelete(x)
	f.Rest()
	require.NotContains(t, f.Names(), x)
	require.Len(t, f.Active(), 4)
}

func TestScenario81And82AReleasedPodMayComeBack(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	x := f.Names()[0]
	f.EditPod(x, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
	f.Rest()
	require.Len(t, f.Active(), 3)
	require.NotContains(t, f.Names(), x)
	require.Contains(t, f.Objects[resourcePods], namespace+"/"+x, "it keeps running")
	f.Watch()
	f.EditPod(x, func(p *corev1.Pod) { p.Labels["app"] = "web" })
	f.Rest()
	require.Equal(t, 4, f.Most)
	require.Len(t, f.Active(), 3)
}

func TestScenarios83And85OtherPodsAreLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	f.Put(resourcePods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare", Namespace: namespace, UID: "bare", Labels: map[string]string{"app": "web"}}})
	f.Put(resourcePods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "theirs", Namespace: namespace, UID: "theirs", Labels: map[string]string{"app": "web"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "x", UID: "rs", Controller: ptr.To(true)}},
	}})
	before := f.Writes["patch pods"] + f.Writes["delete pods"]
	f.Rest()
	require.Equal(t, before, f.Writes["patch pods"]+f.Writes["delete pods"])
	require.Len(t, f.Active(), 2)
}

func TestScenario87TheNextLookIsWhenThePodBecomesAvailable(t *testing.T) {
	f := newFixture(t)
	f.start(1, func(s *v1beta1.CloneSet) { s.Spec.MinReadySeconds = 30 })
	require.EqualValues(t, 1, f.Set().Status.ReadyReplicas)
	require.EqualValues(t, 0, f.Set().Status.AvailableReplicas)
	f.Wait(10 * time.Second)
	f.ShowAll()
	again, err := f.Sync()
	require.NoError(t, err)
	require.InDelta(t, 20*time.Second, again, float64(time.Second))
	f.Wait(again)
	f.Rest()
	require.EqualValues(t, 1, f.Set().Status.AvailableReplicas)
}

func TestScenario106AVanishedPodBlocksNothing(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	f.Edit(replicas(3))
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	for _, p := range f.Pods() {
		if p.Spec.NodeName == "" {
			f.Remove(resourcePods, namespace+"/"+p.Name)
		}
	}
	f.Rest()
	require.Len(t, f.Active(), 3)
}

func TestThrottlingIsToldWhenItBeginsAndWhenItsLimitChanges(t *testing.T) {
	f := newFixture(t)
	told := func() int {
		n := 0
		for _, e := range f.Events {
			if strings.Contains(e, EventScaleUpLimited) {
				n++
			}
		}
		f.Events = nil
		return n
	}
	f.create(20, scaleUnavailable("1"))
	f.Live(time.Hour)
	require.Equal(t, 20, f.Available())
	require.Equal(t, 1, told())
	f.Edit(replicas(25))
	f.Live(time.Hour)
	require.Equal(t, 1, told(), "it begins again")
	f.Edit(replicas(30), scaleUnavailable("0"))
	f.Live(time.Hour)
	require.Equal(t, 1, told())
	f.Edit(scaleUnavailable("2"))
	f.Live(time.Hour)
	require.Equal(t, 1, told(), "the limit is another one")
	require.Equal(t, 30, f.Available())
}

func TestManyPodsAreCreatedWithoutWaitingForAnEvent(t *testing.T) {
	f := newFixture(t)
	f.start(1)
	f.Edit(replicas(createAtOnce + 2))
	f.ShowAll()
	again, err := f.Sync()
	require.NoError(t, err)
	require.Len(t, f.Active(), createAtOnce+1)
	require.Equal(t, workload.GateDelay, again)
}
