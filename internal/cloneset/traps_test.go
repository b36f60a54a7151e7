package cloneset

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// Ways in which controllers of this kind are known to have gone wrong. The other traps are among the scenarios.

func TestTrap1TheSurgeStaysWideToTheEnd(t *testing.T) {
	f := newFixture(t)
	f.start(198, unavailable("0"), surge("25%"))
	f.Edit(image("b"))
	var waves []int
	for range 100 {
		before := f.Writes["create pods"]
		f.Pass()
		if n := f.Writes["create pods"] - before; n > 0 {
			waves = append(waves, n)
		}
	}
	require.Equal(t, []int{50, 50, 50, 48}, waves)
	require.Equal(t, "198b", f.Images())
	require.Equal(t, 198+50, f.Most)
	require.GreaterOrEqual(t, f.Fewest, 198)
}

func TestTrap2AnUpdateInPlaceNeedsNoSurge(t *testing.T) {
	f := newFixture(t)
	f.start(100, inPlace, surge("5%"), unavailable("10%"))
	created, deleted := f.Writes["create pods"], f.Writes["delete pods"]
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "100b", f.Images())
	require.Equal(t, created, f.Writes["create pods"])
	require.Equal(t, deleted, f.Writes["delete pods"])
	require.GreaterOrEqual(t, f.Fewest, 90)
}

func TestTrap4OnlyTheBadPodGoesWhenTheTemplateIsSetBack(t *testing.T) {
	f := newFixture(t)
	f.start(1, surge("50%"), unavailable("10%"))
	good := f.Names()[0]
	f.Edit(image("broken"))
	f.Rest()
	require.Equal(t, "1a1broken", f.Images())
	f.Edit(image("a"))
	f.Rest()
	require.Equal(t, []string{good}, f.Names())
	require.Equal(t, 1, f.Fewest)
}

func TestTrap5APercentageFollowsTheReplicas(t *testing.T) {
	f := newFixture(t)
	f.start(10, partition("50%"), unavailable("100%"))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "5a5b", f.Images())
	f.Edit(replicas(20))
	f.Rest()
	require.Equal(t, "10a10b", f.Images())
}

func TestTrap6IntegersAreAsGoodAsPercentages(t *testing.T) {
	f := newFixture(t)
	f.start(10, surge("5"), unavailable("0"))
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "10b", f.Images())
	require.GreaterOrEqual(t, f.Fewest, 10)
	require.Equal(t, 15, f.Most)
}

func TestTrap7AGateIsAlwaysAnswered(t *testing.T) {
	policy := func(p v1beta1.CloneSetPodUpdatePolicyType) edit {
		return rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.PodUpdatePolicy = p })
	}
	for name, e := range map[string]edit{
		"ReCreate":    policy(v1beta1.ReCreateCloneSetPodUpdatePolicyType),
		"InPlaceOnly": policy(v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType),
		"paused":      paused(true),
		"OnDelete": func(s *v1beta1.CloneSet) {
			s.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{Type: v1beta1.OnDeleteCloneSetUpdateStrategyType}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, e)
			require.Equal(t, 3, f.Available())
			// Somebody closes one, such as a process that died before it went on.
			f.EditPod(f.Names()[0], func(p *corev1.Pod) {
				pods.Condition(p, pub.InPlaceUpdateReady).Status = corev1.ConditionFalse
			})
			f.Rest()
			require.Equal(t, 3, f.Available())
		})
	}
}

func TestTrap10AFieldThatIsNewerThanOurTypesSurvives(t *testing.T) {
	// Only a patch that names nothing else leaves unknown fields alone; a patch is all that is ever sent.
	f := newFixture(t)
	f.start(2, inPlace)
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "2b", f.Images())
	for verb := range f.Writes {
		require.NotContains(t, verb, "update")
	}
}

