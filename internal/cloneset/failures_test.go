package cloneset

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// refuse makes the API server refuse what it is asked to write.
func (f *fixture) refuse(verb, resource string, unless func(name string) bool) {
	f.before = func(v, r, name string) error {
		if strings.TrimPrefix(v, "dry-run ") == verb && r == resource && (unless == nil || !unless(name)) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: r}, name, errors.New("a policy says no"))
		}
		return nil
	}
}

func (f *fixture) total() int {
	n := 0
	for _, count := range f.writes {
		n += count
	}
	return n
}

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
				f.refuse(c.verb, c.resource, nil)
			}
			f.create(3, c.edits...)
			f.live(time.Minute)
			if c.later != nil {
				require.Equal(t, 3, f.available())
				f.refuse(c.verb, c.resource, nil)
				f.edit(c.later...)
			}
			f.live(time.Minute)
			before := f.total()
			syncs := f.live(10 * time.Minute)
			require.LessOrEqual(t, f.total()-before, 60, "writes %v, events %v", f.writes, f.events)
			require.LessOrEqual(t, syncs, 80)
			require.Less(t, f.writes["create "+resourceClaims], 25)

			f.before = nil
			f.live(6 * time.Minute)
			require.EqualValues(t, *f.set().Spec.Replicas, f.available(), "it goes on when it may")
			require.Equal(t, int(*f.set().Spec.Replicas), len(f.active()))
			require.EqualValues(t, f.set().Status.UpdatedReplicas, *f.set().Spec.Replicas)
			for _, condition := range f.set().Status.Conditions {
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
	f.refuse("create", resourcePods, nil)
	f.create(3)
	f.live(time.Minute)
	c := f.conditionOf(v1beta1.CloneSetConditionFailedScale)
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Contains(t, c.Message, "a policy says no")
	require.Contains(t, c.Message, setName+"-*")
	require.LessOrEqual(t, f.writes["patch/status "+resourceSets], 2)
}

func TestASpecThatIsCorrectedIsTriedAtOnce(t *testing.T) {
	f := newFixture(t)
	f.refuse("create", resourcePods, nil)
	f.create(3)
	f.live(10 * time.Minute)
	f.before = nil
	f.edit(image("b"))
	f.live(time.Second)
	require.Equal(t, "3b", f.images())
}

func TestWhileCreationIsRefusedTheRestGoesOn(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace, unavailable("3"))
	f.refuse("create", resourcePods, nil)
	f.edit(replicas(4))
	f.live(10 * time.Minute)
	name := f.names()[0]
	f.markDelete(name)
	f.live(time.Second)
	require.Len(t, f.active(), 2, "a deletion that was asked for does not wait for the quota")
}

// TestARefusedChangeTakesNoPodOutOfItsServicesAgain: the gate is closed for the first attempt, and opened in the same sync.
func TestARefusedChangeTakesNoPodOutOfItsServicesAgain(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace, unavailable("1"))
	stubborn := f.names()[1]
	closed := 0
	f.refuse("patch", resourcePods, func(name string) bool { return name != stubborn })
	f.edit(image("b"))
	for range 60 {
		f.live(time.Second)
		if f.available() < 3 {
			closed++
		}
	}
	require.Equal(t, "1a2b", f.images(), "one Pod that cannot be updated holds up no other")
	require.Zero(t, closed, "the gate was opened again at once")
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
	// Three per updated Pod, and one to close and one to open the gate of the stubborn one.
	require.LessOrEqual(t, f.writes["patch/status "+resourcePods], 3+2*2+2)
	require.LessOrEqual(t, f.writes["patch/status "+resourceSets], 12)
	f.before = nil
	f.live(2 * time.Minute)
	require.Equal(t, "3b", f.images())
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
}

func TestACanaryPassesByAPodThatCannotBeUpdated(t *testing.T) {
	f := newFixture(t)
	f.start(3, inPlace, partition("2"))
	first := ""
	f.before = func(verb, resource, name string) error {
		if verb == "patch" && resource == resourcePods && (first == "" || name == first) {
			first = name
			return apierrors.NewBadRequest("no")
		}
		return nil
	}
	f.edit(image("b"))
	f.live(time.Second)
	require.Equal(t, "2a1b", f.images())
}

// orphan is what deleting the set with orphan propagation leaves, with another set of the same name after it.
func (f *fixture) orphan() {
	for _, resource := range []string{resourcePods, resourceRevisions, resourceClaims} {
		for _, o := range f.objects[resource] {
			c := o.DeepCopyObject().(object)
			c.SetOwnerReferences(nil)
			f.put(resource, c)
		}
	}
	f.apply(func(s *v1beta1.CloneSet) {
		s.UID, s.Status, s.Generation = types.UID("another"), v1beta1.CloneSetStatus{}, 1
	})
}

func TestScenario84ARecreatedSetTakesItsPodsBack(t *testing.T) {
	for name, edits := range map[string][]edit{"": nil, "with claims": {claimTemplate}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, edits...)
			names := f.names()
			f.orphan()
			f.watch()
			created := f.writes["create pods"]
			f.rest()
			require.Equal(t, created, f.writes["create pods"])
			require.Equal(t, names, f.names())
			require.Equal(t, 3, f.most)
			require.EqualValues(t, 3, f.set().Status.AvailableReplicas)
			for _, claim := range f.objects[resourceClaims] {
				require.True(t, metav1.IsControlledBy(claim, f.set()), "%s has come back with its Pod", claim.GetName())
			}
		})
	}
}

func TestAPodThatRefusesToBeAdoptedHoldsUpNobody(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	stubborn := f.names()[0]
	f.orphan()
	f.refuse("patch", resourcePods, func(name string) bool { return name != stubborn })
	f.live(time.Minute)
	require.Len(t, f.active(), 3)
	require.Equal(t, 3, f.available())
}

