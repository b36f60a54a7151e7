package cloneset

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// syncs are as many syncs at which the kubelet does nothing but make Ready follow the gates: it still pulls.
func (f *fixture) syncs(n int) {
	f.Helper()
	for range n {
		f.ShowAll()
		_, err := f.Sync()
		require.NoError(f, err)
		for _, name := range f.Names() {
			f.EditPod(name, func(p *corev1.Pod) {
				if gate := pods.Condition(p, pub.InPlaceUpdateReady); gate != nil && pods.Condition(p, corev1.PodReady) != nil {
					pods.Condition(p, corev1.PodReady).Status = gate.Status
				}
			})
		}
	}
}

// resizeByOthers gives a Pod more than its node has, as an autoscaler would.
func (f *fixture) resizeByOthers(name string) {
	f.EditPod(name, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: quantity("500")}
		p.Generation++
	})
	f.Settle()
}

func (f *fixture) limit() string { return f.only().Spec.Containers[0].Resources.Limits.Cpu().String() }

func TestAPodThatItsNodeRefusesIsReplacedThroughItsHook(t *testing.T) {
	f := newFixture(t)
	f.start(3, unavailable("1"), cpu("1"), preDelete, inPlace)
	f.Edit(cpu("200"))
	for range 60 {
		f.Live(time.Second)
		for _, name := range f.inState(pub.LifecycleStatePreparingDelete) {
			f.release(name)
		}
	}
	require.Len(t, f.Active(), 3)
	for _, p := range f.Active() {
		require.NotEqual(t, pub.LifecycleStatePreparingNormal, pods.LifecycleState(p))
	}
	require.Empty(t, f.withCPU("1"))
}

// withCPU is the name of a Pod whose first container has that limit; "" without any.
func (f *fixture) withCPU(limit string) string {
	for _, p := range f.Active() {
		if p.Spec.Containers[0].Resources.Limits.Cpu().String() == limit {
			return p.Name
		}
	}
	return ""
}

func TestAPodWhoseResizeIsRefusedWaitsForItsHookInPeace(t *testing.T) {
	f := newFixture(t)
	f.start(1, unavailable("1"), cpu("1"), preDelete, inPlace)
	f.Before = func(verb, resource, name string) error {
		if verb == "patch/resize" && resource == resourcePods {
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("exceeded quota"))
		}
		return nil
	}
	f.Edit(cpu("2"))
	f.Live(time.Minute)
	require.Equal(t, pub.LifecycleStatePreparingDelete, f.state())
	before := f.Total()
	f.Live(time.Hour)
	require.Equal(t, before, f.Total())
}

func TestWhatOthersAskForIsNoMatterOfAnUpdate(t *testing.T) {
	t.Run("a Pod whose image changes is not replaced", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, unavailable("1"), cpu("1"), inPlace)
		name := f.Names()[0]
		f.resizeByOthers(name)
		f.Edit(image("b"))
		f.syncs(3)
		require.Contains(t, f.Names(), name)
	})
	t.Run("an image is waited for", func(t *testing.T) {
		f := newFixture(t)
		f.start(4, unavailable("1"), cpu("1"), inPlaceOnly)
		for _, name := range f.Names() {
			f.resizeByOthers(name)
		}
		f.Edit(image("b"))
		f.syncs(12)
		require.Equal(t, "3a1b", f.Images())
	})
	t.Run("nothing is reported", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, unavailable("1"), cpu("1"), inPlaceOnly)
		f.resizeByOthers(f.Names()[0])
		f.Live(time.Minute)
		require.NotEqual(t, corev1.ConditionTrue, f.conditionOf("Stalled").Status)
	})
	give := func(f *fixture) {
		f.EditPod(f.Names()[0], func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = quantity("5") })
	}
	t.Run("it is not taken away by an update of something else", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, unavailable("1"), cpu("1"), inPlace, hooked(pub.Lifecycle{InPlaceUpdate: byLabel(false)}))
		f.Edit(cpu("2"))
		f.Rest()
		f.label("hook", "false")
		f.label("hook", "true")
		require.Equal(t, pub.LifecycleStateNormal, f.state())
		give(f)
		f.Rest()
		f.Edit(image("b"))
		f.Rest()
		require.Equal(t, pub.LifecycleStatePreparingUpdate, f.state())
		require.Equal(t, "5", f.limit())
	})
	t.Run("nor while a deletion waits", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, unavailable("1"), cpu("1"), inPlace, preDelete)
		f.Edit(cpu("2"))
		f.Rest()
		f.Edit(replicas(0))
		f.Rest()
		give(f)
		f.Live(time.Minute)
		require.Equal(t, "5", f.limit())
	})
}

func TestARefusedResizeDoesNotCutAnImageShort(t *testing.T) {
	f := newFixture(t)
	f.start(4, unavailable("1"), cpu("1"), inPlaceOnly)
	f.Edit(image("b"), cpu("200"))
	for range 12 {
		f.syncs(1)
		for _, p := range f.Active() {
			if p.Spec.Containers[0].Resources.Limits.Cpu().String() != "200" || pods.Condition(p, corev1.PodResizePending) != nil {
				continue
			}
			f.EditPod(p.Name, func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
					Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible,
				})
			})
		}
	}
	require.Equal(t, "3a1b", f.Images(), "no container runs b yet")
}

// priorities are those of the containers.
func priorities(main, side string) edit {
	return func(s *v1beta1.CloneSet) {
		c := s.Spec.Template.Spec.Containers
		c[0].Env = []corev1.EnvVar{{Name: pub.ContainerPriorityEnv, Value: main}}
		c[1].Env = []corev1.EnvVar{{Name: pub.ContainerPriorityEnv, Value: side}}
	}
}