func TestTrap12AnEvictedPodIsReplacedAtOnce(t *testing.T) {
	f := newFixture(t)
	f.start(3)
	f.EditPod(f.Names()[0], func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" })
	f.Pass()
	require.Len(t, f.Active(), 3)
	require.Len(t, f.Pods(), 4, "the evicted Pod stays for those who want to know why")
}

func TestTrap14RevisionsThatAreOddAreNoReasonToFlipFlop(t *testing.T) {
	twin := func(f *fixture, change func(*appsv1.ControllerRevision)) {
		for _, o := range f.Objects[resourceRevisions] {
			r := o.DeepCopyObject().(*appsv1.ControllerRevision)
			r.Name, r.UID = setName+"-54321", "twin"
			change(r)
			f.Put(resourceRevisions, r)
			return
		}
	}
	for name, change := range map[string]func(*appsv1.ControllerRevision){
		"an equal twin":              func(*appsv1.ControllerRevision) {},
		"an equal, newer twin":       func(r *appsv1.ControllerRevision) { r.Revision++ },
		"one without annotations":    func(r *appsv1.ControllerRevision) { r.Annotations = nil },
		"one that is no template":    func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`{"spec":7}`) },
		"one that is no JSON":        func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`{`) },
		"one without data":           func(r *appsv1.ControllerRevision) { r.Data.Raw = nil },
		"one that belongs to nobody": func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(2)
			names := f.Names()
			twin(f, change)
			f.Rest()
			before := f.Total()
			f.Live(time.Hour)
			require.Equal(t, before, f.Total(), "stable")
			require.Equal(t, names, f.Names())
			f.Edit(image("b"))
			f.Rest()
			require.Equal(t, "2b", f.Images())
			f.Edit(image("a"))
			f.Rest()
			require.Equal(t, "2a", f.Images())
			before = f.Total()
			f.Live(time.Hour)
			require.Equal(t, before, f.Total(), "stable")
		})
	}
}

func TestTrap15AnAutoscalerInTheMiddleOfARollout(t *testing.T) {
	for _, edits := range [][]edit{nil, {paused(true)}, {partition("50%")}, {inPlace}, {inPlace, partition("2"), surge("1")}} {
		f := newFixture(t)
		f.start(6, edits...)
		f.Edit(image("b"), replicas(9))
		for _, n := range []int32{8, 12, 3, 7} {
			f.Pass()
			f.Edit(replicas(n))
			f.Pass()
		}
		f.Rest()
		require.Len(t, f.Active(), 7)
		require.Equal(t, 7, f.Available())
		if edits == nil {
			require.Equal(t, "7b", f.Images())
		}
	}
}

func TestScenario10LongNamesGetAShortLabel(t *testing.T) {
	const long = "a-name-of-sixty-characters-that-leaves-no-room-for-any-hash-"
	f := newFixture(t)
	f.create(1)
	set := f.Set().DeepCopy()
	f.Remove(resourceSets, namespace+"/"+setName)
	set.Name = long + "x"
	f.Put(resourceSets, set)
	f.ShowAll()
	_, err := f.controller.sync(t.Context(), metaName(set))
	require.NoError(t, err)
	require.Len(t, f.Pods(), 1)
	p := f.Pods()[0]
	require.Equal(t, p.Labels[pub.PodTemplateHashKey], p.Labels[pub.ControllerRevisionHashKey])
	require.LessOrEqual(t, len(p.Labels[pub.ControllerRevisionHashKey]), 63)
}

func TestScenario16TheOldGroupIsCutToThePartitionFirst(t *testing.T) {
	f := newFixture(t)
	f.start(4, inPlace, unavailable("2"))
	f.Edit(image("broken"))
	f.Rest()
	require.Equal(t, "2a2broken", f.Images())
	f.Edit(replicas(3))
	f.Rest()
	require.Equal(t, "1a2broken", f.Images())
}

