package cloneset

import (
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// The tests of this file are about work that is interrupted between two writes: nothing of it may be forgotten.

func sideImage(name string) edit {
	return func(s *v1beta1.CloneSet) {
		c := &s.Spec.Template.Spec.Containers
		if len(*c) == 1 {
			*c = append(*c, corev1.Container{Name: "side"})
		}
		(*c)[1].Image = name
	}
}

func graceSeconds(n int32) edit {
	return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{GracePeriodSeconds: n}
	})
}

func inPlaceOnly(s *v1beta1.CloneSet) {
	s.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType
}

// both are the images of the only Pod.
func (f *fixture) both() string {
	f.Helper()
	c := f.Active()[0].Spec.Containers
	return c[0].Image + "/" + c[1].Image
}

func TestAResizeIsNotForgotten(t *testing.T) {
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: resourcePods}, "web", errors.New("exceeded quota"))
	for name, c := range map[string]struct {
		policy edit
		verb   string
		lost   bool
		err    error
	}{
		"the answer to the write before it is lost":        {inPlace, "patch", true, io.ErrUnexpectedEOF},
		"its answer is lost":                               {inPlace, "patch/resize", true, io.ErrUnexpectedEOF},
		"it is refused once and may only be done in place": {inPlaceOnly, "patch/resize", false, refusal},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(1, inPlace, c.policy, cpu("1"), unavailable("1"))
			hook, failed := modelcluster.Once(c.verb, resourcePods, c.err)
			if c.lost {
				f.After = hook
			} else {
				f.Before = hook
			}
			f.Edit(cpu("2"))
			f.Live(time.Hour)
			require.True(t, failed())
			require.Equal(t, "2", f.Active()[0].Spec.Containers[0].Resources.Limits.Cpu().String())
			require.Equal(t, corev1.ConditionTrue, f.conditionOf("Ready").Status)
		})
	}
}

func TestAResizeThatIsRefusedForALongTimeShows(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlaceOnly, cpu("1"), unavailable("1"))
	f.Before = func(verb, resource, name string) error {
		if verb == "patch/resize" && resource == resourcePods {
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("exceeded quota"))
		}
		return nil
	}
	f.Edit(cpu("2"))
	f.Live(time.Hour)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
	require.Less(t, f.Writes["patch/resize pods"], 80, "about one attempt a minute")
	f.Before = nil
	f.Live(2 * time.Minute)
	require.Equal(t, "2", f.Active()[0].Spec.Containers[0].Resources.Limits.Cpu().String())
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
}

// A grace period ends and the template changes before the controller looks again.
func TestANewTargetAtTheEndOfAGracePeriod(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlace, sideImage("s1"), unavailable("1"), graceSeconds(30))
	f.Edit(sideImage("s2"))
	f.Pass()
	f.Pass()
	require.Contains(t, f.Active()[0].Annotations, pub.InPlaceUpdateGraceKey)
	f.Wait(31 * time.Second)
	f.Edit(image("b"), sideImage("s1"))
	f.Changed = func(_, is object) {
		if p, ok := is.(*corev1.Pod); ok {
			require.NotEqual(t, "s2", p.Spec.Containers[1].Image, "nobody wants it any more")
		}
	}
	f.Live(10 * time.Minute)
	require.Equal(t, "b/s1", f.both())
}

// In the middle of the batches of an update the Pod is taken elsewhere, and in the grace period of that it is to stay.
func TestATargetThatComesBackInAGracePeriod(t *testing.T) {
	f := newFixture(t)
	last := func(s *v1beta1.CloneSet) {
		s.Spec.Template.Spec.Containers[1].Env = []corev1.EnvVar{{Name: pub.ContainerPriorityEnv, Value: "10"}}
	}
	f.start(1, inPlace, sideImage("s1"), last, unavailable("1"), graceSeconds(30))
	f.Edit(image("c"), sideImage("s3"))
	f.Pass()
	f.Pass()
	f.Wait(31 * time.Second)
	once := func() {
		f.ShowAll()
		_, err := f.Sync()
		require.NoError(t, err)
	}
	once()
	require.Equal(t, "a/s3", f.both(), "the first batch")
	f.Edit(image("d"), sideImage("s2"))
	once()
	require.Contains(t, f.Active()[0].Annotations, pub.InPlaceUpdateGraceKey)
	f.Edit(image("c"), sideImage("s3"))
	f.Live(10 * time.Minute)
	require.Equal(t, "c/s3", f.both())
	require.True(t, pods.IsConditionTrue(f.Active()[0], pub.InPlaceUpdateReady))
}