func TestAReleasedPodKeepsItsClaimHoweverTheReleaseGoes(t *testing.T) {
	conflict := func(f *fixture) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: resourceClaims}, "", errors.New("changed"))
	}
	for name, fails := range map[string]func(*fixture) error{
		"the claim cannot be handed over at first": conflict,
		"the process dies at the hand-over":        func(*fixture) error { panic(errCrash) },
		"nothing goes wrong":                       func(*fixture) error { return nil },
	} {
		for _, reuse := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t)
				f.start(2, claimTemplate, func(s *v1beta1.CloneSet) { s.Spec.ScaleStrategy.EnablePVCReuse = reuse })
				released := f.names()[0]
				claim := namespace + "/data-" + released
				f.model.edit(released, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
				once := true
				f.before = func(verb, resource, _ string) error {
					if verb == "patch" && resource == resourceClaims && once {
						once = false
						return fails(f)
					}
					return nil
				}
				f.show(len(f.history))
				f.syncOrDie()
				f.rest()
				require.Contains(t, f.objects[resourcePods], namespace+"/"+released)
				require.Contains(t, f.objects[resourceClaims], claim)
				require.Equal(t, released, metav1.GetControllerOf(f.objects[resourceClaims][claim]).Name)
				require.Len(t, f.active(), 2)
			})
		}
	}
}

func (f *fixture) syncOrDie() {
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); !ok || !errors.Is(err, errCrash) {
				panic(r)
			}
			f.restart()
		}
	}()
	_, _ = f.sync()
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
			claims := len(f.objects[resourceClaims])
			victim := f.names()[0]
			uid := f.objects[resourceClaims][namespace+"/data-"+victim].GetUID()
			f.model.edit(victim, func(p *corev1.Pod) { spoil(p.Labels) })
			f.pass()
			require.Equal(t, uid, f.objects[resourceClaims][namespace+"/data-"+victim].GetUID())
			f.rest()
			require.Len(t, f.objects[resourceClaims], claims)
			require.Len(t, f.active(), 2)
			for _, name := range f.names() {
				require.Contains(t, f.objects[resourceClaims], namespace+"/data-"+name)
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
			f.edit(c.later)
			away := false
			f.before = func(string, string, string) error {
				if away {
					return errors.New("connection refused")
				}
				return nil
			}
			f.reading = func(string, string) error { return f.before("", "", "") }
			f.after = func(verb, resource, _ string) error {
				if verb == c.verb && resource == c.resource && !away {
					away = true
					return io.ErrUnexpectedEOF
				}
				return nil
			}
			f.show(len(f.history))
			_, err := f.sync()
			require.Error(t, err)
			_, err = f.sync()
			require.Error(t, err, "still away")
			// The API server is back, the watch is not yet.
			f.after, away = nil, false
			n := f.total()
			_, err = f.sync()
			require.ErrorIs(t, err, kube.Waiting(workload.GateDelay))
			require.Equal(t, n, f.total(), "nothing is decided before the caches show what came of it")
			f.watch()
			f.rest()
			require.Len(t, f.active(), c.pods)
			require.LessOrEqual(t, f.most, 3)
			require.GreaterOrEqual(t, f.fewest, 1)
		})
	}
}

func recreate(s *v1beta1.CloneSet) {
	s.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.ReCreateCloneSetPodUpdatePolicyType
}

func TestTextThatIsNoLifecycleStateHoldsNobodyUp(t *testing.T) {
	f := newFixture(t)
	f.start(5, inPlace, unavailable("1"))
	f.model.edit(f.names()[0], func(p *corev1.Pod) { p.Labels[pub.LifecycleStateKey] = "garbage" })
	f.rest()
	f.edit(image("b"))
	f.rest()
	require.Equal(t, "5b", f.images())
	require.EqualValues(t, 5, f.set().Status.AvailableReplicas)
}

func TestATemplateThatCannotBeRecordedShowsInTheStatus(t *testing.T) {
	f := newFixture(t)
	f.start(1)
	for _, o := range f.objects[resourceRevisions] {
		r := o.DeepCopyObject().(*appsv1.ControllerRevision)
		r.Revision = math.MaxInt64
		f.put(resourceRevisions, r)
	}
	f.edit(image("b"))
	f.live(time.Minute)
	require.Equal(t, "1a", f.images())
	failed := f.conditionOf(v1beta1.CloneSetConditionFailedUpdate)
	require.Equal(t, corev1.ConditionTrue, failed.Status)
	require.Contains(t, failed.Message, "highest possible number")
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionReady).Status)
	require.Less(t, f.set().Status.ObservedGeneration, f.set().Generation)
	for _, o := range f.objects[resourceRevisions] {
		r := o.DeepCopyObject().(*appsv1.ControllerRevision)
		r.Revision = 1
		f.put(resourceRevisions, r)
	}
	f.live(6 * time.Minute)
	require.Equal(t, "1b", f.images())
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
	f.show(len(f.history))
	f.after = func(verb, resource, _ string) error {
		if verb == "create" && resource == resourcePods {
			gone := f.set()
			f.remove(resourceSets, namespace+"/"+setName)
			must(f.controller.sets.GetStore().Delete(gone))
			f.watches[resourceSets].Handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: gone})
			return errors.New("lost")
		}
		return nil
	}
	_, _ = f.sync()
	require.Empty(t, f.controller.memory.sets)
	require.True(t, f.controller.gate.Open("set"))
	_, failed := f.controller.backoff.Wait("set", partCreate, "1", f.clock.Now())
	require.False(t, failed)
}
