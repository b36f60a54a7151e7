package cloneset

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// controllerFlags keep one controller of a test apart from all others.
func controllerFlags(kubeconfig, namespace string, more ...string) []string {
	return append([]string{"--kubeconfig", kubeconfig, "--namespace", namespace, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--pprof-bind-address=0"}, more...)
}

func (e *env) start(kubeconfig string, flags ...string) *localcluster.Process {
	e.Helper()
	p, err := cluster.Start("cloneset-controller", e.TempDir(), controllerFlags(kubeconfig, e.namespace, flags...)...)
	require.NoError(e, err)
	e.Cleanup(func() {
		p.Kill()
		if e.Failed() {
			e.Logf("end of the log:\n%s", p.Tail(60))
		}
	})
	return p
}

// through writes a kubeconfig whose server is the proxy.
func (e *env) through(p *harness.Proxy) string {
	e.Helper()
	path, err := cluster.KubeconfigFor(e.Context(), "cloneset-controller", e.TempDir())
	require.NoError(e, err)
	config, err := clientcmd.LoadFromFile(path)
	require.NoError(e, err)
	for _, c := range config.Clusters {
		c.Server = p.Address()
	}
	require.NoError(e, clientcmd.WriteToFile(*config, path))
	return path
}

func TestTheAPIServerMayBeAwayAtTheStartAndInTheMiddle(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	proxy := cluster.StartProxy(t)
	proxy.Cut()
	p := e.start(e.through(proxy), "--leader-elect=false")
	e.create(newSet(3))
	away := func() int { return strings.Count(p.Tail(10000), "API server") }
	harness.Eventually(t, "a word about the API server", harness.Patience, func(context.Context) error {
		if away() == 0 {
			return fmt.Errorf("nothing yet")
		}
		return nil
	})
	harness.Consistently(t, "the controller's life", 5*time.Second, func(context.Context) error {
		select {
		case <-p.Done():
			return fmt.Errorf("it ended with %d", p.ExitCode())
		default:
			return nil
		}
	})
	require.LessOrEqual(t, away(), 2, "one line per change of state, not per attempt")
	proxy.Mend()
	e.available(3)

	proxy.Cut()
	e.scale(5)
	harness.Consistently(t, "no Pod without an API server", 3*time.Second, func(context.Context) error {
		if n := len(e.active()); n != 3 {
			return fmt.Errorf("%d Pods", n)
		}
		return nil
	})
	proxy.Mend()
	e.available(5)
}

func TestAMissingPermissionIsNamed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "poor-" + e.namespace, Namespace: "flotilla-system"}}
	_, err := cluster.Kube.CoreV1().ServiceAccounts(sa.Namespace).Create(t.Context(), sa, metav1.CreateOptions{})
	require.NoError(t, err)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: sa.Name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apps.kruise.io"}, Resources: []string{"clonesets"}, Verbs: []string{"get", "list", "watch"}},
	}}
	_, err = cluster.Kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	require.NoError(t, err)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: sa.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: sa.Name, Namespace: sa.Namespace}}}
	_, err = cluster.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	require.NoError(t, err)

	kubeconfig, err := cluster.KubeconfigFor(t.Context(), sa.Name, t.TempDir())
	require.NoError(t, err)
	p := e.start(kubeconfig, "--leader-elect=false")
	harness.Eventually(t, "the name of the permission", harness.Patience, func(context.Context) error {
		for line := range strings.Lines(p.Tail(10000)) {
			if strings.Contains(line, "pods") && strings.Contains(line, "list") && strings.Contains(line, "ermission") {
				return nil
			}
		}
		return fmt.Errorf("the log is:\n%s", p.Tail(20))
	})
}

func TestWrongFlagsAreRefusedInOneLine(t *testing.T) {
	for name, flags := range map[string][]string{
		"unknown flag":             {"--no-such-flag"},
		"no such log format":       {"--log-format=xml"},
		"no workers":               {"--concurrent-syncs=0"},
		"a port that is none":      {"--metrics-bind-address=here"},
		"an argument":              {"surplus"},
		"a kubeconfig that is not": {"--kubeconfig=/does/not/exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := cluster.Start("cloneset-controller", t.TempDir(), flags...)
			require.NoError(t, err)
			t.Cleanup(p.Kill)
			harness.Eventually(t, "its end", harness.Patience, func(context.Context) error {
				select {
				case <-p.Done():
					return nil
				default:
					return fmt.Errorf("it runs")
				}
			})
			require.Equal(t, 2, p.ExitCode(), p.Tail(20))
			raw, err := os.ReadFile(filepath.Clean(p.Log))
			require.NoError(t, err)
			require.Len(t, strings.Split(strings.TrimSpace(string(raw)), "\n"), 1, "%s", raw)
		})
	}
}

func TestASecondLeaderTakesOverAtOnceWhenTheFirstStops(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	dir := t.TempDir()
	kubeconfig, err := cluster.KubeconfigFor(t.Context(), "cloneset-controller", dir)
	require.NoError(t, err)
	// The lease that the role names; no other test elects a leader.
	flags := []string{"--leader-elect-namespace=flotilla-system", "--leader-elect-lease-name=cloneset-controller"}
	first := e.start(kubeconfig, flags...)
	e.create(newSet(2))
	e.available(2)
	second := e.start(kubeconfig, flags...)
	holder := func() string {
		lease, err := cluster.Kube.CoordinationV1().Leases("flotilla-system").Get(t.Context(), "cloneset-controller", metav1.GetOptions{})
		require.NoError(t, err)
		if lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	was := holder()
	require.NotEmpty(t, was)
	e.scale(3)
	e.available(3)

	stopped := time.Now()
	require.NoError(t, first.Stop(20*time.Second))
	e.scale(4)
	e.available(4)
	require.NotEqual(t, was, holder())
	t.Logf("the second leader had finished %s after the first was told to stop", time.Since(stopped))

	second.Kill()
	third := e.start(kubeconfig, flags...)
	e.scale(5)
	e.available(5)
	require.NoError(t, third.Stop(20*time.Second))
}