// Another target is refused while the Pod waits in its grace period. The first one goes on, out of the Services.
func TestATargetThatIsRefusedInAGracePeriod(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlace, sideImage("s1"), unavailable("1"), graceSeconds(30))
	f.Edit(sideImage("s2"))
	f.Pass()
	f.Pass()
	require.Contains(t, f.Active()[0].Annotations, pub.InPlaceUpdateGraceKey)
	f.Before = func(verb, resource, name string) error {
		if verb == "patch" && resource == resourcePods {
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("a policy says no"))
		}
		return nil
	}
	f.Edit(image("b"))
	f.Live(20 * time.Second)
	require.False(t, pods.IsConditionTrue(f.Active()[0], pub.InPlaceUpdateReady))
	f.Before = nil
	f.Live(10 * time.Minute)
	require.Equal(t, "b/s2", f.both())
	require.True(t, pods.IsConditionTrue(f.Active()[0], pub.InPlaceUpdateReady))
}

// Other controllers do not note which revision the containers run during the grace period.
func TestANewTargetInAGracePeriodThatOthersBegan(t *testing.T) {
	for name, c := range map[string]struct {
		edit []edit
		want string
	}{
		"another image":       {[]edit{image("c")}, "c/s2"},
		"back":                {[]edit{image("a"), sideImage("s1")}, "a/s1"},
		"the other container": {[]edit{sideImage("s3")}, "b/s3"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(1, inPlace, sideImage("s1"), unavailable("1"), graceSeconds(30))
			f.Edit(image("b"), sideImage("s2"))
			f.Pass()
			f.Pass()
			f.EditPod(f.Names()[0], func(p *corev1.Pod) {
				state := map[string]any{}
				require.NoError(t, json.Unmarshal([]byte(p.Annotations[pub.InPlaceUpdateStateKey]), &state))
				require.NotNil(t, state["previousRevision"])
				delete(state, "previousRevision")
				raw, err := json.Marshal(state)
				require.NoError(t, err)
				p.Annotations[pub.InPlaceUpdateStateKey] = string(raw)
			})
			f.Edit(c.edit...)
			f.Live(10 * time.Minute)
			require.Equal(t, c.want, f.both())
		})
	}
}

// People copy templates from Pods.
func TestATemplateThatCarriesOurLabels(t *testing.T) {
	for _, key := range []string{pub.ControllerRevisionHashKey, pub.PodTemplateHashKey, pub.LifecycleStateKey, pub.CloneSetInstanceIDKey} {
		t.Run(key, func(t *testing.T) {
			f := newFixture(t)
			f.start(2, inPlace, unavailable("1"), func(s *v1beta1.CloneSet) { s.Spec.Template.Labels = map[string]string{"app": "web", key: "x"} })
			names := f.Names()
			f.Edit(image("b"), func(s *v1beta1.CloneSet) { s.Spec.Template.Labels[key] = "y" })
			f.Live(10 * time.Minute)
			require.Equal(t, "2b", f.Images())
			f.Edit(image("c"), func(s *v1beta1.CloneSet) { delete(s.Spec.Template.Labels, key) })
			f.Live(10 * time.Minute)
			require.Equal(t, "2c", f.Images())
			require.Equal(t, names, f.Names(), "in place")
			for _, p := range f.Active() {
				require.NotContains(t, []string{"", "x", "y"}, p.Labels[key])
			}
		})
	}
}

