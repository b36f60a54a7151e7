package webhook

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func united(version, name, kind string, more map[string]any, subsets ...any) *unstructured.Unstructured {
	spec := map[string]any{"selector": selector(), "template": podTemplate()}
	for k, v := range more {
		spec[k] = v
	}
	return object("UnitedDeployment", version, name, map[string]any{
		"selector": selector(),
		"template": map[string]any{kind: map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}, "spec": spec}},
		"topology": map[string]any{"subsets": append([]any{}, subsets...)},
	})
}

func TestUnitedDeploymentAdmissionOnARealServer(t *testing.T) {
	l := newLab(t, "uniteddeployments")
	l.admit()
	alpha, beta := l.of("uniteddeployments", "v1alpha1"), l.of("uniteddeployments", "v1beta1")

	t.Run("Scenarios002and025_defaults reach both versions, each in its own form", func(t *testing.T) {
		flat := map[string]any{"updateStrategy": map[string]any{"type": "InPlaceIfPossible", "maxUnavailable": "20%"}}
		a, err := alpha.Create(t.Context(), united("v1alpha1", "flat", "cloneSetTemplate", flat, map[string]any{"name": "a", "maxReplicas": int64(4)}, map[string]any{"name": "b"}), metav1.CreateOptions{})
		require.NoError(t, err)
		b, err := beta.Get(t.Context(), "flat", metav1.GetOptions{})
		require.NoError(t, err)
		for _, o := range []*unstructured.Unstructured{a, b} {
			require.Equal(t, int64(1), value(t, o, "spec", "replicas"))
			require.Equal(t, "Manual", value(t, o, "spec", "updateStrategy", "type"))
			for _, s := range value(t, o, "spec", "topology", "subsets").([]any) {
				require.Equal(t, int64(0), s.(map[string]any)["minReplicas"])
			}
		}
		require.Equal(t, "InPlaceIfPossible", value(t, a, "spec", "template", "cloneSetTemplate", "spec", "updateStrategy", "type"))
		require.Equal(t, "InPlaceIfPossible", value(t, b, "spec", "template", "cloneSetTemplate", "spec", "updateStrategy", "rollingUpdate", "podUpdatePolicy"))
	})

	t.Run("Scenario052_three violations are one refusal", func(t *testing.T) {
		bad := united("v1beta1", "bad", "deploymentTemplate", nil, map[string]any{"name": "a", "replicas": int64(2)})
		require.NoError(t, unstructured.SetNestedField(bad.Object, "other", "spec", "template", "deploymentTemplate", "metadata", "labels", "app"))
		require.NoError(t, unstructured.SetNestedField(bad.Object, int64(1), "spec", "updateStrategy", "manualUpdate", "partitions", "nobody"))
		_, err := beta.Create(t.Context(), bad, metav1.CreateOptions{})
		require.Equal(t, []string{"spec.template.deploymentTemplate.metadata.labels", "spec.topology.subsets", "spec.updateStrategy.manualUpdate.partitions"}, causes(t, err))
	})

	t.Run("Scenario084_the API server judges the template, and what patches make of it", func(t *testing.T) {
		mistake := podTemplate()
		mistake["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["image"] = ""
		for _, kind := range []string{"deployment", "statefulSet", "advancedStatefulSet", "cloneSet"} {
			_, err := beta.Create(t.Context(), united("v1beta1", "bad", kind+"Template", map[string]any{"template": mistake}), metav1.CreateOptions{})
			require.Equal(t, []string{"spec.template." + kind + "Template.spec.template.spec.containers[0].image"}, causes(t, err))
		}
		patch := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "volumeMounts": []any{map[string]any{"name": "nope", "mountPath": "/x"}}}}}}
		_, err := beta.Create(t.Context(), united("v1beta1", "bad", "deploymentTemplate", nil, map[string]any{"name": "a"}, map[string]any{"name": "b", "patch": patch}), metav1.CreateOptions{})
		require.Equal(t, []string{"spec.topology.subsets[1].patch"}, causes(t, err))
		require.ErrorContains(t, err, "volumeMounts[0].name of the result")
		claims := map[string]any{"volumeClaimTemplates": []any{map[string]any{"metadata": map[string]any{"name": "nope"}, "spec": map[string]any{}}}}
		_, err = beta.Create(t.Context(), united("v1beta1", "good", "advancedStatefulSetTemplate", claims, map[string]any{"name": "b", "patch": patch}), metav1.CreateOptions{})
		require.NoError(t, err)
	})

	t.Run("Scenario022_a patch that loses the Pods is refused", func(t *testing.T) {
		patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{"apps.kruise.io/subset-name": "z"}}}
		_, err := alpha.Create(t.Context(), united("v1alpha1", "bad", "deploymentTemplate", nil, map[string]any{"name": "a", "patch": patch}), metav1.CreateOptions{})
		require.Equal(t, []string{"spec.topology.subsets[0].patch"}, causes(t, err))
	})

	t.Run("a template without what its workload must have is refused in both versions", func(t *testing.T) {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			for _, kind := range []string{"cloneSetTemplate", "advancedStatefulSetTemplate"} {
				for _, member := range []string{"selector", "template"} {
					bad := united(version, "bad", kind, nil)
					unstructured.RemoveNestedField(bad.Object, "spec", "template", kind, "spec", member)
					_, err := l.create(t, "uniteddeployments", version, bad)
					// Rules that cannot be looked at then are a cause without a field.
					require.Contains(t, causes(t, err), "spec.template."+kind+".spec."+member, version)
				}
			}
		}
	})

	t.Run("percentages of a template of CloneSets may have a fraction", func(t *testing.T) {
		share := map[string]any{
			"scaleStrategy":  map[string]any{"maxUnavailable": "33.3%"},
			"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"maxUnavailable": "33.3%", "maxSurge": "0.5%"}},
		}
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			_, err := l.create(t, "uniteddeployments", version, united(version, "share-"+version, "cloneSetTemplate", share))
			require.NoError(t, err)
		}
	})
}