func TestScenario26ADrainingPodIsNotHeldUpByThrottling(t *testing.T) {
	f := newFixture(t)
	f.start(3, preDelete, func(s *v1beta1.CloneSet) {
		s.Spec.ScaleStrategy.ExcludePreparingDelete = true
		s.Spec.ScaleStrategy.MaxUnavailable = intOf("1")
	})
	x := f.Names()[0]
	f.markDelete(x)
	f.Rest()
	require.Equal(t, []string{x}, f.inState(pub.LifecycleStatePreparingDelete))
	f.release(x)
	f.Rest()
	require.Len(t, f.Active(), 3)
	require.NotContains(t, f.Names(), x)
}

func TestScenario27AQuotaDoesNotHoldUpADeletion(t *testing.T) {
	f := newFixture(t)
	f.start(3, unavailable("3"))
	f.DeletePod(f.Names()[0])
	x := f.Names()[0]
	f.markDelete(x)
	f.Refuse("create", resourcePods, nil)
	f.Live(time.Minute)
	require.NotContains(t, f.Names(), x)
	require.Len(t, f.Active(), 1)
}

func TestScenarios35And36ADrainingPodMayBeReplacedBeforeItGoes(t *testing.T) {
	for name, excluded := range map[string]bool{"35 excluded": true, "36 counted": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, preDelete, func(s *v1beta1.CloneSet) { s.Spec.ScaleStrategy.ExcludePreparingDelete = excluded })
			x := f.Names()[0]
			f.markDelete(x)
			f.Rest()
			require.Equal(t, []string{x}, f.inState(pub.LifecycleStatePreparingDelete))
			if excluded {
				require.Len(t, f.Active(), 4)
			} else {
				require.Len(t, f.Active(), 3)
				require.EqualValues(t, 3, f.Set().Status.Replicas)
				require.EqualValues(t, 2, f.Set().Status.AvailableReplicas)
			}
			f.release(x)
			f.Rest()
			require.Len(t, f.Active(), 3)
			require.NotContains(t, f.Names(), x)
		})
	}
}

func TestScenario39APodThatWasCutOffIsNotTakenBack(t *testing.T) {
	f := newFixture(t)
	f.start(5, preDelete, func(s *v1beta1.CloneSet) { s.Spec.Lifecycle.PreDelete.MarkPodNotReady = true })
	f.Edit(replicas(3))
	f.Rest()
	held := f.inState(pub.LifecycleStatePreparingDelete)
	require.Len(t, held, 2)
	f.Edit(replicas(5))
	f.Rest()
	require.Equal(t, held, f.inState(pub.LifecycleStatePreparingDelete))
	for _, name := range held {
		f.release(name)
	}
	f.Rest()
	require.Len(t, f.Active(), 5)
	for _, name := range held {
		require.NotContains(t, f.Names(), name)
	}
}

func TestScenario40ASetThatIsDeletedDoesNothing(t *testing.T) {
	f := newFixture(t)
	f.start(3, preDelete)
	f.Edit(func(s *v1beta1.CloneSet) {
		s.Finalizers = []string{"foregroundDeletion"}
		s.DeletionTimestamp = &metav1.Time{Time: f.Clock.Now()}
	})
	// What the garbage collector does.
	for _, name := range f.Names() {
		f.DeletePod(name)
	}
	before := f.Total()
	f.Rest()
	require.Equal(t, before, f.Total())
	require.Empty(t, f.Pods())
}

func TestTheGarbageCollectorIsNotGivenNewPods(t *testing.T) {
	f := newFixture(t)
	f.start(1)
	f.Before = func(verb, resource, name string) error {
		if verb == "create" {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
				Message: "the namespace is being terminated", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}}}
		}
		return nil
	}
	f.DeletePod(f.Names()[0])
	events := len(f.Events)
	f.Live(time.Minute)
	require.Len(t, f.Events, events, "that a namespace goes is nothing to report")
	require.Empty(t, f.conditionOf(v1beta1.CloneSetConditionFailedScale).Status)
}

