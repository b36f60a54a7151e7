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
	c := f.active()[0].Spec.Containers
	return c[0].Image + "/" + c[1].Image
}

// once lets the first write of that verb to that resource fail.
func once(verb, resource string, err error) (hook func(verb, resource, name string) error, failed func() bool) {
	done := false
	return func(v, r, _ string) error {
		if v == verb && r == resource && !done {
			done = true
			return err
		}
		return nil
	}, func() bool { return done }
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
			hook, failed := once(c.verb, resourcePods, c.err)
			if c.lost {
				f.after = hook
			} else {
				f.before = hook
			}
			f.edit(cpu("2"))
			f.live(time.Hour)
			require.True(t, failed())
			require.Equal(t, "2", f.active()[0].Spec.Containers[0].Resources.Limits.Cpu().String())
			require.Equal(t, corev1.ConditionTrue, f.conditionOf("Ready").Status)
		})
	}
}

func TestAResizeThatIsRefusedForALongTimeShows(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlaceOnly, cpu("1"), unavailable("1"))
	f.before = func(verb, resource, name string) error {
		if verb == "patch/resize" && resource == resourcePods {
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("exceeded quota"))
		}
		return nil
	}
	f.edit(cpu("2"))
	f.live(time.Hour)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
	require.Less(t, f.writes["patch/resize pods"], 80, "about one attempt a minute")
	f.before = nil
	f.live(2 * time.Minute)
	require.Equal(t, "2", f.active()[0].Spec.Containers[0].Resources.Limits.Cpu().String())
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
}

// A grace period ends and the template changes before the controller looks again.
func TestANewTargetAtTheEndOfAGracePeriod(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlace, sideImage("s1"), unavailable("1"), graceSeconds(30))
	f.edit(sideImage("s2"))
	f.pass()
	f.pass()
	require.Contains(t, f.active()[0].Annotations, pub.InPlaceUpdateGraceKey)
	f.wait(31 * time.Second)
	f.edit(image("b"), sideImage("s1"))
	f.changed = func(_, is object) {
		if p, ok := is.(*corev1.Pod); ok {
			require.NotEqual(t, "s2", p.Spec.Containers[1].Image, "nobody wants it any more")
		}
	}
	f.live(10 * time.Minute)
	require.Equal(t, "b/s1", f.both())
}

// Another target is refused while the Pod waits in its grace period. The first one goes on, out of the Services.
func TestATargetThatIsRefusedInAGracePeriod(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlace, sideImage("s1"), unavailable("1"), graceSeconds(30))
	f.edit(sideImage("s2"))
	f.pass()
	f.pass()
	require.Contains(t, f.active()[0].Annotations, pub.InPlaceUpdateGraceKey)
	f.before = func(verb, resource, name string) error {
		if verb == "patch" && resource == resourcePods {
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("a policy says no"))
		}
		return nil
	}
	f.edit(image("b"))
	f.live(20 * time.Second)
	require.False(t, pods.IsConditionTrue(f.active()[0], pub.InPlaceUpdateReady))
	f.before = nil
	f.live(10 * time.Minute)
	require.Equal(t, "b/s2", f.both())
	require.True(t, pods.IsConditionTrue(f.active()[0], pub.InPlaceUpdateReady))
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
			f.edit(image("b"), sideImage("s2"))
			f.pass()
			f.pass()
			f.model.edit(f.names()[0], func(p *corev1.Pod) {
				state := map[string]any{}
				require.NoError(t, json.Unmarshal([]byte(p.Annotations[pub.InPlaceUpdateStateKey]), &state))
				require.NotNil(t, state["previousRevision"])
				delete(state, "previousRevision")
				raw, err := json.Marshal(state)
				require.NoError(t, err)
				p.Annotations[pub.InPlaceUpdateStateKey] = string(raw)
			})
			f.edit(c.edit...)
			f.live(10 * time.Minute)
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
			names := f.names()
			f.edit(image("b"), func(s *v1beta1.CloneSet) { s.Spec.Template.Labels[key] = "y" })
			f.live(10 * time.Minute)
			require.Equal(t, "2b", f.images())
			f.edit(image("c"), func(s *v1beta1.CloneSet) { delete(s.Spec.Template.Labels, key) })
			f.live(10 * time.Minute)
			require.Equal(t, "2c", f.images())
			require.Equal(t, names, f.names(), "in place")
			for _, p := range f.active() {
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
			for _, c := range f.objects[resourceClaims] {
				old[string(c.GetUID())] = true
			}
			hook, failed := once("delete", resourceClaims, apierrors.NewInternalError(errors.New("hiccup")))
			f.before = hook
			f.edit(c.edit)
			f.live(10 * time.Minute)
			require.True(t, failed())
			require.Len(t, f.objects[resourceClaims], c.left)
			for _, claim := range f.objects[resourceClaims] {
				require.Equal(t, name == "scaled in", old[string(claim.GetUID())])
			}
		})
	}
}

