package policies

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned"
	"github.com/flotilla-k8s/flotilla/test/harness"
)

// guarded is a cluster whose webhook-server is down.
type guarded struct {
	*testing.T
	sets versioned.Interface
}

func guard(t *testing.T) *guarded {
	t.Helper()
	sets, err := versioned.NewForConfig(cluster.Config)
	require.NoError(t, err)
	cluster.InstallPolicy(t, "sidecar-guard/sidecar-guard.yaml")
	return &guarded{t, sets}
}

func labels(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// add stores a SidecarSet until the test ends.
func (g *guarded) add(name string, edit func(*v1beta1.SidecarSetSpec)) *v1beta1.SidecarSet {
	g.Helper()
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels("app", "web")}
	set.Spec.Containers = []v1beta1.SidecarContainer{{Container: corev1.Container{Name: "agent", Image: "registry.example/agent:1"}}}
	edit(&set.Spec)
	api := g.sets.AppsV1beta1().SidecarSets()
	out, err := api.Create(g.Context(), set, metav1.CreateOptions{})
	require.NoError(g, err)
	g.Cleanup(func() { _ = api.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return out
}

// create asks for a Pod, which is not stored.
func (g *guarded) create(ctx context.Context, namespace string, labels, annotations map[string]string) error {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Labels: labels, Annotations: annotations}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example/main:1"}}
	_, err := cluster.Kube.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// refuses waits until the guard has seen the set, and wants it to be named.
func (g *guarded) refuses(namespace string, labels map[string]string, set string) {
	g.Helper()
	harness.Eventually(g, "a refusal that names "+set, harness.Patience, func(ctx context.Context) error {
		err := g.create(ctx, namespace, labels, nil)
		if err == nil {
			return errors.New("it was created")
		}
		return nil
	})
	err := g.create(g.Context(), namespace, labels, nil)
	require.True(g, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(g, err, "SidecarSet "+set+" selects this Pod")
	require.ErrorContains(g, err, "repeat the request")
}

// seen waits until the guard knows all sets: a last one, of a label that nobody else has.
func (g *guarded) seen(namespace string) {
	g.Helper()
	g.add("last", func(s *v1beta1.SidecarSetSpec) { s.Selector.MatchLabels = labels("only", "last") })
	g.refuses(namespace, labels("only", "last"), "last")
}

func (g *guarded) accepts(namespace string, labels, annotations map[string]string) {
	g.Helper()
	require.NoError(g, g.create(g.Context(), namespace, labels, annotations), "%v", labels)
}

func TestScenarios62And63And65And70TheGuardKnowsWhomASetSelects(t *testing.T) {
	g := guard(t)
	ns := cluster.PodNamespace(t, "", nil)
	g.accepts(ns, labels("app", "web"), nil) // Scenario 65: without any set.
	g.add("logger", func(*v1beta1.SidecarSetSpec) {})
	g.refuses(ns, labels("app", "web"), "logger")
	start := time.Now()
	g.accepts(ns, labels("app", "other"), nil)
	require.Less(t, time.Since(start), time.Second)
	g.accepts(ns, nil, nil)
	// Scenario 70: nothing was injected, rightly.
	g.accepts(ns, labels("app", "web"), labels("apps.kruise.io/sidecarset-evaluated", "true"))
	g.accepts(ns, labels("app", "web"), labels("kruise.io/sidecarset-injected-list", "logger"))
	require.Error(t, g.create(t.Context(), ns, labels("app", "web"), labels("some", "other")))
}

func TestScenario66APausedSetInjectsNothing(t *testing.T) {
	g := guard(t)
	ns := cluster.PodNamespace(t, "", nil)
	g.add("paused", func(s *v1beta1.SidecarSetSpec) { s.InjectionStrategy.Paused = true })
	g.seen(ns)
	g.accepts(ns, labels("app", "web"), nil)
}

func TestScenario67SelectorsAreReadAsElsewhere(t *testing.T) {
	g := guard(t)
	prod, dev := cluster.PodNamespace(t, "", labels("env", "prod")), cluster.PodNamespace(t, "", labels("env", "dev", "team", "x"))
	expression := func(s *metav1.LabelSelector, key string, operator metav1.LabelSelectorOperator, values ...string) {
		s.MatchLabels = nil
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values})
	}
	g.add("in", func(s *v1beta1.SidecarSetSpec) {
		expression(s.Selector, "tier", metav1.LabelSelectorOpIn, "a", "b")
		s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: labels("env", "prod")}
	})
	g.add("not-in", func(s *v1beta1.SidecarSetSpec) {
		expression(s.Selector, "kind", metav1.LabelSelectorOpNotIn, "a", "b")
		expression(s.Selector, "notin", metav1.LabelSelectorOpExists)
		s.NamespaceSelector = &metav1.LabelSelector{}
		expression(s.NamespaceSelector, "env", metav1.LabelSelectorOpNotIn, "prod")
		expression(s.NamespaceSelector, "team", metav1.LabelSelectorOpExists)
	})
	g.add("does-not-exist", func(s *v1beta1.SidecarSetSpec) {
		expression(s.Selector, "marked", metav1.LabelSelectorOpDoesNotExist)
		expression(s.Selector, "absent", metav1.LabelSelectorOpIn, "yes")
		s.NamespaceSelector = &metav1.LabelSelector{}
		expression(s.NamespaceSelector, "team", metav1.LabelSelectorOpDoesNotExist)
		expression(s.NamespaceSelector, "env", metav1.LabelSelectorOpIn, "prod", "test")
	})
	g.seen(prod)
	g.refuses(prod, labels("tier", "a"), "in")
	g.refuses(prod, labels("tier", "b"), "in")
	g.accepts(dev, labels("tier", "a"), nil)
	g.accepts(prod, labels("tier", "c"), nil)

	g.refuses(dev, labels("notin", "x"), "not-in")
	g.refuses(dev, labels("notin", "x", "kind", "c"), "not-in")
	g.accepts(dev, labels("notin", "x", "kind", "a"), nil)
	g.accepts(dev, labels("kind", "c"), nil)
	g.accepts(prod, labels("notin", "x"), nil)

	g.refuses(prod, labels("absent", "yes"), "does-not-exist")
	g.accepts(prod, labels("absent", "yes", "marked", ""), nil)
	g.accepts(dev, labels("absent", "yes"), nil)
}

