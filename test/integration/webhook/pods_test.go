package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// ofApp is a Pod with that label.
func ofApp(app string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Labels: map[string]string{"app": app}}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example/main:1"}}
	return p
}

// createPod asks for a Pod, which is not stored. Hooks and policies treat it as one that is.
func createPod(ctx context.Context, namespace string, p *corev1.Pod) (*corev1.Pod, error) {
	return cluster.Kube.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// selectWeb has a SidecarSet select the Pods with label app=web.
func (l *lab) selectWeb(name string, more map[string]any) {
	l.Helper()
	_, err := l.of("sidecarsets", "v1beta1").Create(l.Context(), l.sidecarSet("v1beta1", name, nil, more), metav1.CreateOptions{})
	require.NoError(l, err)
}

// hookPods registers the hook of Pods alone, with that policy and at that address, until the test ends.
func (l *lab) hookPods(policy admissionv1.FailurePolicyType, address string) {
	l.Helper()
	configuration, _ := l.hooks()
	h := &configuration.Webhooks[0]
	require.Equal(l, "mpod.kb.io", h.Name)
	h.FailurePolicy = &policy
	*h.ClientConfig.URL = strings.Replace(*h.ClientConfig.URL, l.server, address, 1)
	configuration.Webhooks = configuration.Webhooks[:1]
	api := cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := api.Create(l.Context(), configuration, metav1.CreateOptions{})
	require.NoError(l, err)
	l.Cleanup(func() { l.unhookPods() })
}

func (l *lab) unhookPods() {
	// The test's own context may have ended by now.
	err := cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(context.Background(), "flotilla-mutating-webhook-configuration", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		l.Error(err)
	}
}

// refusesPod waits until a Pod is refused, and returns why.
func (l *lab) refusesPod(namespace, app string) error {
	l.Helper()
	var refusal error
	harness.Eventually(l, "a refusal of a Pod with app="+app, harness.Patience, func(ctx context.Context) error {
		if _, refusal = createPod(ctx, namespace, ofApp(app)); refusal == nil {
			return errors.New("it was created")
		}
		return nil
	})
	return refusal
}

func (l *lab) acceptsPod(namespace, app string) {
	l.Helper()
	p, err := createPod(l.Context(), namespace, ofApp(app))
	require.NoError(l, err, "app=%s in %s", app, namespace)
	require.Empty(l, p.Annotations)
}

// excluded are the namespaces whose Pods are nobody's business.
func (l *lab) excluded() []string {
	l.Helper()
	return []string{"kube-system", cluster.PodNamespace(l, system, nil), cluster.PodNamespace(l, "", map[string]string{"control-plane": "x"})}
}

func TestScenario071_APodThatNoSetSelectsIsStoredAsItCame(t *testing.T) {
	l := newLab(t, "sidecarsets")
	l.selectWeb("logger", nil)
	l.hookPods(admissionv1.Ignore, l.server)
	ours := ofApp("other")
	ours.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "x", UID: "x", Controller: ptr.To(true)}}
	harness.Eventually(t, "the hook", harness.Patience, func(ctx context.Context) error {
		p, err := createPod(ctx, l.namespace, ours)
		if err == nil && len(p.Spec.ReadinessGates) != 1 {
			err = errors.New("a Pod of ours has no readiness gate")
		}
		return err
	})
	before := l.counted(`flotilla_injection_pods_total{result="unselected"}`)
	p, err := createPod(t.Context(), l.namespace, ofApp("other"))
	require.NoError(t, err)
	require.Equal(t, before+1, l.counted(`flotilla_injection_pods_total{result="unselected"}`))
	require.Empty(t, p.Annotations)
	require.Empty(t, p.Spec.ReadinessGates)

	// One that is selected is not said to be injected: nobody has, so the guard is right to refuse it.
	l.acceptsPod(l.namespace, "web")
	require.Equal(t, before+1, l.counted(`flotilla_injection_pods_total{result="unselected"}`))
	cluster.InstallPolicy(t, "sidecar-guard/sidecar-guard.yaml")
	require.ErrorContains(t, l.refusesPod(l.namespace, "web"), "SidecarSet logger selects this Pod")
	l.acceptsPod(l.namespace, "other")
}

// counted is the value of a series, which may not be there yet.
func (l *lab) counted(series string) int {
	l.Helper()
	return l.measured()[series]
}

// measured are the counts that the server tells of.
func (l *lab) measured() map[string]int {
	l.Helper()
	text, err := localcluster.Get(l.Context(), "http://"+l.metrics+"/metrics")
	require.NoError(l, err)
	out := map[string]int{}
	for line := range strings.Lines(text) {
		var value int
		if i := strings.LastIndexByte(line, ' '); !strings.HasPrefix(line, "#") && i > 0 {
			if _, err := fmt.Sscanf(line[i:], "%d\n", &value); err == nil {
				out[line[:i]] = value
			}
		}
	}
	return out
}

