package cloneset

import (
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// TestWhatIsRefusedForEverCostsNextToNothing: with any kind of write refused, ten minutes cost few writes, and most of them
// are attempts.
func TestWhatIsRefusedForEverCostsNextToNothing(t *testing.T) {
	for name, c := range map[string]struct {
		verb, resource string
		edits          []edit
		later          []edit
	}{
		"Pods":                      {"create", resourcePods, nil, nil},
		"Pods with claims":          {"create", resourcePods, []edit{claimTemplate}, nil},
		"claims":                    {"create", resourceClaims, []edit{claimTemplate}, nil},
		"revisions":                 {"create", resourceRevisions, nil, nil},
		"answers of gates":          {"patch/status", resourcePods, nil, nil},
		"statuses of sets":          {"patch/status", resourceSets, nil, nil},
		"deletions":                 {"delete", resourcePods, nil, []edit{image("b")}},
		"scale-in":                  {"delete", resourcePods, nil, []edit{replicas(1)}},
		"changes in place":          {"patch", resourcePods, []edit{inPlace}, []edit{image("b")}},
		"deletions of claims":       {"delete", resourceClaims, []edit{claimTemplate}, []edit{replicas(1)}},
		"deletions of revisions":    {"delete", resourceRevisions, []edit{noHistory}, []edit{image("b")}},
		"Pods after some are there": {"create", resourcePods, nil, []edit{replicas(5)}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if c.later == nil {
				f.Refuse(c.verb, c.resource, nil)
			}
			f.create(3, c.edits...)
			f.Live(time.Minute)
			if c.later != nil {
				require.Equal(t, 3, f.Available())
				f.Refuse(c.verb, c.resource, nil)
				f.Edit(c.later...)
			}
			f.Live(time.Minute)
			before := f.Total()
			syncs := f.Live(10 * time.Minute)
			require.LessOrEqual(t, f.Total()-before, 60, "writes %v, events %v", f.Writes, f.Events)
			require.LessOrEqual(t, syncs, 80)
			require.Less(t, f.Writes["create "+resourceClaims], 25)

			f.Before = nil
			f.Live(6 * time.Minute)
			require.EqualValues(t, *f.Set().Spec.Replicas, f.Available(), "it goes on when it may")
			require.Equal(t, int(*f.Set().Spec.Replicas), len(f.Active()))
			require.EqualValues(t, f.Set().Status.UpdatedReplicas, *f.Set().Spec.Replicas)
			for _, condition := range f.Set().Status.Conditions {
				if strings.HasPrefix(string(condition.Type), "Failed") {
					require.Equal(t, corev1.ConditionFalse, condition.Status, condition)
				}
			}
		})
	}
}

func noHistory(s *v1beta1.CloneSet) {
	none := int32(0)
	s.Spec.RevisionHistoryLimit = &none
}

func TestARefusedCreationNamesNoPodInTheStatus(t *testing.T) {
	f := newFixture(t)
	f.Refuse("create", resourcePods, nil)
	f.create(3)
	f.Live(time.Minute)
	c := f.conditionOf(v1beta1.CloneSetConditionFailedScale)
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Contains(t, c.Message, "a policy says no")
	require.Contains(t, c.Message, setName+"-*")
	require.LessOrEqual(t, f.Writes["patch/status "+resourceSets], 2)
}

func TestASpecThatIsCorrectedIsTriedAtOnce(t *testing.T) {
	f := newFixture(t)
	f.Refuse("create", resourcePods, nil)
	f.create(3)
	f.Live(10 * time.Minute)
	f.Before = nil
	f.Edit(image("b"))
	f.Live(time.Second)
	require.Equal(t, "3b", f.Images())
}

func TestWhileCreationIsRefusedTheRestGoesOn(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace, unavailable("3"))
	f.Refuse("create", resourcePods, nil)
	f.Edit(replicas(4))
	f.Live(10 * time.Minute)
	name := f.Names()[0]
	f.markDelete(name)
	f.Live(time.Second)
	require.Len(t, f.Active(), 2, "a deletion that was asked for does not wait for the quota")
}