func TestScenarios68And75NamespacesThatNothingIsInjectedInto(t *testing.T) {
	g := guard(t)
	ns, ours := cluster.PodNamespace(t, "", nil), cluster.PodNamespace(t, "flotilla-system", nil)
	control := cluster.PodNamespace(t, "", labels("control-plane", "x"))
	g.add("everywhere", func(s *v1beta1.SidecarSetSpec) {
		s.Selector.MatchLabels = nil
		s.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "nobody", Operator: metav1.LabelSelectorOpDoesNotExist}}
	})
	g.refuses(ns, labels("app", "web"), "everywhere")
	for _, excluded := range []string{"kube-system", ours, control} {
		g.accepts(excluded, labels("app", "web"), nil)
	}
}

func TestATerminatingSetInjectsNothing(t *testing.T) {
	g := guard(t)
	ns := cluster.PodNamespace(t, "", nil)
	set := g.add("going", func(*v1beta1.SidecarSetSpec) {})
	g.refuses(ns, labels("app", "web"), "going")
	api := g.sets.AppsV1beta1().SidecarSets()
	set.Finalizers = []string{"example.com/wait"}
	set, err := api.Update(t.Context(), set, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, api.Delete(t.Context(), set.Name, metav1.DeleteOptions{}))
	harness.Eventually(t, "creation", harness.Patience, func(ctx context.Context) error { return g.create(ctx, ns, labels("app", "web"), nil) })
	set, err = api.Get(t.Context(), set.Name, metav1.GetOptions{})
	require.NoError(t, err)
	set.Finalizers = nil
	_, err = api.Update(t.Context(), set, metav1.UpdateOptions{})
	require.NoError(t, err)
}