func TestPartitionRollback(t *testing.T) {
	start := func(on bool) *fixture {
		f := newFixture(t)
		f.options.PartitionRollback = on
		f.Restart()
		f.start(5, partition("2"), unavailable("2"), inPlace)
		f.Edit(image("b"))
		f.Rest()
		require.Equal(t, "2a3b", f.Images())
		f.Watch()
		f.Edit(partition("4"))
		f.Rest()
		return f
	}
	require.Equal(t, "2a3b", start(false).Images(), "off: raising the partition takes nothing back")
	f := start(true)
	require.Equal(t, "4a1b", f.Images())
	require.GreaterOrEqual(t, f.Fewest, 3)
	f.Edit(partition("0"))
	f.Rest()
	require.Equal(t, "5b", f.Images())
}

// Pods that lack at both revisions are created, not taken from one to the other and created once more.
func TestPartitionRollbackWhileScalingOut(t *testing.T) {
	f := newFixture(t)
	f.options.PartitionRollback = true
	f.Restart()
	f.start(1, unavailable("100%"), scaleUnavailable("1"), func(s *v1beta1.CloneSet) { s.Spec.MinReadySeconds = 3 })
	first := f.Names()
	f.Edit(image("b"), partition("3"), replicas(4))
	f.Live(time.Minute)
	require.Equal(t, "3a1b", f.Images())
	require.Contains(t, f.Names(), first[0])
	require.Zero(t, f.Writes["delete pods"])
}

// conflictOnce is somebody else's write in between.
func conflictOnce(f *fixture, verb, resource string) {
	done := false
	f.Before = func(v, r, name string) error {
		if v == verb && r == resource && !done {
			done = true
			return apierrors.NewConflict(schema.GroupResource{Resource: r}, name, errors.New("changed"))
		}
		return nil
	}
}

func TestTrap8AConflictIsNoFailure(t *testing.T) {
	for _, verb := range []string{"patch", "patch/status", "delete"} {
		t.Run(verb, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, inPlace)
			conflictOnce(f, verb, resourcePods)
			f.Edit(image("b"))
			f.Live(time.Minute)
			require.Equal(t, "3b", f.Images())
			require.Empty(t, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
			for _, event := range f.Events {
				require.NotContains(t, event, "Failed")
			}
		})
	}
}

func TestAResizeThatNoNodeCanGive(t *testing.T) {
	for policy, want := range map[v1beta1.CloneSetPodUpdatePolicyType]string{
		v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType: "replaced",
		v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType:       "kept",
	} {
		t.Run(want, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, unavailable("1"), cpu("1"), rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.PodUpdatePolicy = policy }))
			names := f.Names()
			f.Edit(cpu("200"))
			f.Live(10 * time.Second)
			f.Edit(cpu("3"))
			f.Live(10 * time.Minute)
			require.Equal(t, 3, f.Available())
			for _, p := range f.Active() {
				require.Equal(t, "3", p.Spec.Containers[0].Resources.Limits.Cpu().String())
			}
			if want == "kept" {
				require.Equal(t, names, f.Names())
			}
		})
	}
	t.Run("43 the Pod stays available where it must stay", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, unavailable("1"), cpu("1"), rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
			r.PodUpdatePolicy = v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType
		}))
		name := f.Names()[0]
		f.Edit(cpu("200"))
		f.Live(time.Minute)
		require.Equal(t, []string{name}, f.Names())
		require.Equal(t, 1, f.Available())
		failed := f.conditionOf(v1beta1.CloneSetConditionFailedUpdate)
		require.Equal(t, corev1.ConditionTrue, failed.Status)
		require.Contains(t, failed.Message, "not enough cpu")
		before := f.Total()
		f.Live(time.Hour)
		require.Equal(t, before, f.Total())
		f.Edit(cpu("2"))
		f.Live(time.Minute)
		require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status)
	})
	t.Run("a refusal by the API server replaces the Pod too", func(t *testing.T) {
		f := newFixture(t)
		f.start(2, unavailable("1"), cpu("1"), inPlace)
		names := f.Names()
		f.Refuse("patch/resize", resourcePods, nil)
		f.Edit(cpu("2"))
		f.Live(time.Minute)
		require.Len(t, f.Active(), 2)
		require.Equal(t, 2, f.Available())
		for _, name := range names {
			require.NotContains(t, f.Names(), name)
		}
		require.GreaterOrEqual(t, f.Fewest, 1)
	})
}

