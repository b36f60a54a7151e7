package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// kinds are all that the manifests bring, but for CRDs and the namespace, which stay for the next test.
const kinds = "deployments,jobs,services,poddisruptionbudgets,networkpolicies,resourcequotas,serviceaccounts,roles,rolebindings," +
	"clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies," +
	"validatingadmissionpolicybindings,flowschemas,prioritylevelconfigurations"

// rolledOut is long enough for three replicas, one after the other, each of which must be ready for ten seconds.
const rolledOut = 4 * time.Minute

// deployments are those of the suite, with their replicas.
var deployments = map[string]int{"webhook-server": 3, "cert-rotator": 2, "cloneset-controller": 2, "statefulset-controller": 2}

// clean removes what an earlier test has installed, and this one when it ends; what a rotator has left, too.
func clean(t *testing.T) {
	t.Helper()
	remove := func() {
		for _, what := range [][]string{
			{kinds, "-l", "app.kubernetes.io/part-of=flotilla"},
			{"secrets", "flotilla-webhook-ca", "flotilla-webhook-tls"},
			{"leases", "flotilla-cert-rotator"},
		} {
			out, err := cluster.Kubectl(append([]string{"delete", "-n", system, "--ignore-not-found", "--wait"}, what...)...)
			if err != nil {
				t.Errorf("cleaning up: %v: %s", err, out)
			}
		}
	}
	remove()
	t.Cleanup(remove)
}

// install applies a kustomization as a user would. Any warning of the API server is an error.
func install(t *testing.T, dir string) {
	t.Helper()
	clean(t)
	// The namespace and CRDs are the test cluster's own.
	kubectl(t, "", "apply", "--server-side", "--force-conflicts", "--warnings-as-errors", "-k", dir)
}

// available waits until a Deployment has rolled out.
func available(t *testing.T, name string) {
	t.Helper()
	harness.Eventually(t, "the rollout of "+name, rolledOut, func(ctx context.Context) error {
		d, err := cluster.Kube.AppsV1().Deployments(system).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return complete(d)
	})
}

func complete(d *appsv1.Deployment) error {
	s, want := d.Status, *d.Spec.Replicas
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want {
		return fmt.Errorf("%d wanted, %d there, %d updated, %d available", want, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas)
	}
	return nil
}

// podsOf are the Pods of a component that are not being deleted.
func podsOf(ctx context.Context, component string) ([]corev1.Pod, error) {
	list, err := cluster.Kube.CoreV1().Pods(system).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + component})
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// perNode is how many Pods of a component are on each node that has any.
func perNode(t *testing.T, component string) map[string]int {
	t.Helper()
	list, err := podsOf(t.Context(), component)
	require.NoError(t, err)
	out := map[string]int{}
	for _, p := range list {
		out[p.Spec.NodeName]++
	}
	return out
}

// hurry lets an update go on as soon as a Pod is ready, instead of ten seconds later. Where Pods go does not depend on it.
func hurry(t *testing.T) {
	t.Helper()
	kubectl(t, "", "-n", system, "patch", "deployment", "webhook-server", "--type=merge", "-p", `{"spec":{"minReadySeconds":0}}`)
}

