package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// stored is how many objects are migrated.
const stored = 300

func (l *lab) crd(ctx context.Context, resource string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crds, err := apiextensions.NewForConfig(cluster.Config)
	if err != nil {
		return nil, err
	}
	return crds.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, resource+".apps.kruise.io", metav1.GetOptions{})
}

func (l *lab) patchCRD(ctx context.Context, resource, patch string, subresources ...string) error {
	crds, err := apiextensions.NewForConfig(cluster.Config)
	if err != nil {
		return err
	}
	_, err = crds.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, resource+".apps.kruise.io", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

// storeIn changes the version that objects are stored in, and waits until it holds: then all watches are closed.
func (l *lab) storeIn(ctx context.Context, resource, version string) error {
	crd, err := l.crd(ctx, resource)
	if err != nil {
		return err
	}
	var ops []string
	for i, v := range crd.Spec.Versions {
		ops = append(ops, fmt.Sprintf(`{"op":"replace","path":"/spec/versions/%d/storage","value":%t}`, i, v.Name == version))
	}
	watch, err := l.of(resource, "v1beta1").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer watch.Stop()
	if err := l.patchCRD(ctx, resource, "["+strings.Join(ops, ",")+"]"); err != nil {
		return err
	}
	for {
		select {
		case _, open := <-watch.ResultChan():
			if !open {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fill stores n CloneSets.
func (l *lab) fill(n int) {
	l.Helper()
	numbers := make(chan int)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range numbers {
				o := cloneSet("v1beta1", nil)
				o.SetName(fmt.Sprintf("old-%03d", i))
				if _, err := l.of("clonesets", "v1beta1").Create(l.Context(), o, metav1.CreateOptions{}); err != nil {
					l.Errorf("creating: %v", err)
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	group.Wait()
}

// storeAsBefore stores n CloneSets in v1alpha1, as a release did that stored that version, and has the test end with all
// stored in v1beta1.
func (l *lab) storeAsBefore(n int) {
	l.Helper()
	require.NoError(l, l.storeIn(l.Context(), "clonesets", "v1alpha1"))
	l.Cleanup(func() {
		// The test's own context has ended by now.
		ctx := context.Background()
		crd, err := l.crd(ctx, "clonesets")
		if err == nil && !crd.Spec.Versions[len(crd.Spec.Versions)-1].Storage {
			err = l.storeIn(ctx, "clonesets", "v1beta1")
		}
		if err == nil {
			err = l.of("clonesets", "v1beta1").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}
		if err == nil {
			err = l.patchCRD(ctx, "clonesets", `[{"op":"replace","path":"/status/storedVersions","value":["v1beta1"]}]`, "status")
		}
		if err != nil {
			l.Errorf("putting the CRD right: %v", err)
		}
	})
	l.isReady()
	l.fill(n)
	require.NoError(l, l.storeIn(l.Context(), "clonesets", "v1beta1"))
	require.ElementsMatch(l, []string{"v1alpha1", "v1beta1"}, l.storedVersions("clonesets"))
}

func (l *lab) storedVersions(resource string) []string {
	l.Helper()
	crd, err := l.crd(l.Context(), resource)
	require.NoError(l, err)
	return crd.Status.StoredVersions
}

// versions are the resourceVersions and generations by name.
func (l *lab) versions(ctx context.Context) (versions map[string]string, generations map[string]int64, err error) {
	list, err := l.of("clonesets", "v1beta1").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	versions, generations = map[string]string{}, map[string]int64{}
	for _, o := range list.Items {
		versions[o.GetName()], generations[o.GetName()] = o.GetResourceVersion(), o.GetGeneration()
	}
	return versions, generations, nil
}

func (l *lab) migrate(args ...string) *localcluster.Process {
	return cluster.StartTask(l, "storage-migrator", append([]string{"--crds=clonesets.apps.kruise.io"}, args...)...)
}

func (l *lab) ends(p *localcluster.Process) {
	l.Helper()
	harness.Eventually(l, "the end of the migration", harness.Patience, func(context.Context) error {
		select {
		case <-p.Done():
			return nil
		default:
			return errors.New(p.Tail(3))
		}
	})
	require.Zero(l, p.ExitCode(), p.Tail(20))
}

// breakHooks lets every call of a hook fail: a write that calls one is refused.
func (l *lab) breakHooks() {
	l.Helper()
	nobody := "https://" + harness.FreeAddress(l)
	api := cluster.Kube.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(l.Context(), "flotilla-mutating-webhook-configuration", metav1.GetOptions{})
	require.NoError(l, err)
	for i := range mutating.Webhooks {
		*mutating.Webhooks[i].ClientConfig.URL = nobody
	}
	_, err = api.MutatingWebhookConfigurations().Update(l.Context(), mutating, metav1.UpdateOptions{})
	require.NoError(l, err)
	validating, err := api.ValidatingWebhookConfigurations().Get(l.Context(), "flotilla-validating-webhook-configuration", metav1.GetOptions{})
	require.NoError(l, err)
	for i := range validating.Webhooks {
		*validating.Webhooks[i].ClientConfig.URL = nobody
	}
	_, err = api.ValidatingWebhookConfigurations().Update(l.Context(), validating, metav1.UpdateOptions{})
	require.NoError(l, err)
	harness.Eventually(l, "refusal by broken hooks", harness.Patience, func(ctx context.Context) error {
		_, err := l.of("clonesets", "v1beta1").Create(ctx, cloneSet("v1beta1", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("a CloneSet can still be created")
		}
		return nil
	})
}

// areMigrated checks that all objects are stored in v1beta1: without anybody who converts they can be read.
func (l *lab) areMigrated(n int) {
	l.Helper()
	require.Equal(l, []string{"v1beta1"}, l.storedVersions("clonesets"))
	l.process.Kill()
	list, err := l.of("clonesets", "v1beta1").List(l.Context(), metav1.ListOptions{})
	require.NoError(l, err)
	require.Len(l, list.Items, n)
}

func TestScenario041_046_TheClusterMigrates(t *testing.T) {
	l := newLab(t, "clonesets")
	l.storeAsBefore(stored)
	l.admit()
	l.breakHooks()
	before, generations, err := l.versions(t.Context())
	require.NoError(t, err)
	l.ends(l.migrate("--method=cluster"))
	after, same, err := l.versions(t.Context())
	require.NoError(t, err)
	require.Equal(t, generations, same)
	for name, version := range before {
		require.NotEqual(t, version, after[name], "%s was not written", name)
	}
	l.areMigrated(stored)
	// Controllers start although nobody converts.
	health := harness.FreeAddress(t)
	cluster.StartController(t, "cloneset-controller", l.namespace, "--health-probe-bind-address="+health)
	harness.Eventually(t, "readiness of the controller", harness.Patience, func(ctx context.Context) error { return isReady(ctx, health) })
}

func TestScenario042_ACRDThatChangesMeanwhileIsMigratedAnew(t *testing.T) {
	l := newLab(t, "clonesets")
	l.storeAsBefore(stored)
	before, _, err := l.versions(t.Context())
	require.NoError(t, err)
	p := l.migrate("--method=rewrite", "--writes-per-second=100")
	l.writtenSince(before, 20)
	require.NoError(t, l.patchCRD(t.Context(), "clonesets", `[{"op":"add","path":"/spec/versions/0/deprecationWarning","value":"speak v1beta1"},{"op":"add","path":"/spec/versions/0/deprecated","value":true}]`))
	t.Cleanup(func() {
		_ = l.patchCRD(context.Background(), "clonesets", `[{"op":"remove","path":"/spec/versions/0/deprecationWarning"},{"op":"remove","path":"/spec/versions/0/deprecated"}]`)
	})
	l.ends(p)
	require.Contains(t, p.Tail(20), "beginning anew")
	l.areMigrated(stored)
}

func TestScenario043_ThisProcessMigrates(t *testing.T) {
	l := newLab(t, "clonesets")
	l.storeAsBefore(stored)
	sets := l.of("clonesets", "v1beta1")
	before, _, err := l.versions(t.Context())
	require.NoError(t, err)
	p := l.migrate("--method=rewrite", "--writes-per-second=100")
	l.writtenSince(before, 20)
	require.NoError(t, sets.Delete(t.Context(), "old-299", metav1.DeleteOptions{}))
	_, err = sets.Patch(t.Context(), "old-298", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":3}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	l.ends(p)
	o, err := sets.Get(t.Context(), "old-298", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, int64(3), value(t, o, "spec", "minReadySeconds"))
	l.areMigrated(stored - 1)
}

// writtenSince waits until at least n objects have been written.
func (l *lab) writtenSince(before map[string]string, n int) {
	l.Helper()
	harness.Eventually(l, "the first writes", harness.Patience, func(ctx context.Context) error {
		now, _, err := l.versions(ctx)
		if err != nil {
			return err
		}
		written := 0
		for name, version := range now {
			if version != before[name] {
				written++
			}
		}
		if written < n {
			return fmt.Errorf("%d are written", written)
		}
		return nil
	})
}

func TestScenario044_WhatTodaysRulesRefuseIsMigratedToo(t *testing.T) {
	l := newLab(t, "statefulsets")
	const rules = "/spec/versions/%d/schema/openAPIV3Schema/x-kubernetes-validations"
	crd, err := l.crd(t.Context(), "statefulsets")
	require.NoError(t, err)
	var off, on []string
	for i, v := range crd.Spec.Versions {
		raw, err := json.Marshal(v.Schema.OpenAPIV3Schema.XValidations)
		require.NoError(t, err)
		off = append(off, fmt.Sprintf(`{"op":"remove","path":"`+rules+`"}`, i))
		on = append(on, fmt.Sprintf(`{"op":"add","path":"`+rules+`","value":%s}`, i, raw))
	}
	require.NoError(t, l.patchCRD(t.Context(), "statefulsets", "["+strings.Join(off, ",")+"]"))
	restored := false
	restore := func() {
		if !restored {
			restored = true
			require.NoError(t, l.patchCRD(context.Background(), "statefulsets", "["+strings.Join(on, ",")+"]"))
		}
	}
	t.Cleanup(restore)
	require.NoError(t, l.storeIn(t.Context(), "statefulsets", "v1alpha1"))
	l.isReady()
	long := strings.Repeat("long-name-", 6)[:59] + "x"
	sets := l.of("statefulsets", "v1beta1")
	set := object("StatefulSet", "v1beta1", long, map[string]any{"replicas": int64(0), "selector": selector(), "template": podTemplate(), "serviceName": "db"})
	_, err = sets.Create(t.Context(), set, metav1.CreateOptions{})
	require.NoError(t, err)
	restore()
	require.NoError(t, l.storeIn(t.Context(), "statefulsets", "v1beta1"))
	set.SetName(long + "y")
	_, err = sets.Create(t.Context(), set, metav1.CreateOptions{})
	require.True(t, apierrors.IsInvalid(err), "today's rules refuse it: %v", err)
	p := cluster.StartTask(t, "storage-migrator", "--method=rewrite", "--crds=statefulsets.apps.kruise.io")
	l.ends(p)
	require.Equal(t, []string{"v1beta1"}, l.storedVersions("statefulsets"))
	require.NoError(t, sets.Delete(t.Context(), long, metav1.DeleteOptions{}))
}

func TestScenario045_AMigrationThatIsKilledIsBegunAnew(t *testing.T) {
	l := newLab(t, "clonesets")
	l.storeAsBefore(stored)
	before, _, err := l.versions(t.Context())
	require.NoError(t, err)
	p := l.migrate("--method=rewrite", "--writes-per-second=100")
	l.writtenSince(before, stored/2)
	p.Kill()
	require.Contains(t, l.storedVersions("clonesets"), "v1alpha1")
	l.ends(l.migrate("--method=rewrite", "--writes-per-second=1000"))
	l.areMigrated(stored)
}

func TestScenario039_WhatIsStoredInTheOldVersionNeedsConversion(t *testing.T) {
	l := newLab(t, "clonesets")
	l.storeAsBefore(1)
	l.process.Kill()
	sets := l.of("clonesets", "v1beta1")
	_, err := sets.Get(t.Context(), "old-000", metav1.GetOptions{})
	require.Error(t, err)
	require.NoError(t, cluster.Kube.CoreV1().Namespaces().Delete(t.Context(), l.namespace, metav1.DeleteOptions{}))
	l.serve()
	harness.Eventually(t, "readiness", harness.Patience, func(ctx context.Context) error { return isReady(ctx, l.health) })
	harness.Eventually(t, "the end of the namespace", harness.Patience, func(ctx context.Context) error {
		_, err := cluster.Kube.CoreV1().Namespaces().Get(ctx, l.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}