// Claims are used again after Pods that others deleted, not after those that made room for another revision.
func TestTheClaimsOfADeletedPodGoAlthoughTheirDeletionFails(t *testing.T) {
	for name, c := range map[string]struct {
		edit edit
		left int
	}{"replaced": {image("b"), 2}, "scaled in": {replicas(1), 1}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(2, claimTemplate, unavailable("2"), reuse)
			old := map[string]bool{}
			for _, c := range f.Objects[resourceClaims] {
				old[string(c.GetUID())] = true
			}
			hook, failed := modelcluster.Once("delete", resourceClaims, apierrors.NewInternalError(errors.New("hiccup")))
			f.Before = hook
			f.Edit(c.edit)
			f.Live(10 * time.Minute)
			require.True(t, failed())
			require.Len(t, f.Objects[resourceClaims], c.left)
			for _, claim := range f.Objects[resourceClaims] {
				require.Equal(t, name == "scaled in", old[string(claim.GetUID())])
			}
		})
	}
}

func TestTheClaimsOfAPodWhoseDeletionIsRefusedStayTheSets(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate, unavailable("2"), reuse)
	f.Refuse("delete", resourcePods, nil)
	f.Edit(replicas(1))
	f.Live(time.Minute)
	f.Before = nil
	f.Edit(replicas(2))
	f.Live(10 * time.Minute)
	require.Len(t, f.Active(), 2)
	f.areClaimsOfTheSet()
}

func (f *fixture) areClaimsOfTheSet() {
	f.Helper()
	for key, claim := range f.Objects[resourceClaims] {
		require.True(f, metav1.IsControlledBy(claim, f.Set()), "claim %s belongs to %v", key, claim.GetOwnerReferences())
	}
}

func TestAnAdoptedPodComesWithItsClaims(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate, unavailable("1"))
	name := f.Names()[0]
	f.EditPod(name, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
	f.Live(time.Minute)
	hook, failed := modelcluster.Once("patch", resourceClaims, apierrors.NewInternalError(errors.New("hiccup")))
	f.Before = hook
	f.Edit(replicas(4))
	f.EditPod(name, func(p *corev1.Pod) { p.Labels["app"] = "web" })
	f.Live(time.Hour)
	require.True(t, failed())
	require.Contains(t, f.Names(), name)
	f.areClaimsOfTheSet()
}

// The user relabels the Pod back between the writes that release it.
func TestAReleaseThatIsOvertaken(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate, unavailable("1"))
	name := f.Names()[0]
	done := false
	f.Before = func(verb, resource, pod string) error {
		if verb == "patch" && resource == resourcePods && pod == name && !done {
			done = true
			f.EditPod(name, func(p *corev1.Pod) { p.Labels["app"] = "web" })
			return apierrors.NewConflict(schema.GroupResource{Resource: resource}, name, errors.New("changed"))
		}
		return nil
	}
	f.EditPod(name, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
	f.Live(time.Hour)
	require.True(t, done)
	require.Contains(t, f.Names(), name)
	f.areClaimsOfTheSet()
}

// A Pod of a revision that is lost can never be updated in place. The others can.
func TestAPodThatCannotBeUpdatedHoldsUpNoOther(t *testing.T) {
	for i := range 3 {
		f := newFixture(t)
		f.start(3, inPlaceOnly, unavailable("1"))
		lost := f.Names()[i]
		f.EditPod(lost, func(p *corev1.Pod) { p.Labels[pub.ControllerRevisionHashKey] = setName + "-lost" })
		f.Edit(image("b"))
		f.Live(time.Hour)
		require.Equal(t, "1a2b", f.Images())
		require.Contains(t, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Message, lost)
	}
}

// Nothing is waited for that the caches do not show any more: a Pod that was deleted, is held, and is nobody's.
func TestADeletedPodThatIsOrphanedIsNotWaitedFor(t *testing.T) {
	f := newFixture(t)
	f.start(3, func(s *v1beta1.CloneSet) { s.Spec.Template.Finalizers = []string{"x/hold"} })
	f.Edit(image("b"))
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	for _, p := range f.Pods() {
		if p.DeletionTimestamp != nil {
			f.EditPod(p.Name, func(p *corev1.Pod) { p.OwnerReferences = nil; delete(p.Labels, pub.CloneSetInstanceIDKey) })
		}
	}
	f.Live(time.Minute)
	require.Len(t, f.Active(), 3)
}