// TestARefusedChangeTakesNoPodOutOfItsServicesAgain: the gate is closed for the first attempt, and opened in the same sync.
func TestARefusedChangeTakesNoPodOutOfItsServicesAgain(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace, unavailable("1"))
	stubborn := f.Names()[1]
	closed := 0
	f.Refuse("patch", resourcePods, func(name string) bool { return name != stubborn })
	f.Edit(image("b"))
	for range 60 {
		f.Live(time.Second)
		if f.Available() < 3 {
			closed++
		}
	}
	require.Equal(t, "1a2b", f.Images(), "one Pod that cannot be updated holds up no other")
	require.Zero(t, closed, "the gate was opened again at once")
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
	// Three per updated Pod, and one to close and one to open the gate of the stubborn one.
	require.LessOrEqual(t, f.Writes["patch/status "+resourcePods], 3+2*2+2)
	require.LessOrEqual(t, f.Writes["patch/status "+resourceSets], 12)
	f.Before = nil
	f.Live(2 * time.Minute)
	require.Equal(t, "3b", f.Images())
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
}

func TestACanaryPassesByAPodThatCannotBeUpdated(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace, partition("2"))
	first := ""
	f.Before = func(verb, resource, name string) error {
		if verb == "patch" && resource == resourcePods && (first == "" || name == first) {
			first = name
			return apierrors.NewBadRequest("no")
		}
		return nil
	}
	f.Edit(image("b"))
	f.Live(time.Second)
	require.Equal(t, "2a1b", f.Images())
}

// orphan is what deleting the set with orphan propagation leaves, with another set of the same name after it.
func (f *fixture) orphan() {
	for _, resource := range []string{resourcePods, resourceRevisions, resourceClaims} {
		for _, o := range f.Objects[resource] {
			c := o.DeepCopyObject().(object)
			c.SetOwnerReferences(nil)
			f.Put(resource, c)
		}
	}
	f.Edit(func(s *v1beta1.CloneSet) {
		s.UID, s.Status, s.Generation = types.UID("another"), v1beta1.CloneSetStatus{}, 1
	})
}

// What the garbage collector has released is to outlive the set.
func TestASetThatGoesAdoptsNoRevision(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	for _, o := range f.Objects[resourceRevisions] {
		c := o.DeepCopyObject().(object)
		c.SetOwnerReferences(nil)
		f.Put(resourceRevisions, c)
	}
	f.ShowAll()
	// This is not seen yet.
	f.Edit(func(s *v1beta1.CloneSet) {
		s.Finalizers = []string{"orphan"}
		s.DeletionTimestamp = &metav1.Time{Time: f.Clock.Now()}
	})
	clear(f.Writes)
	_, err := f.Sync()
	require.NoError(t, err)
	f.Rest()
	require.Zero(t, f.Writes["patch controllerrevisions"])
}

func TestScenario84ARecreatedSetTakesItsPodsBack(t *testing.T) {
	for name, edits := range map[string][]edit{"": nil, "with claims": {claimTemplate}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, edits...)
			names := f.Names()
			f.orphan()
			f.Watch()
			created := f.Writes["create pods"]
			f.Rest()
			require.Equal(t, created, f.Writes["create pods"])
			require.Equal(t, names, f.Names())
			require.Equal(t, 3, f.Most)
			require.EqualValues(t, 3, f.Set().Status.AvailableReplicas)
			for _, claim := range f.Objects[resourceClaims] {
				require.True(t, metav1.IsControlledBy(claim, f.Set()), "%s has come back with its Pod", claim.GetName())
			}
		})
	}
}

func TestAPodThatRefusesToBeAdoptedHoldsUpNobody(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	stubborn := f.Names()[0]
	f.orphan()
	f.Refuse("patch", resourcePods, func(name string) bool { return name != stubborn })
	f.Live(time.Minute)
	require.Len(t, f.Active(), 3)
	require.Equal(t, 3, f.Available())
}

