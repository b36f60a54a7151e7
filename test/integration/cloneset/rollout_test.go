package cloneset

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// keeps fails the test if ever more than most Pods exist or fewer than least are ready.
func (e *env) keeps(least, most int) {
	e.Helper()
	cluster.Observe(e, e.namespace, func(pods localcluster.Pods) error {
		ready, active := 0, 0
		for _, p := range pods {
			if !localcluster.IsActive(p) {
				continue
			}
			active++
			if localcluster.IsReady(p) {
				ready++
			}
		}
		if ready < least || active > most {
			return fmt.Errorf("%d ready (at least %d), %d Pods (at most %d)", ready, least, active, most)
		}
		return nil
	})
}

func TestScenario041_RecreateReplacesOneAtATime(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5))
	e.available(5)
	e.keeps(4, 5)
	e.setImage(imageB)
	set := e.updated(5, 5)
	require.Equal(t, "5b", e.images())
	e.until("the promotion", func(s *v1beta1.CloneSet) bool { return s.Status.CurrentRevision == set.Status.UpdateRevision })
}

func TestScenario042_RecreateStopsAtThePartition(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5, budget(intstr.FromInt32(2), intstr.FromInt32(0)), partition(intstr.FromInt32(3))))
	first := e.available(5).Status.UpdateRevision
	e.keeps(3, 5)
	e.setImage(imageB)
	set := e.updated(2, 5)
	require.Equal(t, "3a2b", e.images())
	require.Equal(t, first, set.Status.CurrentRevision)
	require.EqualValues(t, 2, set.Status.ExpectedUpdatedReplicas)
}

func TestScenario047_SurgeWithoutUnavailability(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(4, budget(intstr.FromInt32(0), intstr.FromInt32(1))))
	e.available(4)
	e.keeps(4, 5)
	e.setImage(imageB)
	e.updated(4, 4)
	require.Equal(t, "4b", e.images())
}

func TestScenario048_SurgeAndUnavailabilityInPercent(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(10, budget(intstr.FromString("20%"), intstr.FromString("30%"))))
	e.available(10)
	e.keeps(8, 13)
	e.setImage(imageB)
	e.updated(10, 10)
	require.Equal(t, "10b", e.images())
}

func TestScenario052_ABrokenRevisionStopsAtTheBudgetAndIsReplacedFirst(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5, budget(intstr.FromInt32(2), intstr.FromInt32(0))))
	e.available(5)
	e.keeps(3, 5)
	e.setImage("registry.example/web:b-never-ready")
	e.until("two broken Pods", func(s *v1beta1.CloneSet) bool {
		return s.Status.UpdatedReplicas == 2 && s.Status.AvailableReplicas == 3
	})
	e.setImage(imageC)
	e.updated(5, 5)
	require.Equal(t, "5c", e.images())
}

func TestScenario054_InPlaceKeepsEveryPod(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5, inPlace, budget(intstr.FromInt32(2), intstr.FromInt32(0)), partition(intstr.FromInt32(2))))
	e.available(5)
	before := e.active()
	e.keeps(3, 5)
	e.imageChangesOnlyBehindTheGate()
	e.setImage(imageB)
	e.updated(3, 5)
	require.Equal(t, "2a3b", e.images())
	e.setPartition("0")
	set := e.updated(5, 5)
	require.Equal(t, "5b", e.images())
	after := e.active()
	require.Equal(t, uids(before), uids(after))
	e.until("the promotion", func(s *v1beta1.CloneSet) bool { return s.Status.CurrentRevision == set.Status.UpdateRevision })
	for i := range after {
		require.Equal(t, before[i].Status.PodIP, after[i].Status.PodIP)
		require.EqualValues(t, 1, after[i].Status.ContainerStatuses[0].RestartCount)
	}
}

// imageChangesOnlyBehindTheGate fails the test if a Pod's image ever changes while its gate is True.
func (e *env) imageChangesOnlyBehindTheGate() {
	e.Helper()
	type seen struct{ image, gate string }
	last := map[string]seen{}
	cluster.Observe(e, e.namespace, func(pods localcluster.Pods) error {
		for _, p := range pods {
			now := seen{image: p.Spec.Containers[0].Image}
			for _, c := range p.Status.Conditions {
				if c.Type == pub.InPlaceUpdateReady {
					now.gate = string(c.Status)
				}
			}
			before, known := last[p.Name]
			last[p.Name] = now
			if known && before.image != now.image && (before.gate != string(corev1.ConditionFalse) || now.gate != string(corev1.ConditionFalse)) {
				return fmt.Errorf("Pod %s went from %s to %s while its gate was %s, then %s", p.Name, before.image, now.image, before.gate, now.gate)
			}
		}
		return nil
	})
}

func TestScenario056_ARollbackReachesPodsInFlight(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(4, inPlace, budget(intstr.FromInt32(2), intstr.FromInt32(0))))
	first := e.available(4).Status.UpdateRevision
	before := uids(e.active())
	e.setImage("registry.example/web:b-never-ready")
	e.until("two Pods in flight", func(s *v1beta1.CloneSet) bool {
		return s.Status.UpdatedReplicas == 2 && s.Status.AvailableReplicas == 2
	})
	e.setImage(imageA)
	require.Equal(t, first, e.updated(4, 4).Status.UpdateRevision)
	require.Equal(t, before, uids(e.active()))
	require.Equal(t, "4a", e.images())
}

func TestScenario057_WhatCannotBeDoneInPlaceIsRecreated(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3, inPlace))
	e.available(3)
	before := uids(e.active())
	e.keeps(2, 3)
	e.patch(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"` + imageB + `","env":[{"name":"NEW","value":"1"}]}]}}}}`)
	e.updated(3, 3)
	for _, id := range uids(e.active()) {
		require.NotContains(t, before, id)
	}
}

func TestScenario062_ALabelAloneReachesThePodsWithoutARestart(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3, inPlace))
	e.available(3)
	before := uids(e.active())
	e.keeps(3, 3)
	e.patch(`{"spec":{"template":{"metadata":{"labels":{"tier":"front"}}}}}`)
	e.updated(3, 3)
	require.Equal(t, before, uids(e.active()))
	for _, p := range e.active() {
		require.Equal(t, "front", p.Labels["tier"])
		require.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	}
}

func TestScenario063_PausedSetsScaleButDoNotRoll(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3, func(s *v1beta1.CloneSet) { s.Spec.UpdateStrategy.RollingUpdate.Paused = true }))
	e.available(3)
	e.setImage(imageB)
	e.scale(5)
	e.available(5)
	require.Equal(t, "3a2b", e.images())
	e.scale(4)
	e.available(4)
	require.Equal(t, "2a2b", e.images())
	e.scale(1)
	e.available(1)
	require.Equal(t, "1b", e.images())
}

func TestScenario096_GenericToolsReadTheConditions(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3))
	out, err := cluster.Kubectl("wait", "--for=condition=Ready", "--timeout=60s", "cloneset/web", "-n", e.namespace)
	require.NoError(t, err, out)
	set := e.get()
	for kind, want := range map[string]string{"Ready": "True", "Reconciling": "False", "Stalled": "False"} {
		status, reason := condition(set, kind)
		require.Equal(t, want, status, kind)
		require.NotEmpty(t, reason, kind)
	}
}
