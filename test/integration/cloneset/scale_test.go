package cloneset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/harness"

	"context"
	"fmt"
)

func TestScenario001_NewPodsCarryTheIdentityOfTheirSet(t *testing.T) {
	e := newRunningEnv(t)
	set := e.create(newSet(5))
	set.Status = e.available(5).Status

	require.EqualValues(t, 5, set.Status.UpdatedReplicas)
	require.Equal(t, set.Status.UpdateRevision, set.Status.CurrentRevision)
	require.NotEmpty(t, set.Status.UpdateRevision)
	for _, p := range e.active() {
		id := p.Labels[pub.CloneSetInstanceIDKey]
		require.Regexp(t, "^[bcdfghjklmnpqrstvwxz2456789]{5}$", id)
		require.Equal(t, "web-"+id, p.Name)
		require.Equal(t, "web-", p.GenerateName)
		require.Equal(t, set.Status.UpdateRevision, p.Labels["controller-revision-hash"])
		require.Equal(t, strings.TrimPrefix(set.Status.UpdateRevision, "web-"), p.Labels["pod-template-hash"])
		require.Equal(t, string(pub.LifecycleStateNormal), p.Labels[pub.LifecycleStateKey])
		require.ElementsMatch(t, []corev1.PodReadinessGate{{ConditionType: pub.InPlaceUpdateReady}, {ConditionType: pub.KruisePodReady}}, p.Spec.ReadinessGates)
		require.Len(t, p.OwnerReferences, 1)
		owner := p.OwnerReferences[0]
		require.Equal(t, set.UID, owner.UID)
		require.Equal(t, "apps.kruise.io/v1beta1", owner.APIVersion)
		require.True(t, *owner.Controller)
		require.True(t, *owner.BlockOwnerDeletion)
	}
}

func TestScenario002_APodThatCannotBeScheduledStaysPreparingNormal(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(1, func(s *v1beta1.CloneSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"no": "where"} }))
	set := e.until("one Pod", func(s *v1beta1.CloneSet) bool { return s.Status.Replicas == 1 })
	require.Zero(t, set.Status.ReadyReplicas)
	require.Equal(t, string(pub.LifecycleStatePreparingNormal), e.active()[0].Labels[pub.LifecycleStateKey])
}

func TestScenario003And004_AQuotaIsReportedAndForgottenWhenRaised(t *testing.T) {
	e := newRunningEnv(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}}}
	quotas := cluster.Kube.CoreV1().ResourceQuotas(e.namespace)
	_, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{})
	require.NoError(t, err)
	harness.Eventually(t, "the quota in force", harness.Patience, func(ctx context.Context) error {
		q, err := quotas.Get(ctx, "pods", metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			return fmt.Errorf("quota has no status yet")
		}
		return err
	})
	e.create(newSet(10))
	e.until("the failure reported", func(s *v1beta1.CloneSet) bool {
		status, reason := condition(s, "FailedScale")
		return s.Status.Replicas == 3 && status == "True" && reason == "FailedCreate"
	})

	quota.Spec.Hard[corev1.ResourcePods] = resource.MustParse("20")
	_, err = quotas.Update(t.Context(), quota, metav1.UpdateOptions{})
	require.NoError(t, err)
	set := e.available(10)
	status, _ := condition(set, "FailedScale")
	require.Equal(t, "False", status)
}

func TestScenario005_TheRevisionOfATemplateThatComesBackIsUsedAgain(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(1))
	first := e.available(1).Status.UpdateRevision
	e.setImage(imageB)
	second := e.updated(1, 1).Status.UpdateRevision
	e.setImage(imageA)
	require.Equal(t, first, e.updated(1, 1).Status.UpdateRevision)

	list, err := cluster.Kube.AppsV1().ControllerRevisions(e.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	numbers := map[string]int64{}
	for _, r := range list.Items {
		numbers[r.Name] = r.Revision
	}
	require.Equal(t, map[string]int64{first: 3, second: 2}, numbers)
}

func TestScenario014_ScaleInGoesInOneStep(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(10))
	e.available(10)
	e.scale(2)
	e.available(2)
	e.scale(6)
	e.available(6)
}

func TestScenario019_NewPodsGetTheRevisionThatThePartitionLacks(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5, inPlace))
	e.available(5)
	e.setPartition("3")
	e.setImage(imageB)
	e.updated(2, 5)
	require.Equal(t, "3a2b", e.images())
	e.scale(10)
	e.updated(7, 10)
	require.Equal(t, "3a7b", e.images())
	e.scale(5)
	e.updated(2, 5)
	require.Equal(t, "3a2b", e.images())
}

func TestScenario021_PodsThatAreReadyButNotAvailableAreScaledInAtOnce(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5, func(s *v1beta1.CloneSet) { s.Spec.MinReadySeconds = 9999 }))
	e.until("five ready Pods", func(s *v1beta1.CloneSet) bool { return s.Status.ReadyReplicas == 5 && s.Status.AvailableReplicas == 0 })
	e.scale(3)
	e.until("three Pods", func(s *v1beta1.CloneSet) bool { return s.Status.Replicas == 3 })
}

func TestScenario025_ADeletedPodIsReplaced(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3))
	e.available(3)
	gone := e.active()[0]
	require.NoError(t, cluster.Kube.CoreV1().Pods(e.namespace).Delete(t.Context(), gone.Name, metav1.DeleteOptions{}))
	harness.Eventually(t, "a replacement", harness.Patience, func(context.Context) error {
		pods := e.active()
		for _, p := range pods {
			if p.UID == gone.UID {
				return fmt.Errorf("%s is still there", p.Name)
			}
		}
		if len(pods) != 3 {
			return fmt.Errorf("%d Pods", len(pods))
		}
		return nil
	})
	e.available(3)
}

func TestScenario104_ScaleSubresource(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(2))
	require.Equal(t, "app=web", e.available(2).Status.LabelSelector)
	out, err := cluster.Kubectl("scale", "cloneset/web", "--replicas=7", "-n", e.namespace)
	require.NoError(t, err, out)
	e.available(7)
	scale, err := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace).GetScale(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 7, scale.Status.Replicas)
	require.Equal(t, "app=web", scale.Status.Selector)
}

func TestDeletingTheSetRemovesItsPods(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3))
	e.available(3)
	require.NoError(t, cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	harness.Eventually(t, "no Pod left", harness.Patience, func(context.Context) error {
		if n := len(e.active()); n > 0 {
			return fmt.Errorf("%d Pods", n)
		}
		return nil
	})
}

func TestIntegersAreAsGoodAsPercentages(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(5, budget(intstr.FromInt32(0), intstr.FromInt32(5))))
	e.available(5)
	e.setImage(imageB)
	e.updated(5, 5)
	require.Equal(t, "5b", e.images())
}