func TestBatchesGoOnWhenTheNodeHasRoomAgain(t *testing.T) {
	f := newFixture(t)
	f.start(1, unavailable("1"), cpu("1"), sideImage("s1"), priorities("10", "0"), inPlaceOnly)
	f.Edit(cpu("200"), sideImage("s2"))
	f.Live(time.Minute)
	require.Equal(t, "a/s1", f.both())
	f.EditPod(f.Names()[0], func(p *corev1.Pod) {
		pods.Condition(p, corev1.PodResizePending).Status = corev1.ConditionFalse
		p.Status.ContainerStatuses[0].Resources = p.Spec.Containers[0].Resources.DeepCopy()
	})
	f.syncs(5)
	require.Equal(t, "a/s2", f.both())
}

func TestReplacementMayBeAllowedAfterARefusal(t *testing.T) {
	for name, policy := range map[string]v1beta1.CloneSetPodUpdatePolicyType{"in place": v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType, "recreate": v1beta1.ReCreateCloneSetPodUpdatePolicyType} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(1, unavailable("1"), cpu("1"), inPlaceOnly)
			old := f.Names()[0]
			f.Edit(cpu("200"))
			f.Live(time.Minute)
			require.Contains(t, f.Names(), old)
			f.Edit(rolling(func(r *v1beta1.RollingUpdateCloneSetStrategy) { r.PodUpdatePolicy = policy }))
			f.Live(time.Hour)
			require.NotContains(t, f.Names(), old)
		})
	}
}

// The record of an update says what is left of it, whoever has written the label.
func TestALabelDoesNotEndAnUpdate(t *testing.T) {
	normal := func(f *fixture) {
		f.EditPod(f.Names()[0], func(p *corev1.Pod) { p.Labels[pub.LifecycleStateKey] = string(pub.LifecycleStateNormal) })
	}
	t.Run("between two batches", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, unavailable("1"), sideImage("s1"), priorities("0", "10"), inPlace)
		f.Edit(image("b"), sideImage("s2"))
		f.Pass()
		require.Equal(t, "a/s2", f.both())
		normal(f)
		f.Live(time.Hour)
		require.Equal(t, "b/s2", f.both())
	})
	t.Run("while an image is pulled", func(t *testing.T) {
		f := newFixture(t)
		f.start(1, unavailable("1"), inPlace)
		f.Edit(image("b"))
		f.syncs(1)
		normal(f)
		f.syncs(3)
		require.False(t, pods.IsConditionTrue(f.only(), pub.InPlaceUpdateReady))
		f.Rest()
		require.True(t, pods.IsConditionTrue(f.only(), pub.InPlaceUpdateReady))
	})
}

// A change of something else does not make the next batch go ahead of the one before.
func TestABatchWaitsWhateverElseIsChanged(t *testing.T) {
	label := func(s *v1beta1.CloneSet) { s.Spec.Template.Labels = map[string]string{"app": "web", "v": "2"} }
	begin := func(t *testing.T) *fixture {
		f := newFixture(t)
		f.start(1, unavailable("1"), cpu("1"), sideImage("s1"), priorities("0", "10"), inPlace)
		f.Edit(image("b"), sideImage("unready"))
		f.Live(time.Minute)
		require.Equal(t, "a/unready", f.both())
		return f
	}
	t.Run("a label", func(t *testing.T) {
		f := begin(t)
		f.Edit(label)
		f.Live(time.Minute)
		require.Equal(t, "2", f.only().Labels["v"])
		require.Equal(t, "a/unready", f.both())
		f.Edit(sideImage("s3"))
		f.Live(time.Minute)
		require.Equal(t, "b/s3", f.both())
	})
	t.Run("a later change of the container that waits", func(t *testing.T) {
		f := begin(t)
		f.Edit(image("c"), cpu("2"))
		f.Live(time.Minute)
		require.Equal(t, "a/unready", f.both())
		require.Equal(t, "1", f.limit())
		f.Edit(sideImage("s3"))
		f.Live(time.Minute)
		require.Equal(t, "c/s3", f.both())
		require.Equal(t, "2", f.limit())
	})
	t.Run("and no image is changed while somebody has opened the gate", func(t *testing.T) {
		f := begin(t)
		f.Changed = func(before, after object) {
			was, ok := before.(*corev1.Pod)
			if !ok {
				return
			}
			is := after.(*corev1.Pod)
			for i := range is.Spec.Containers {
				if was.Spec.Containers[i].Image != is.Spec.Containers[i].Image {
					require.False(t, pods.IsConditionTrue(was, pub.InPlaceUpdateReady), is.Spec.Containers[i].Name)
				}
			}
		}
		f.EditPod(f.Names()[0], func(p *corev1.Pod) {
			pods.Condition(p, pub.InPlaceUpdateReady).Status = corev1.ConditionTrue
			p.Status.ContainerStatuses[1].Ready = true
		})
		f.Edit(label)
		f.syncs(3)
		require.Equal(t, "b/unready", f.both())
	})
}

func TestAMarkOfNobodyIsAnswered(t *testing.T) {
	for _, status := range []corev1.ConditionStatus{"", corev1.ConditionUnknown, corev1.ConditionFalse} {
		f := newFixture(t)
		f.start(1)
		f.EditPod(f.Names()[0], func(p *corev1.Pod) {
			c := pods.Condition(p, pub.KruisePodReady)
			c.Status, c.Message = status, "[]"
			pods.Condition(p, corev1.PodReady).Status = corev1.ConditionFalse
		})
		f.Live(time.Hour)
		require.Equal(t, 1, f.Available())
	}
}