func intOf(text string) *intstr.IntOrString { return ptr.To(intstr.Parse(text)) }

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

func metaName(o metav1.Object) cache.ObjectName { return cache.MetaObjectToName(o) }

func cpu(limit string) edit {
	return func(s *v1beta1.CloneSet) {
		s.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: quantity("500m")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: quantity(limit)},
		}
	}
}

func TestInPlaceScenario18APodOfALostRevisionIsRecreated(t *testing.T) {
	f := newFixture(t)
	f.start(2, inPlace)
	names := f.Names()
	for _, name := range names {
		f.EditPod(name, func(p *corev1.Pod) { p.Labels[pub.ControllerRevisionHashKey] = setName + "-lost" })
	}
	f.Edit(image("b"))
	f.Rest()
	require.Equal(t, "2b", f.Images())
	for _, name := range names {
		require.NotContains(t, f.Names(), name)
	}
}

func TestInPlaceScenario17AnImpossibleChangeNamesThePod(t *testing.T) {
	f := newFixture(t)
	f.start(1, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.PodUpdatePolicy = v1beta1.InPlaceOnlyCloneSetPodUpdatePolicyType
	}))
	f.Edit(func(s *v1beta1.CloneSet) {
		s.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	})
	f.Rest()
	require.Contains(t, f.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Message, f.Names()[0])
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.CloneSetConditionStalled).Status)
}

func TestInPlaceScenario63OnePodTakesTwoWrites(t *testing.T) {
	f := newFixture(t)
	f.start(1)
	require.Equal(t, 1, f.Writes["create pods"])
	require.Equal(t, 1, f.Writes["patch/status pods"])
	require.Zero(t, f.Writes["patch pods"])
}

func TestOneEventSaysThatPreDownloadHasNoEffect(t *testing.T) {
	f := newFixture(t)
	f.start(1, inPlace, rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) {
		r.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{ImagePreDownloadParallelism: intOf("2")}
	}))
	f.Edit(image("b"))
	f.Rest()
	f.Edit(image("c"))
	f.Rest()
	n := 0
	for _, event := range f.Events {
		if event == fmt.Sprintf("Warning %s %s", EventPreDownloadIgnored, workload.PreDownloadIgnored) {
			n++
		}
	}
	require.Equal(t, 1, n, f.Events)
	g := newFixture(t)
	g.start(1, func(s *v1beta1.CloneSet) {
		s.Annotations = map[string]string{pub.ImagePreDownloadParallelismKey: "2"}
	})
	require.Contains(t, fmt.Sprint(g.Events), EventPreDownloadIgnored)
	h := newFixture(t)
	h.start(1)
	require.NotContains(t, fmt.Sprint(h.Events), EventPreDownloadIgnored)
}

// Somebody may take the set's control of a Pod away and leave the reference.
func TestAPodHasOneReferenceToItsSet(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate)
	name := f.Names()[0]
	f.EditPod(name, func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil })
	f.Live(time.Minute)
	require.Equal(t, []metav1.OwnerReference{ownerReference(f.Set())}, f.Pod(name).OwnerReferences)
	require.Len(t, f.Active(), 2)

	// One that has two is released from both.
	f.EditPod(name, func(p *corev1.Pod) {
		again := ownerReference(f.Set())
		again.Controller = nil
		p.OwnerReferences = append(p.OwnerReferences, again)
		p.Labels = map[string]string{pub.CloneSetInstanceIDKey: p.Labels[pub.CloneSetInstanceIDKey]}
	})
	f.Live(time.Minute)
	require.Empty(t, f.Pod(name).OwnerReferences)
	require.Len(t, f.Active(), 2)
}