func TestScenario062_063_065_066_068_075_WhichPodsWaitWhileNobodyAnswers(t *testing.T) {
	l := newLab(t, "sidecarsets")
	excluded := l.excluded()
	cluster.InstallPolicy(t, "sidecar-guard/sidecar-guard.yaml")
	l.hookPods(admissionv1.Ignore, l.server)
	l.process.Kill()
	// 65: without any set.
	l.acceptsPod(l.namespace, "web")
	// 66: a set that injects nothing.
	l.selectWeb("paused", map[string]any{"injectionStrategy": map[string]any{"paused": true}})
	l.selectWeb("last", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "last"}}})
	require.ErrorContains(t, l.refusesPod(l.namespace, "last"), "SidecarSet last", "the guard knows both by now")
	l.acceptsPod(l.namespace, "web")
	// 63, and 62: who is not selected waits for nobody.
	l.selectWeb("logger", nil)
	refusal := l.refusesPod(l.namespace, "web")
	require.ErrorContains(t, refusal, "SidecarSet logger")
	require.ErrorContains(t, refusal, "repeat the request")
	begun := time.Now()
	l.acceptsPod(l.namespace, "other")
	require.Less(t, time.Since(begun), 5*time.Second, "a connection that is refused is not waited for")
	// 68, 75.
	for _, ns := range excluded {
		l.acceptsPod(ns, "web")
	}
}

func TestScenario064_AnAddressThatSwallowsPacketsDelaysAPodByFiveSeconds(t *testing.T) {
	l := newLab(t, "sidecarsets")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var calls atomic.Int32
	var held []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			held = append(held, c)
		}
	}()
	t.Cleanup(func() {
		silent.Close()
		<-done
		for _, c := range held {
			c.Close()
		}
	})
	l.selectWeb("logger", nil)
	cluster.InstallPolicy(t, "sidecar-guard/sidecar-guard.yaml")
	l.refusesPod(l.namespace, "web")
	l.hookPods(admissionv1.Ignore, silent.Addr().String())
	var took time.Duration
	harness.Eventually(t, "a Pod that the hook is called for", harness.Patience, func(ctx context.Context) error {
		begun := time.Now()
		if _, err := createPod(ctx, l.namespace, ofApp("other")); err != nil {
			return err
		}
		if took = time.Since(begun); calls.Load() == 0 {
			return errors.New("nobody has called")
		}
		return nil
	})
	t.Logf("created after %s", took)
	require.Less(t, took, 10*time.Second, "it waits as long as the hook says, not as long as hooks usually do")
	require.ErrorContains(t, l.refusesPod(l.namespace, "web"), "SidecarSet logger")
}

func TestScenario073_StrictRefusesAllPodsAndOpenNone(t *testing.T) {
	l := newLab(t, "sidecarsets")
	excluded := l.excluded()
	l.selectWeb("logger", nil)
	l.process.Kill()
	l.hookPods(admissionv1.Fail, l.server)
	for _, app := range []string{"web", "other"} {
		require.ErrorContains(t, l.refusesPod(l.namespace, app), "mpod.kb.io")
	}
	// 68, 75: these never reach the hook, whatever its policy.
	for _, ns := range excluded {
		l.acceptsPod(ns, "web")
	}
	l.unhookPods()
	l.hookPods(admissionv1.Ignore, l.server)
	harness.Eventually(t, "a Pod without its sidecar", harness.Patience, func(ctx context.Context) error {
		_, err := createPod(ctx, l.namespace, ofApp("web"))
		return err
	})
	l.acceptsPod(l.namespace, "other")
}

func TestScenario074_ControllersWriteTheGateThemselves(t *testing.T) {
	l := newLab(t, "clonesets")
	l.admit()
	sets := l.of("clonesets", "v1beta1")
	set, err := sets.Create(t.Context(), cloneSet("v1beta1", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	cluster.StartController(t, "cloneset-controller", l.namespace)
	l.process.Kill()
	_, err = sets.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}, "scale")
	require.NoError(t, err)
	for _, p := range l.podsOf(3) {
		require.True(t, metav1.IsControlledBy(&p, set), p.Name)
		require.Contains(t, p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: "KruisePodReady"}, p.Name)
	}
}

// podsOf waits for that many Pods in the namespace.
func (l *lab) podsOf(n int) []corev1.Pod {
	l.Helper()
	var out []corev1.Pod
	harness.Eventually(l, fmt.Sprintf("%d Pods", n), harness.Patience, func(ctx context.Context) error {
		list, err := cluster.Kube.CoreV1().Pods(l.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if out = list.Items; len(out) != n {
			return fmt.Errorf("there are %d", len(out))
		}
		return nil
	})
	return out
}
