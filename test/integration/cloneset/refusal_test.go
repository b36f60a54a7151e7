package cloneset

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// watchFor is how long a failing controller is watched. It is no wait for anything: what would be wrong is what happens
// in it.
const watchFor = 4 * time.Second

var requests = regexp.MustCompile(`(?m)^rest_client_requests_total\{code="(\d+)",host="[^"]*",method="(POST|PATCH|PUT|DELETE)"\} (\d+)$`)

// writesOf counts the requests of a controller that change something or were to.
func writesOf(t *testing.T, metrics string) int {
	t.Helper()
	text, err := localcluster.Get(t.Context(), "http://"+metrics+"/metrics")
	require.NoError(t, err)
	n := 0
	for _, match := range requests.FindAllStringSubmatch(text, -1) {
		count, err := strconv.Atoi(match[3])
		require.NoError(t, err)
		n += count
	}
	return n
}

func (e *env) startWithMetrics() string {
	e.Helper()
	metrics := harness.FreeAddress(e)
	cluster.StartController(e, "cloneset-controller", e.namespace, "--metrics-bind-address="+metrics)
	return metrics
}

func TestAnExhaustedQuotaIsNotHammered(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	quotas := cluster.Kube.CoreV1().ResourceQuotas(e.namespace)
	_, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{})
	require.NoError(t, err)
	harness.Eventually(t, "the quota to be in force", harness.Patience, func(ctx context.Context) error {
		q, err := quotas.Get(ctx, "pods", metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			err = fmt.Errorf("status %v", q.Status)
		}
		return err
	})
	metrics := e.startWithMetrics()
	e.create(newSet(3, func(s *v1beta1.CloneSet) {
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
	}))
	set := e.until("FailedScale", func(s *v1beta1.CloneSet) bool {
		status, _ := condition(s, "FailedScale")
		return status == "True"
	})
	before := writesOf(t, metrics)
	time.Sleep(watchFor)
	// Four or five attempts, and their events; the claim of the first serves all.
	require.LessOrEqual(t, writesOf(t, metrics)-before, 25)
	require.Equal(t, set.ResourceVersion, e.get().ResourceVersion, "the status says the same all the time")
	claims, err := cluster.Kube.CoreV1().PersistentVolumeClaims(e.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, claims.Items, 1)

	require.NoError(t, quotas.Delete(t.Context(), "pods", metav1.DeleteOptions{}))
	e.available(3)
}

func TestARefusedChangeInPlaceLeavesThePodInItsServices(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	metrics := e.startWithMetrics()
	e.create(newSet(3, inPlace, budget(intstr.FromInt32(1), intstr.FromInt32(0))))
	e.available(3)
	stubborn := e.active()[0].Name
	e.refuseChangesOf(stubborn)

	e.setImage(imageB)
	e.until("two updated Pods, and the failure of the third", func(s *v1beta1.CloneSet) bool {
		status, _ := condition(s, "FailedUpdate")
		return s.Status.UpdatedAvailableReplicas == 2 && s.Status.AvailableReplicas == 3 && status == "True"
	})
	cluster.Observe(t, e.namespace, func(pods localcluster.Pods) error {
		for _, p := range pods {
			if p.Name == stubborn && !localcluster.IsReady(p) && p.Spec.Containers[0].Image == imageA {
				return fmt.Errorf("%s was taken out of its Services again", stubborn)
			}
		}
		return nil
	})
	before := writesOf(t, metrics)
	time.Sleep(watchFor)
	require.LessOrEqual(t, writesOf(t, metrics)-before, 40)
	require.Equal(t, "1a2b", e.images())
}

// refuseChangesOf makes the API server refuse another image of one Pod until the test ends.
func (e *env) refuseChangesOf(pod string) {
	e.Helper()
	policies := cluster.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := cluster.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: e.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("object.metadata.name != %q || object.spec.containers[0].image == oldObject.spec.containers[0].image", pod),
				Message:    "this Pod is not to be changed",
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: e.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: e.namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"kubernetes.io/metadata.name": e.namespace},
			}},
		},
	}
	_, err := policies.Create(e.Context(), policy, metav1.CreateOptions{})
	require.NoError(e, err)
	_, err = bindings.Create(e.Context(), binding, metav1.CreateOptions{})
	require.NoError(e, err)
	e.Cleanup(func() {
		// The test's own context has ended by now.
		_ = bindings.Delete(context.Background(), e.namespace, metav1.DeleteOptions{})
		_ = policies.Delete(context.Background(), e.namespace, metav1.DeleteOptions{})
	})
	harness.Eventually(e, "the policy to be in force", harness.Patience, func(ctx context.Context) error {
		p, err := cluster.Kube.CoreV1().Pods(e.namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p.Spec.Containers[0].Image = imageC
		if _, err = cluster.Kube.CoreV1().Pods(e.namespace).Update(ctx, p, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
			return fmt.Errorf("the change of %s was accepted", pod)
		}
		return nil
	})
}

// TestScenario084_PodsOfADeletedSetComeBackToItsSuccessor: with their claims.
func TestScenario084_PodsOfADeletedSetComeBackToItsSuccessor(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(3))
	e.available(3)
	before := uids(e.active())
	sets := cluster.Flotilla.AppsV1beta1().CloneSets(e.namespace)
	require.NoError(t, sets.Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}))
	harness.Eventually(t, "the set to be gone", harness.Patience, func(ctx context.Context) error {
		if _, err := sets.Get(ctx, "web", metav1.GetOptions{}); err == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	cluster.Observe(t, e.namespace, func(pods localcluster.Pods) error {
		if len(pods) > 3 {
			return fmt.Errorf("%d Pods exist", len(pods))
		}
		return nil
	})
	set := e.create(newSet(3))
	e.available(3)
	require.Equal(t, before, uids(e.active()))
	for _, p := range e.active() {
		require.Equal(t, set.UID, metav1.GetControllerOf(&p).UID)
		require.NotEmpty(t, p.Labels[pub.CloneSetInstanceIDKey])
	}
}