// A template that was copied from a Pod brings what was noted on that Pod.
func TestNewPodsAreBornWithoutWhatWasNotedOnOthers(t *testing.T) {
	f := newFixture(t)
	f.start(2, inPlace, unavailable("1"), func(s *v1beta1.CloneSet) {
		s.Spec.Template.Labels[pub.SpecifiedDeleteKey] = "true"
		s.Spec.Template.Annotations = map[string]string{
			pub.CloneSetRecreateRevisionKey: "web-x", pub.InPlaceUpdateStateKey: "{}", pub.InPlaceUpdateGraceKey: "{}", "mine": "1",
		}
	})
	require.Equal(t, 2, f.Writes["create pods"])
	for _, p := range f.Active() {
		require.NotContains(t, p.Labels, pub.SpecifiedDeleteKey)
		require.NotContains(t, p.Annotations, pub.CloneSetRecreateRevisionKey)
		require.NotContains(t, p.Annotations, pub.InPlaceUpdateStateKey)
		require.NotContains(t, p.Annotations, pub.InPlaceUpdateGraceKey)
		require.Equal(t, "1", p.Annotations["mine"])
	}
	name := f.Names()[0]
	f.markDelete(name)
	f.Live(time.Minute)
	require.NotContains(t, f.Names(), name)
	require.Equal(t, 2, f.Available())
}

func TestClaimTemplatesOfARevisionAreTakenFromTheSpecAlone(t *testing.T) {
	f := newFixture(t)
	f.start(3, partition("3"), func(s *v1beta1.CloneSet) {
		s.Annotations = map[string]string{pub.CloneSetVolumeClaimTemplatesKey: "garbage"}
	})
	f.Edit(image("b"))
	f.Rest()
	f.DeletePod(f.Names()[0])
	f.Live(time.Minute)
	require.Equal(t, "3a", f.Images())
}

func TestADeletionThatAUserAskedForOutlivesTheRolloutBesideIt(t *testing.T) {
	f := newFixture(t)
	f.start(2, preDelete, unavailable("1"))
	f.Edit(image("b"))
	f.Rest()
	name := f.inState(pub.LifecycleStatePreparingDelete)[0]
	f.EditPod(name, func(p *corev1.Pod) { p.Labels[pub.SpecifiedDeleteKey] = "user" })
	f.Rest()
	f.Edit(image("a"))
	f.Rest()
	require.Equal(t, "user", f.Pod(name).Labels[pub.SpecifiedDeleteKey])
	require.Equal(t, []string{name}, f.inState(pub.LifecycleStatePreparingDelete))
	f.release(name)
	f.Live(time.Minute)
	require.NotContains(t, f.Names(), name)
	require.Equal(t, "2a", f.Images())
}

func TestASelectorThatNoPodOfTheSetCanMatchStalls(t *testing.T) {
	for key, value := range map[string]string{
		pub.PodTemplateHashKey: "x", pub.ControllerRevisionHashKey: "web-x", pub.CloneSetInstanceIDKey: "bcdfg", pub.LifecycleStateKey: "Normal",
	} {
		f := newFixture(t)
		f.create(2, func(s *v1beta1.CloneSet) {
			s.Spec.Selector.MatchLabels[key] = value
			s.Spec.Template.Labels[key] = value
		})
		f.Rest()
		require.Empty(t, f.Pods(), key)
		c := f.conditionOf(v1beta1.CloneSetConditionStalled)
		require.Equal(t, corev1.ConditionTrue, c.Status)
		require.Equal(t, workload.ReasonInvalidSelector, c.Reason)
		require.Contains(t, c.Message, key)
	}
	f := newFixture(t)
	f.create(2, func(s *v1beta1.CloneSet) {
		s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: pub.PodTemplateHashKey, Operator: metav1.LabelSelectorOpExists}}
		s.Spec.Template.Labels[pub.PodTemplateHashKey] = "x"
	})
	f.Rest()
	require.Equal(t, 2, f.Available())
}
