package statefulset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

func TestRepairsAreTold(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate("data", "1"))
	f.EditPod(name(1), func(p *corev1.Pod) { delete(p.Labels, "statefulset.kubernetes.io/pod-name") })
	f.Edit(retain("Delete", "Retain"))
	f.Events = nil
	f.Rest()
	require.Equal(t, name(1), f.Pod(name(1)).Labels["statefulset.kubernetes.io/pod-name"])
	told := strings.Join(f.Events, "\n")
	require.Equal(t, 1, strings.Count(told, "Normal SuccessfulUpdate labelled Pod web-1"), told)
	require.Equal(t, 2, strings.Count(told, "Normal SuccessfulUpdate changed the owners of claim data-web-"), told)
}

// An update that the set has begun is no reason to wait for its end if something else is wanted by then.
func TestAnUpdateThatWasBegunIsRedirected(t *testing.T) {
	t.Run("a Pod that waits for its hook after the update", func(t *testing.T) {
		eachPolicy(t, func(t *testing.T, policy edit) {
			f := newFixture(t)
			f.start(2, policy, preUpdate)
			f.Edit(image("b"))
			f.Rest()
			f.release(1)
			f.Rest()
			f.satisfy(1)
			f.Rest()
			f.release(0)
			f.Rest()
			require.Equal(t, held{name(0): pub.LifecycleStateUpdated}, f.lifecycle())
			f.Edit(image("c"))
			f.Rest()
			require.Equal(t, held{name(0): pub.LifecycleStatePreparingUpdate}, f.lifecycle())
		})
	})
	t.Run("a resize that is deferred", func(t *testing.T) {
		eachPolicy(t, func(t *testing.T, policy edit) {
			f := newFixture(t)
			f.start(1, policy, inPlace, cpu("2"))
			f.Edit(cpu("50"))
			f.sync()
			// The kubelet does nothing meanwhile but say so.
			f.EditPod(name(0), func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
					Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred,
				})
			})
			for range 3 {
				f.sync()
			}
			require.Equal(t, pub.LifecycleStateUpdating, f.stateOf(0))
			require.Equal(t, f.Set().Status.UpdateRevision, f.Set().Status.CurrentRevision)
			f.Edit(cpu("2"))
			for range 3 {
				f.sync()
			}
			require.Equal(t, "2", f.Pod(name(0)).Spec.Containers[0].Resources.Limits.Cpu().String())
		})
	})
}

// eachPolicy runs a test for both ways to manage Pods.
func eachPolicy(t *testing.T, test func(*testing.T, edit)) {
	t.Helper()
	t.Run("OrderedReady", func(t *testing.T) { test(t, func(*v1beta1.StatefulSet) {}) })
	t.Run("Parallel", func(t *testing.T) { test(t, parallel) })
}

func TestARepairBeginsWithTheClaims(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		f := newFixture(t)
		f.class(ptr.To(true))
		f.start(2, policy, claimTemplate("www", "1Gi"), follow)
		f.Edit(image(modelcluster.Crashes))
		f.Rest()
		f.Expansion = modelcluster.ExpandNever
		f.Edit(image("c"), claimTemplate("www", "5Gi"))
		f.Rest()
		require.Equal(t, "1Gi 5Gi", f.sizes())
		require.Equal(t, "0:a 1:"+modelcluster.Crashes, f.state(), "the claim has not grown yet")
		f.Expansion = modelcluster.ExpandAtOnce
		f.Rest()
		require.Equal(t, "0:c 1:c", f.state())
	})
}

func TestNothingIsRepairedWhilePaused(t *testing.T) {
	f := newFixture(t)
	f.start(2)
	f.Edit(image(modelcluster.Broken))
	f.Rest()
	f.Edit(image("c"), paused(true))
	f.Rest()
	require.Equal(t, "0:a 1:"+modelcluster.Broken, f.state())
	f.Edit(paused(false))
	f.Rest()
	require.Equal(t, "0:c 1:c", f.state())
}

func TestAReplacementIsTakenBackWithTheTemplateThatNeededIt(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel, inPlace, cpu("2"), preDelete)
	f.Edit(cpu("3"))
	f.Refuse("patch/resize", modelcluster.Pods, nil)
	f.Rest()
	require.Equal(t, held{name(1): pub.LifecycleStatePreparingDelete}, f.lifecycle())
	f.Before = nil
	f.Edit(cpu("2"))
	f.Rest()
	require.Empty(t, f.lifecycle())
	require.Zero(t, f.Writes["delete pods"])
	require.NotContains(t, f.Pod(name(1)).Labels, pub.SpecifiedDeleteKey)
	f.markDelete(1)
	f.Rest()
	require.Equal(t, held{name(1): pub.LifecycleStatePreparingDelete}, f.lifecycle(), "what a user asks for stays")
}

// A Pod of the current revision that was never going to serve is no reason to wait once the template is mended.
func TestAPodThatDoesNotStartIsReplacedWhenTheTemplateIsMended(t *testing.T) {
	t.Run("an init container crashes", func(t *testing.T) {
		f := newFixture(t)
		f.start(1)
		f.unready(0)
		f.EditPod(name(0), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
				Name: "init", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			}}
		})
		f.Edit(image("b"))
		f.Rest()
		require.Equal(t, "0:b", f.state())
	})
	t.Run("no node takes it", func(t *testing.T) {
		f := newFixture(t)
		f.create(2, func(s *v1beta1.StatefulSet) { s.Spec.Template.Labels[modelcluster.Unschedulable] = "true" })
		f.Rest()
		f.Edit(func(s *v1beta1.StatefulSet) { delete(s.Spec.Template.Labels, modelcluster.Unschedulable) })
		f.Rest()
		require.Equal(t, "0:a 1:a", f.state())
		require.Equal(t, 2, f.Available())
	})
}