// cordon keeps Pods from a node until the test ends.
func cordon(t *testing.T, node string) {
	t.Helper()
	kubectl(t, "", "cordon", node)
	t.Cleanup(func() {
		if out, err := cluster.Kubectl("uncordon", node); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	tainted(t, node)
}

func tainted(t *testing.T, node string) {
	t.Helper()
	harness.Eventually(t, "the taint of "+node, harness.Patience, func(ctx context.Context) error {
		n, err := cluster.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, taint := range n.Spec.Taints {
			if taint.Key == corev1.TaintNodeUnschedulable {
				return nil
			}
		}
		return errors.New("there is none")
	})
}

// TestAllIsAppliedAtOnce is the one command of a user, CRDs included.
func TestAllIsAppliedAtOnce(t *testing.T) {
	kubectl(t, "", "apply", "--dry-run=server", "--server-side", "--force-conflicts", "--warnings-as-errors", "-k", filepath.Join(cluster.Root, "deploy", "suite"))
}

func TestTheSuiteIsAcceptedAndStaysAsItIsApplied(t *testing.T) {
	dir := suite(t).folder(t)
	install(t, dir)
	for name, replicas := range deployments {
		available(t, name)
		require.Len(t, perNode(t, name), replicas, "each replica of %s has a node of its own", name)
	}

	// A tool that compares finds nothing to do, ever.
	kubectl(t, "", "diff", "--server-side", "--force-conflicts", "-k", dir)

	quota, err := cluster.Kube.CoreV1().ResourceQuotas(system).Get(t.Context(), "flotilla-critical-pods", metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 5, quota.Status.Used.Pods().Value(), "webhook-server and cert-rotator")

	t.Log("Pod Security is restricted: what the suite's Pods comply with, others must, too")
	ns, err := cluster.Kube.CoreV1().Namespaces().Get(t.Context(), system, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "flotilla", ns.Labels["control-plane"])
	loose := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "loose"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/x:1"}}}}
	_, err = cluster.Kube.CoreV1().Pods(system).Create(t.Context(), loose, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "PodSecurity")
}

// TestTheStorageMigratorIsAccepted: it is not part of the suite.
func TestTheStorageMigratorIsAccepted(t *testing.T) {
	install(t, suite(t).folder(t))
	kubectl(t, "", "apply", "--server-side", "--warnings-as-errors", "-k", filepath.Join(cluster.Root, "deploy", "storage-migrator"))
	harness.Eventually(t, "a Pod of the Job", harness.Patience, func(ctx context.Context) error {
		list, err := podsOf(ctx, "storage-migrator")
		if err == nil && (len(list) != 1 || list[0].Spec.NodeName == "") {
			err = fmt.Errorf("%d Pods", len(list))
		}
		return err
	})
}

func TestEveryComponentIsAccepted(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(cluster.Root, "deploy", "components"))
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	// It changes nothing in the namespace that is given.
	tried := map[string]bool{"own-namespace": true}
	for _, v := range variants {
		for _, c := range v.components {
			tried[c] = true
		}
	}
	for _, e := range entries {
		require.True(t, tried[e.Name()], "component %s has no equal in the chart", e.Name())
		t.Run(e.Name(), func(t *testing.T) {
			if e.Name() == "kruise-history" {
				kubectl(t, "", "create", "namespace", "kruise-system")
				t.Cleanup(func() { _, _ = cluster.Kubectl("delete", "namespace", "kruise-system") })
			}
			args := []string{"apply", "--dry-run=server", "--server-side", "--force-conflicts", "-k", suite(t, e.Name()).folder(t)}
			if e.Name() != "host-network" {
				args = append(args, "--warnings-as-errors")
			}
			kubectl(t, "", args...)
		})
	}
}

// TestReplicasAreSpreadAsFarAsNodesAllow: losing a node loses one of three, and a cluster of one node works all the same, updates
// included.
func TestReplicasAreSpreadAsFarAsNodesAllow(t *testing.T) {
	install(t, suite(t).folder(t))
	hurry(t)
	available(t, "webhook-server")
	require.Len(t, perNode(t, "webhook-server"), 3)
	restart := func() {
		kubectl(t, "", "-n", system, "rollout", "restart", "deployment/webhook-server")
		available(t, "webhook-server")
	}
	restart()
	require.Len(t, perNode(t, "webhook-server"), 3)
	cordon(t, "node-2")
	restart()
	on := perNode(t, "webhook-server")
	require.Len(t, on, 2)
	require.NotContains(t, on, "node-2")
	cordon(t, "node-1")
	restart()
	require.Equal(t, map[string]int{"node-0": 3}, perNode(t, "webhook-server"))
}

// TestScenario081_OnTheNetworkOfTwoNodes is as far as simulated nodes go: Pods are admitted and placed, and are replaced although no
// port is free for a spare one.
func TestScenario081_OnTheNetworkOfTwoNodes(t *testing.T) {
	cordon(t, "node-2")
	k := suite(t, "host-network")
	k.Replicas = []replica{{"webhook-server", 2}}
	dir := k.folder(t)
	clean(t)
	t.Cleanup(func() {
		kubectlAfter(t, "label", "namespace", system, "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
	})
	out := kubectl(t, "", "apply", "--server-side", "--force-conflicts", "-k", dir)
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "Warning:") {
			require.Contains(t, line, "host", "nothing but the network of the node is beyond restricted")
		}
	}
	check := func() {
		available(t, "webhook-server")
		require.Equal(t, map[string]int{"node-0": 1, "node-1": 1}, perNode(t, "webhook-server"))
		list, err := podsOf(t.Context(), "webhook-server")
		require.NoError(t, err)
		for _, p := range list {
			require.True(t, p.Spec.HostNetwork)
			require.Equal(t, corev1.DNSClusterFirstWithHostNet, p.Spec.DNSPolicy)
			var ports []int32
			for _, port := range p.Spec.Containers[0].Ports {
				require.Equal(t, port.ContainerPort, port.HostPort)
				ports = append(ports, port.HostPort)
			}
			require.Equal(t, []int32{19443, 18080, 18081}, ports)
		}
	}
	check()
	hurry(t)
	kubectl(t, "", "-n", system, "rollout", "restart", "deployment/webhook-server")
	check()
}

func kubectlAfter(t *testing.T, args ...string) {
	t.Helper()
	if out, err := cluster.Kubectl(args...); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