func TestAReleasedPodKeepsItsClaimHoweverTheReleaseGoes(t *testing.T) {
	conflict := func(f *fixture) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: resourceClaims}, "", errors.New("changed"))
	}
	for name, fails := range map[string]func(*fixture) error{
		"the claim cannot be handed over at first": conflict,
		"the process dies at the hand-over":        func(*fixture) error { panic(modelcluster.ErrCrash) },
		"nothing goes wrong":                       func(*fixture) error { return nil },
	} {
		for _, reuse := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t)
				f.start(2, claimTemplate, func(s *v1beta1.CloneSet) { s.Spec.ScaleStrategy.EnablePVCReuse = reuse })
				released := f.Names()[0]
				claim := namespace + "/data-" + released
				f.EditPod(released, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
				once := true
				f.Before = func(verb, resource, _ string) error {
					if verb == "patch" && resource == resourceClaims && once {
						once = false
						return fails(f)
					}
					return nil
				}
				f.ShowAll()
				f.OrDie(func() { _, _ = f.Sync() })
				f.Rest()
				require.Contains(t, f.Objects[resourcePods], namespace+"/"+released)
				require.Contains(t, f.Objects[resourceClaims], claim)
				require.Equal(t, released, metav1.GetControllerOf(f.Objects[resourceClaims][claim]).Name)
				require.Len(t, f.Active(), 2)
			})
		}
	}
}

func TestAPodThatLosesItsLabelsLosesNoClaim(t *testing.T) {
	for name, spoil := range map[string]func(map[string]string){
		"no instance id":      func(l map[string]string) { delete(l, pub.CloneSetInstanceIDKey) },
		"another instance id": func(l map[string]string) { l[pub.CloneSetInstanceIDKey] = "other" },
		"neither state nor instance id": func(l map[string]string) {
			delete(l, pub.CloneSetInstanceIDKey)
			delete(l, pub.LifecycleStateKey)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(2, claimTemplate)
			claims := len(f.Objects[resourceClaims])
			victim := f.Names()[0]
			uid := f.Objects[resourceClaims][namespace+"/data-"+victim].GetUID()
			f.EditPod(victim, func(p *corev1.Pod) { spoil(p.Labels) })
			f.Pass()
			require.Equal(t, uid, f.Objects[resourceClaims][namespace+"/data-"+victim].GetUID())
			f.Rest()
			require.Len(t, f.Objects[resourceClaims], claims)
			require.Len(t, f.Active(), 2)
			for _, name := range f.Names() {
				require.Contains(t, f.Objects[resourceClaims], namespace+"/data-"+name)
			}
		})
	}
}

// TestAWriteInDoubtIsClearedUpFirst: the answer to a write is lost, and the API server is away for a while.
func TestAWriteInDoubtIsClearedUpFirst(t *testing.T) {
	for name, c := range map[string]struct {
		verb, resource string
		later          edit
		pods           int
	}{
		"creation":       {"create", resourcePods, replicas(3), 3},
		"deletion":       {"delete", resourcePods, replicas(1), 1},
		"closing a gate": {"patch/status", resourcePods, image("b"), 2},
		"recreation":     {"delete", resourcePods, func(s *v1beta1.CloneSet) { image("b")(s); recreate(s) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(2, inPlace, unavailable("1"))
			f.Edit(c.later)
			away := false
			f.Before = func(string, string, string) error {
				if away {
					return errors.New("connection refused")
				}
				return nil
			}
			f.Reading = func(string, string) error { return f.Before("", "", "") }
			f.After = func(verb, resource, _ string) error {
				if verb == c.verb && resource == c.resource && !away {
					away = true
					return io.ErrUnexpectedEOF
				}
				return nil
			}
			f.ShowAll()
			_, err := f.Sync()
			require.Error(t, err)
			_, err = f.Sync()
			require.Error(t, err, "still away")
			// The API server is back, the watch is not yet.
			f.After, away = nil, false
			n := f.Total()
			_, err = f.Sync()
			require.ErrorIs(t, err, kube.Waiting(workload.GateDelay))
			require.Equal(t, n, f.Total(), "nothing is decided before the caches show what came of it")
			f.Watch()
			f.Rest()
			require.Len(t, f.Active(), c.pods)
			require.LessOrEqual(t, f.Most, 3)
			require.GreaterOrEqual(t, f.Fewest, 1)
		})
	}
}