func TestTheClaimsOfAPodWhoseDeletionIsRefusedStayTheSets(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate, unavailable("2"), reuse)
	f.refuse("delete", resourcePods, nil)
	f.edit(replicas(1))
	f.live(time.Minute)
	f.before = nil
	f.edit(replicas(2))
	f.live(10 * time.Minute)
	require.Len(t, f.active(), 2)
	f.areClaimsOfTheSet()
}

func (f *fixture) areClaimsOfTheSet() {
	f.Helper()
	for key, claim := range f.objects[resourceClaims] {
		require.True(f, metav1.IsControlledBy(claim, f.set()), "claim %s belongs to %v", key, claim.GetOwnerReferences())
	}
}

func TestAnAdoptedPodComesWithItsClaims(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate, unavailable("1"))
	name := f.names()[0]
	f.model.edit(name, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
	f.live(time.Minute)
	hook, failed := once("patch", resourceClaims, apierrors.NewInternalError(errors.New("hiccup")))
	f.before = hook
	f.edit(replicas(4))
	f.model.edit(name, func(p *corev1.Pod) { p.Labels["app"] = "web" })
	f.live(time.Hour)
	require.True(t, failed())
	require.Contains(t, f.names(), name)
	f.areClaimsOfTheSet()
}

// The user relabels the Pod back between the writes that release it.
func TestAReleaseThatIsOvertaken(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate, unavailable("1"))
	name := f.names()[0]
	done := false
	f.before = func(verb, resource, pod string) error {
		if verb == "patch" && resource == resourcePods && pod == name && !done {
			done = true
			f.model.edit(name, func(p *corev1.Pod) { p.Labels["app"] = "web" })
			return apierrors.NewConflict(schema.GroupResource{Resource: resource}, name, errors.New("changed"))
		}
		return nil
	}
	f.model.edit(name, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
	f.live(time.Hour)
	require.True(t, done)
	require.Contains(t, f.names(), name)
	f.areClaimsOfTheSet()
}

// A Pod of a revision that is lost can never be updated in place. The others can.
func TestAPodThatCannotBeUpdatedHoldsUpNoOther(t *testing.T) {
	for i := range 3 {
		f := newFixture(t)
		f.start(3, inPlaceOnly, unavailable("1"))
		lost := f.names()[i]
		f.model.edit(lost, func(p *corev1.Pod) { p.Labels[pub.ControllerRevisionHashKey] = setName + "-lost" })
		f.edit(image("b"))
		f.live(time.Hour)
		require.Equal(t, "1a2b", f.images())
		require.Contains(t, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Message, lost)
	}
}