func TestAStalledSetCountsItsPods(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.Edit(func(s *v1beta1.CloneSet) { s.Spec.UpdateStrategy.Type = "Blue" })
	f.DeletePod(f.Names()[0])
	f.Live(time.Minute)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)
	require.EqualValues(t, 2, f.Set().Status.Replicas)
	require.EqualValues(t, 2, f.Set().Status.AvailableReplicas)
}

// A Pod that waits for its hook to make room for a revision stays if the partition keeps it after all.
func TestAPartitionThatIsRaisedKeepsAPodThatWaitsToBeReplaced(t *testing.T) {
	f := newFixture(t)
	f.start(3, preDelete, unavailable("1"))
	names := f.Names()
	f.Edit(image("b"))
	f.Rest()
	require.Len(t, f.inState(pub.LifecycleStatePreparingDelete), 1)
	f.Edit(partition("3"))
	f.Rest()
	require.Empty(t, f.inState(pub.LifecycleStatePreparingDelete))
	require.Equal(t, names, f.Names())
	f.Edit(partition("2"))
	f.Rest()
	require.Len(t, f.inState(pub.LifecycleStatePreparingDelete), 1)
}

func TestASetGoesOnSoonAfterTheAPIServerIsBack(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	f.Before = func(string, string, string) error { return io.ErrUnexpectedEOF }
	f.Reading = func(string, string) error { return io.ErrUnexpectedEOF }
	f.Edit(replicas(5))
	f.Live(10 * time.Minute)
	f.Before, f.Reading = nil, nil
	f.Live(15 * time.Second)
	require.Len(t, f.Active(), 5)
}

// A deletion comes between an update and its resize, and is taken back.
func TestAResizeOutlivesADeletionThatIsTakenBack(t *testing.T) {
	f := newFixture(t)
	f.start(2, inPlace, preDelete, cpu("1"), unavailable("1"))
	crash := errors.New("the process ends here")
	f.Before = func(verb, resource, _ string) error {
		if verb == "patch/resize" && resource == resourcePods {
			return crash
		}
		return nil
	}
	f.Edit(cpu("2"))
	f.Live(50 * time.Millisecond)
	name := ""
	for _, p := range f.Active() {
		if p.Labels[pub.LifecycleStateKey] == string(pub.LifecycleStateUpdating) {
			name = p.Name
		}
	}
	require.NotEmpty(t, name)
	f.Edit(toDelete(name))
	f.Live(50 * time.Millisecond)
	require.Contains(t, f.inState(pub.LifecycleStatePreparingDelete), name)
	f.Edit(toDelete())
	f.Before = nil
	f.Live(time.Hour)
	require.Contains(t, f.Names(), name)
	for _, p := range f.Active() {
		require.Equal(t, "2", p.Spec.Containers[0].Resources.Limits.Cpu().String(), p.Name)
	}
}

// Somebody has made a Pod a further owner of a claim: the claim is still the set's, and there is nothing to take back.
func TestAFurtherOwnerOfAClaimIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.start(1, claimTemplate, reuse)
	pod := f.Active()[0]
	for _, claim := range f.Objects[resourceClaims] {
		more := claim.DeepCopyObject().(object)
		more.SetOwnerReferences(append(more.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}))
		f.Put(resourceClaims, more)
	}
	before := f.Total()
	f.Edit(func(s *v1beta1.CloneSet) { s.Spec.MinReadySeconds = 1 })
	f.Live(time.Minute)
	require.Zero(t, f.Writes["patch persistentvolumeclaims"])
	require.Less(t, f.Total()-before, 5)
}

func TestAPodInItsGracePeriodIsKeptWhateverThePolicyIfItRunsWhatIsWanted(t *testing.T) {
	f := newFixture(t)
	f.start(1, unavailable("1"), inPlace, graceSeconds(30))
	names := f.Names()
	f.Edit(image("b"))
	f.Pass()
	f.Edit(image("a"), func(s *v1beta1.CloneSet) {
		s.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.ReCreateCloneSetPodUpdatePolicyType
	})
	f.Live(time.Hour)
	require.Equal(t, names, f.Names())
	require.Equal(t, 1, f.Available())
	require.Equal(t, "1a", f.Images())
}