func recreate(s *v1beta1.CloneSet) {
	s.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.ReCreateCloneSetPodUpdatePolicyType
}

func TestTextThatIsNoLifecycleStateHoldsNobodyUp(t *testing.T) {
	f := newFixture(t)
	f.start(5, inPlace, unavailable("1"))
	f.EditPod(f.Names()[0], func(p *corev1.Pod) { p.Labels[pub.LifecycleStateKey] = "garbage" })
	f.Rest()
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "5b", f.Images())
	require.EqualValues(t, 5, f.Set().Status.AvailableReplicas)
}

func TestATemplateThatCannotBeRecordedShowsInTheStatus(t *testing.T) {
	f := newFixture(t)
	f.start(1)
	for _, o := range f.Objects[resourceRevisions] {
		r := o.DeepCopyObject().(*appsv1.ControllerRevision)
		r.Revision = math.MaxInt64
		f.Put(resourceRevisions, r)
	}
	f.Edit(image("b"))
	f.Live(time.Minute)
	require.Equal(t, "1a", f.Images())
	failed := f.conditionOf(v1beta1.CloneSetConditionFailedUpdate)
	require.Equal(t, corev1.ConditionTrue, failed.Status)
	require.Contains(t, failed.Message, "highest possible number")
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionReady).Status)
	require.Less(t, f.Set().Status.ObservedGeneration, f.Set().Generation)
	for _, o := range f.Objects[resourceRevisions] {
		r := o.DeepCopyObject().(*appsv1.ControllerRevision)
		r.Revision = 1
		f.Put(resourceRevisions, r)
	}
	f.Live(6 * time.Minute)
	require.Equal(t, "1b", f.Images())
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionReady).Status)
}

// TestNothingIsRememberedOfASetThatIsGone also when it goes in the middle of its sync.
func TestNothingIsRememberedOfASetThatIsGone(t *testing.T) {
	f := newFixture(t)
	f.create(5, func(s *v1beta1.CloneSet) {
		s.Spec.ScaleStrategy.MaxUnavailable = ptr.To(intstr.Parse("1"))
		s.Spec.ScaleStrategy.PodsToDelete = []string{"x"}
	})
	f.ShowAll()
	f.After = func(verb, resource, _ string) error {
		if verb == "create" && resource == resourcePods {
			gone := f.Set()
			f.Remove(resourceSets, namespace+"/"+setName)
			f.Miss(resourceSets, gone)
			return errors.New("lost")
		}
		return nil
	}
	_, _ = f.Sync()
	require.Empty(t, f.controller.memory.sets)
	require.True(t, f.controller.gate.Open("set"))
	_, failed := f.controller.backoff.Wait("set", partCreate, "1", f.Clock.Now())
	require.False(t, failed)
}

// Pods that serve although what their update gave them has not arrived are taken down within the budget all the same.
func TestPodsThatServeInTheMiddleOfAnUpdateGoOneByOne(t *testing.T) {
	f := newFixture(t)
	cpu := func(q string) func(*v1beta1.CloneSet) {
		return func(s *v1beta1.CloneSet) {
			s.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(q)}
			s.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}
	}
	f.start(4, inPlace, cpu("2"), unavailable("4"))
	f.Edit(cpu("3"))
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(t, err)
	for _, name := range f.Names() {
		f.EditPod(name, func(p *corev1.Pod) { p.Labels[pub.LifecycleStateKey] = string(pub.LifecycleStateNormal) })
		require.False(t, inplace.IsCompleted(f.Pod(name)))
	}
	require.Equal(t, 4, f.Available())
	f.Edit(image("b"), unavailable("1"))
	f.ShowAll()
	_, err = f.Sync()
	require.NoError(t, err)
	require.Equal(t, 3, f.Available())
	f.Rest()
	require.Equal(t, "4b", f.Images())
}

// forbid makes the API server refuse that verb for one object.
func (f *fixture) forbid(verb, resource, name string) {
	f.Refuse(verb, resource, func(other string) bool { return other != name })
}