// Nothing is waited for that the caches do not show any more: a Pod that was deleted, is held, and is nobody's.
func TestADeletedPodThatIsOrphanedIsNotWaitedFor(t *testing.T) {
	f := newFixture(t)
	f.start(3, func(s *v1beta1.CloneSet) { s.Spec.Template.Finalizers = []string{"x/hold"} })
	f.edit(image("b"))
	f.show(len(f.history))
	_, err := f.sync()
	require.NoError(t, err)
	for _, p := range f.podList() {
		if p.DeletionTimestamp != nil {
			f.model.edit(p.Name, func(p *corev1.Pod) { p.OwnerReferences = nil; delete(p.Labels, pub.CloneSetInstanceIDKey) })
		}
	}
	f.live(time.Minute)
	require.Len(t, f.active(), 3)
}

func TestAStalledSetCountsItsPods(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.edit(func(s *v1beta1.CloneSet) { s.Spec.UpdateStrategy.Type = "Blue" })
	f.deletePod(f.names()[0])
	f.live(time.Minute)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)
	require.EqualValues(t, 2, f.set().Status.Replicas)
	require.EqualValues(t, 2, f.set().Status.AvailableReplicas)
}

// A Pod that waits for its hook to make room for a revision stays if the partition keeps it after all.
func TestAPartitionThatIsRaisedKeepsAPodThatWaitsToBeReplaced(t *testing.T) {
	f := newFixture(t)
	f.start(3, preDelete, unavailable("1"))
	names := f.names()
	f.edit(image("b"))
	f.rest()
	require.Len(t, f.inState(pub.LifecycleStatePreparingDelete), 1)
	f.edit(partition("3"))
	f.rest()
	require.Empty(t, f.inState(pub.LifecycleStatePreparingDelete))
	require.Equal(t, names, f.names())
	f.edit(partition("2"))
	f.rest()
	require.Len(t, f.inState(pub.LifecycleStatePreparingDelete), 1)
}

func TestASetGoesOnSoonAfterTheAPIServerIsBack(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	f.before = func(string, string, string) error { return io.ErrUnexpectedEOF }
	f.reading = func(string, string) error { return io.ErrUnexpectedEOF }
	f.edit(replicas(5))
	f.live(10 * time.Minute)
	f.before, f.reading = nil, nil
	f.live(15 * time.Second)
	require.Len(t, f.active(), 5)
}

// A deletion comes between an update and its resize, and is taken back.
func TestAResizeOutlivesADeletionThatIsTakenBack(t *testing.T) {
	f := newFixture(t)
	f.start(2, inPlace, preDelete, cpu("1"), unavailable("1"))
	crash := errors.New("the process ends here")
	f.before = func(verb, resource, _ string) error {
		if verb == "patch/resize" && resource == resourcePods {
			return crash
		}
		return nil
	}
	f.edit(cpu("2"))
	f.live(50 * time.Millisecond)
	name := ""
	for _, p := range f.active() {
		if p.Labels[pub.LifecycleStateKey] == string(pub.LifecycleStateUpdating) {
			name = p.Name
		}
	}
	require.NotEmpty(t, name)
	f.edit(toDelete(name))
	f.live(50 * time.Millisecond)
	require.Contains(t, f.inState(pub.LifecycleStatePreparingDelete), name)
	f.edit(toDelete())
	f.before = nil
	f.live(time.Hour)
	require.Contains(t, f.names(), name)
	for _, p := range f.active() {
		require.Equal(t, "2", p.Spec.Containers[0].Resources.Limits.Cpu().String(), p.Name)
	}
}

// Somebody has made a Pod a further owner of a claim: the claim is still the set's, and there is nothing to take back.
func TestAFurtherOwnerOfAClaimIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.start(1, claimTemplate, reuse)
	pod := f.active()[0]
	for _, claim := range f.objects[resourceClaims] {
		more := claim.DeepCopyObject().(object)
		more.SetOwnerReferences(append(more.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}))
		f.put(resourceClaims, more)
	}
	before := f.total()
	f.edit(func(s *v1beta1.CloneSet) { s.Spec.MinReadySeconds = 1 })
	f.live(time.Minute)
	require.Zero(t, f.writes["patch persistentvolumeclaims"])
	require.Less(t, f.total()-before, 5)
}
