package policies

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/test/harness"
)

// protected are objects of all kinds under the policy.
type protected struct {
	*testing.T
	objects   dynamic.Interface
	namespace string
}

func protect(t *testing.T) *protected {
	t.Helper()
	objects, err := dynamic.NewForConfig(cluster.Config)
	require.NoError(t, err)
	cluster.InstallPolicy(t, "policies/delete-protection.yaml")
	p := &protected{t, objects, cluster.PodNamespace(t, "", nil)}
	probe := p.create("", "v1", "services", "Service", "probe", "Always", map[string]any{"ports": []any{map[string]any{"port": int64(80)}}})
	harness.Eventually(t, "protection", harness.Patience, func(ctx context.Context) error {
		err := probe.api.Delete(ctx, "probe", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("it may be deleted")
		}
		return nil
	})
	return p
}

// object is one that is there.
type object struct {
	*testing.T
	api  dynamic.ResourceInterface
	name string
}

func (p *protected) create(group, version, resource, kind, name, protection string, spec map[string]any) *object {
	p.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": schema.GroupVersion{Group: group, Version: version}.String(), "kind": kind,
		"metadata": map[string]any{"name": name, "labels": map[string]any{pub.DeleteProtectionKey: protection}},
	}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	r := p.objects.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
	var api dynamic.ResourceInterface = r
	if kind != "Namespace" && kind != "CustomResourceDefinition" {
		api = r.Namespace(p.namespace)
	}
	_, err := api.Create(p.Context(), o, metav1.CreateOptions{})
	require.NoError(p, err)
	out := &object{p.T, api, name}
	p.Cleanup(func() {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, pub.DeleteProtectionKey)
		if _, err := api.Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
			_ = api.Delete(context.Background(), name, metav1.DeleteOptions{})
		}
	})
	return out
}

func (o *object) stays(why string) {
	o.Helper()
	err := o.api.Delete(o.Context(), o.name, metav1.DeleteOptions{})
	require.True(o, apierrors.IsForbidden(err), "%s: %v", o.name, err)
	require.ErrorContains(o, err, why)
}

func (o *object) goes() {
	o.Helper()
	require.NoError(o, o.api.Delete(o.Context(), o.name, metav1.DeleteOptions{}), o.name)
}

func (o *object) patch(patch string) {
	o.Helper()
	_, err := o.api.Patch(o.Context(), o.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(o, err)
}

func (o *object) unprotect() {
	o.patch(fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, pub.DeleteProtectionKey))
}

func selector() map[string]any { return map[string]any{"matchLabels": map[string]any{"app": "x"}} }

func template() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "x"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "registry.example/main:1"}}},
	}
}

// workloads are the specs of all kinds that have replicas.
func workloads() []struct {
	group, version, resource, kind string
	spec                           map[string]any
} {
	plain := func() map[string]any { return map[string]any{"selector": selector(), "template": template()} }
	stateful := plain()
	stateful["serviceName"] = "x"
	nativeStateful := plain()
	nativeStateful["serviceName"] = "x"
	united := map[string]any{"selector": selector(), "template": map[string]any{"deploymentTemplate": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "x"}}, "spec": plain(),
	}}}
	return []struct {
		group, version, resource, kind string
		spec                           map[string]any
	}{
		{"apps.kruise.io", "v1beta1", "clonesets", "CloneSet", plain()},
		{"apps.kruise.io", "v1beta1", "statefulsets", "StatefulSet", stateful},
		{"apps.kruise.io", "v1beta1", "uniteddeployments", "UnitedDeployment", united},
		{"apps", "v1", "deployments", "Deployment", plain()},
		{"apps", "v1", "statefulsets", "StatefulSet", nativeStateful},
		{"apps", "v1", "replicasets", "ReplicaSet", plain()},
	}
}

func TestScenario77AndCloneSetScenario105AndStatefulSetScenario124AndUnitedDeploymentScenario24WorkloadsAreProtected(t *testing.T) {
	p := protect(t)
	for _, w := range workloads() {
		t.Run(w.resource+"."+w.group, func(t *testing.T) {
			p := &protected{t, p.objects, p.namespace}
			// Replicas that are left out are one.
			cascading := p.create(w.group, w.version, w.resource, w.kind, "cascading", "Cascading", w.spec)
			cascading.stays("scale to 0")
			cascading.patch(`{"spec":{"replicas":2}}`)
			cascading.stays("scale to 0")
			cascading.patch(`{"spec":{"replicas":0}}`)
			cascading.goes()

			always := p.create(w.group, w.version, w.resource, w.kind, "always", "Always", w.spec)
			always.patch(`{"spec":{"replicas":0}}`)
			always.stays("Always")
			always.unprotect()
			always.goes()

			other := p.create(w.group, w.version, w.resource, w.kind, "other", "Sometimes", w.spec)
			other.goes()
		})
	}
}

func TestScenario78WhatHoldsOthersIsProtected(t *testing.T) {
	p := protect(t)
	for _, protection := range []string{"Always", "Cascading"} {
		ns := p.create("", "v1", "namespaces", "Namespace", p.namespace+"-"+map[string]string{"Always": "a", "Cascading": "c"}[protection], protection, nil)
		ns.stays(protection)
		ns.unprotect()
		ns.goes()
		crd := p.create("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "things.example.com", protection, map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
		})
		crd.stays(protection)
		crd.unprotect()
		crd.goes()
		harness.Eventually(t, "the end of the CRD", harness.Patience, func(ctx context.Context) error {
			if _, err := crd.api.Get(ctx, crd.name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				return nil
			}
			return errors.New("it is still there")
		})
	}
}

func TestServicesAndIngressesAreProtected(t *testing.T) {
	p := protect(t)
	ports := map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
	backend := map[string]any{"defaultBackend": map[string]any{"service": map[string]any{"name": "x", "port": map[string]any{"number": int64(80)}}}}
	for _, o := range []*object{
		p.create("", "v1", "services", "Service", "always", "Always", ports),
		p.create("networking.k8s.io", "v1", "ingresses", "Ingress", "always", "Always", backend),
	} {
		o.stays("Always")
		o.unprotect()
		o.goes()
	}
	p.create("", "v1", "services", "Service", "cascading", "Cascading", ports).goes()
}

func TestWhatIsTerminatingAlreadyIsNotHeldUp(t *testing.T) {
	p := protect(t)
	o := p.create("", "v1", "services", "Service", "going", "Sometimes", map[string]any{"ports": []any{map[string]any{"port": int64(80)}}})
	o.patch(`{"metadata":{"finalizers":["example.com/wait"]}}`)
	o.goes()
	o.patch(fmt.Sprintf(`{"metadata":{"labels":{%q:"Always"}}}`, pub.DeleteProtectionKey))
	o.goes()
	o.patch(`{"metadata":{"finalizers":null}}`)
}