func TestAPodThatCannotBeDeletedHoldsUpNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		edits []edit
		ask   func(f *fixture, name string)
		left  int
	}{
		"a user asked for its deletion": {[]edit{inPlace}, (*fixture).markDelete, 5},
		"it is the first to be scaled in": {nil, func(f *fixture, name string) {
			f.EditPod(name, func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "-5"} })
			f.Edit(replicas(4))
		}, 4},
		"its hook has let it go": {[]edit{inPlace, preDelete}, func(f *fixture, name string) {
			f.markDelete(name)
			f.Live(time.Minute)
			f.release(name)
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(5, append(c.edits, unavailable("2"))...)
			stubborn := f.Names()[0]
			f.forbid("delete", resourcePods, stubborn)
			c.ask(f, stubborn)
			f.Live(time.Minute)
			require.Equal(t, workload.Truth(c.left == 5), f.conditionOf(v1beta1.CloneSetConditionFailedScale).Status, "as long as no other will do")
			f.Edit(image("b"))
			f.Live(time.Hour)
			others := 0
			for _, p := range f.Active() {
				if p.Name != stubborn && p.Spec.Containers[0].Image == "b" {
					others++
				}
			}
			require.GreaterOrEqual(t, others, 3, f.Images())
			require.Len(t, f.Active(), c.left)
			before := f.Total()
			f.Live(10 * time.Minute)
			require.LessOrEqual(t, f.Total()-before, 40, "it is tried once a minute by now")
		})
	}
}

func TestADeletionThatCannotBeTakenBackHoldsUpNoUpdate(t *testing.T) {
	f := newFixture(t)
	f.start(5, unavailable("2"), inPlace, preDelete)
	f.Edit(replicas(4))
	f.Rest()
	leaving := f.inState(pub.LifecycleStatePreparingDelete)[0]
	f.forbid("patch/status", resourcePods, leaving)
	f.Edit(replicas(5), image("b"))
	f.Live(time.Minute)
	require.Contains(t, f.Images(), "4b")
	c := f.conditionOf(v1beta1.CloneSetConditionFailedScale)
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Contains(t, c.Message, leaving)
	require.True(t, f.wasTold(EventFailedDelete))
	f.Before = nil
	f.Live(2 * time.Minute)
	require.Equal(t, "5b", f.Images())
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionFailedScale).Status)
}

// What the first of two writes did is part of what the updates of the same sync would have to know.
func TestADeletionThatWasBegunIsAChange(t *testing.T) {
	f := newFixture(t)
	f.start(3, unavailable("1"), inPlace, hooked(pub.Lifecycle{PreDelete: byLabel(true)}))
	name := f.Names()[0]
	f.markDelete(name)
	f.forbid("patch", resourcePods, name)
	f.Edit(image("b"))
	f.ShowAll()
	_, err := f.Sync()
	require.Error(t, err)
	require.Equal(t, "3a", f.Images())
	require.Equal(t, 2, f.Available())
}

func (f *fixture) wasTold(reason string) bool {
	return slices.ContainsFunc(f.Events, func(e string) bool { return strings.Contains(e, reason) })
}

func TestAClaimThatCannotBeDeletedHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	f.start(3, claimTemplate)
	names := f.Names()
	f.forbid("delete", resourceClaims, "data-"+names[0])
	f.Events = nil
	for _, n := range names {
		f.Remove(resourcePods, namespace+"/"+n)
	}
	f.Live(time.Hour)
	require.Len(t, f.Claims(), 4)
	require.NotNil(t, f.Claim("data-"+names[0]))
	require.Equal(t, 3, f.Available())
	require.True(t, f.wasTold(EventFailedDelete))
	c := f.conditionOf(v1beta1.CloneSetConditionFailedScale)
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Contains(t, c.Message, "data-"+names[0])
	f.Before = nil
	f.Live(20 * time.Minute)
	require.Len(t, f.Claims(), 3)
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionFailedScale).Status)
}

func TestAClaimThatCannotBeTakenBackHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	f.start(3, claimTemplate, reuse)
	names := f.Names()
	f.forbid("patch", resourceClaims, "data-"+names[0])
	f.Events = nil
	// A deletion that did not come to pass has left the claim with its Pod. Another Pod is evicted.
	pod := f.Pod(names[0])
	f.EditClaim("data-"+names[0], func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = []metav1.OwnerReference{podReference(pod)} })
	f.EditPod(names[1], func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	f.Live(time.Minute)
	require.Equal(t, names, f.Names(), "under the same name, with its claim")
	require.True(t, f.wasTold(EventFailedUpdate))
	require.Contains(t, f.conditionOf(v1beta1.CloneSetConditionFailedScale).Message, "data-"+names[0])
}

func TestAPodThatHasEndedAndCannotBeDeletedIsReplacedUnderAnotherName(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate, reuse)
	name := f.Names()[0]
	f.forbid("delete", resourcePods, name)
	f.Events = nil
	f.EditPod(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	f.Live(time.Minute)
	require.True(t, f.wasTold(EventFailedDelete))
	c := f.conditionOf(v1beta1.CloneSetConditionFailedScale)
	require.Contains(t, c.Message, name)
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Equal(t, 2, f.Available())
	require.NotContains(t, f.Names(), name)
	before := f.Total()
	f.Live(10 * time.Minute)
	require.LessOrEqual(t, f.Total()-before, 25, "it is tried once a minute by now")
	f.Before = nil
	f.Live(2 * time.Minute)
	require.Nil(t, f.Pod(name))
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionFailedScale).Status)
}

// quota lets that many Pods exist.
func (f *fixture) quota(pods int) {
	f.Before = func(verb, resource, name string) error {
		if verb == "create" && resource == resourcePods && len(f.Pods()) >= pods {
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("exceeded quota"))
		}
		return nil
	}
}

// What failed for want of room does not keep a Pod from being replaced that has made room.
func TestAPodIsReplacedAtOnceWhileOthersCannotBeCreated(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.quota(3)
	f.Edit(replicas(5))
	f.Live(10 * time.Minute)
	require.Len(t, f.Active(), 3)
	for range 3 {
		f.DeletePod(f.Names()[0])
		start := f.Clock.Now()
		for len(f.Active()) < 3 {
			f.Live(100 * time.Millisecond)
		}
		require.Less(t, f.Clock.Now().Sub(start), 2*time.Second)
		f.Live(time.Second)
	}
	before := f.Total()
	f.Live(10 * time.Minute)
	require.LessOrEqual(t, f.Total()-before, 25, "the others are still tried later and later")
}

// TestARefusalIsTakenForOneWhateverItsCode: admission webhooks choose their codes freely.
func TestARefusalIsTakenForOneWhateverItsCode(t *testing.T) {
	denial := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 404, Message: `admission webhook "images.example" denied the request: image not found`,
	}}
	for name, c := range map[string]struct {
		verb      string
		edits     []edit
		later     edit
		condition v1beta1.CloneSetConditionType
		event     string
	}{
		"of a creation":          {"create", nil, replicas(4), v1beta1.CloneSetConditionFailedScale, EventFailedCreate},
		"of a deletion":          {"delete", nil, replicas(2), v1beta1.CloneSetConditionFailedScale, EventFailedDelete},
		"of a change in place":   {"patch", []edit{inPlace}, image("b"), v1beta1.CloneSetConditionFailedUpdate, EventFailedUpdateInPlace},
		"of Pods for new images": {"delete", nil, image("b"), v1beta1.CloneSetConditionFailedUpdate, EventFailedUpdateReCreate},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, c.edits...)
			f.Before = func(verb, resource, _ string) error {
				if strings.TrimPrefix(verb, "dry-run ") == c.verb && resource == resourcePods {
					return denial
				}
				return nil
			}
			f.Events = nil
			f.Edit(c.later)
			f.Live(10 * time.Minute)
			require.Equal(t, corev1.ConditionTrue, f.conditionOf(c.condition).Status)
			require.Contains(t, f.conditionOf(c.condition).Message, "image not found")
			require.True(t, f.wasTold(c.event))
			before := f.Total()
			f.Live(10 * time.Minute)
			require.LessOrEqual(t, f.Total()-before, 60)
			require.Equal(t, 3, f.Available())
		})
	}
}
