package webhook

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// refusedFields are those of a 422 that the validating hook gave.
func refusedFields(t *testing.T, err error) []string {
	t.Helper()
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, ".kb.io", "the schema said it, not the hook")
	var status apierrors.APIStatus
	require.ErrorAs(t, err, &status)
	var fields []string
	for _, c := range status.Status().Details.Causes {
		fields = append(fields, c.Field)
	}
	return fields
}

// onlyContainer is that of a Pod template.
func onlyContainer(t *testing.T, o *unstructured.Unstructured, path ...string) map[string]any {
	t.Helper()
	list, _ := value(t, o, append(path, "spec", "containers")...).([]any)
	require.Len(t, list, 1)
	c, ok := list[0].(map[string]any)
	require.True(t, ok)
	return c
}

func (l *lab) create(t *testing.T, resource, version string, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	return l.of(resource, version).Create(t.Context(), o, metav1.CreateOptions{})
}

func finite(containers ...any) map[string]any {
	if containers == nil {
		containers = []any{map[string]any{"name": "main", "image": "registry.example/web:1"}}
	}
	return map[string]any{"spec": map[string]any{"restartPolicy": "Never", "containers": containers}}
}

func TestAdmissionOfTheOtherKindsOnARealServer(t *testing.T) {
	l := newLab(t)
	l.admit()
	t.Run("StatefulSet", func(t *testing.T) { statefulSets(t, l) })
	t.Run("StatefulSet claims", func(t *testing.T) { claimTemplates(t, l) })
	t.Run("BroadcastJob", func(t *testing.T) { broadcastJobs(t, l) })
	t.Run("AdvancedCronJob", func(t *testing.T) { advancedCronJobs(t, l) })
}

func statefulSet(version, name string, more map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"replicas": int64(0), "selector": selector(), "template": podTemplate()}
	for k, v := range more {
		spec[k] = v
	}
	return object("StatefulSet", version, name, spec)
}

// olderWrites change replicas in the three ways that clients of v1alpha1 have.
func olderWrites(t *testing.T, l *lab) {
	hook := map[string]any{"preDelete": map[string]any{"labelsHandler": map[string]any{"hook": "true"}}}
	_, err := l.create(t, "statefulsets", "v1beta1", statefulSet("v1beta1", "kept", map[string]any{
		"reserveOrdinals": []any{int64(1)}, "ordinals": map[string]any{"start": int64(1)}, "lifecycle": hook,
	}))
	require.NoError(t, err)
	alpha := l.of("statefulsets", "v1alpha1")
	a, err := alpha.Get(t.Context(), "kept", metav1.GetOptions{})
	require.NoError(t, err)
	require.Contains(t, a.GetAnnotations(), "apps.kruise.io/statefulset-v1beta1-fields")
	for replicas, write := range []func(replicas int64) error{
		func(n int64) error {
			_, err := alpha.Patch(t.Context(), "kept", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{})
			return err
		},
		func(n int64) error {
			scale, err := alpha.Get(t.Context(), "kept", metav1.GetOptions{}, "scale")
			require.NoError(t, err)
			require.NoError(t, unstructured.SetNestedField(scale.Object, n, "spec", "replicas"))
			_, err = alpha.Update(t.Context(), scale, metav1.UpdateOptions{}, "scale")
			return err
		},
		func(n int64) error {
			now, err := alpha.Get(t.Context(), "kept", metav1.GetOptions{})
			require.NoError(t, err)
			// An old manifest has no annotation.
			put := statefulSet("v1alpha1", "kept", map[string]any{"replicas": n})
			put.SetResourceVersion(now.GetResourceVersion())
			_, err = alpha.Update(t.Context(), put, metav1.UpdateOptions{})
			return err
		},
	} {
		n := int64(replicas) + 2
		require.NoError(t, write(n))
		b, err := l.of("statefulsets", "v1beta1").Get(t.Context(), "kept", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, n, value(t, b, "spec", "replicas"))
		require.Equal(t, []any{int64(1)}, value(t, b, "spec", "reserveOrdinals"))
		require.Equal(t, int64(1), value(t, b, "spec", "ordinals", "start"))
		require.Equal(t, any(hook), value(t, b, "spec", "lifecycle"))
		require.NotContains(t, b.GetAnnotations(), "apps.kruise.io/statefulset-v1beta1-fields")
	}
}

// claimsDeletion creates by server-side apply, which leaves a deletionTimestamp in place until after admission.
func claimsDeletion(t *testing.T, l *lab) {
	now := metav1.Now()
	set := statefulSet("v1alpha1", "claims-deletion", nil)
	set.SetDeletionTimestamp(&now)
	set.SetAnnotations(map[string]string{"apps.kruise.io/statefulset-v1beta1-fields": `{"spec":{"reserveOrdinals":[1]},"status":{"updatedReadyReplicas":9,"volumeClaims":"x"}}`})
	_, err := l.of("statefulsets", "v1alpha1").Apply(t.Context(), set.GetName(), set, metav1.ApplyOptions{FieldManager: "somebody"})
	require.NoError(t, err)
	b, err := l.of("statefulsets", "v1beta1").Get(t.Context(), set.GetName(), metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, b.GetDeletionTimestamp())
	require.Equal(t, []any{int64(1)}, value(t, b, "spec", "reserveOrdinals"))
	require.Equal(t, "OrderedReady", value(t, b, "spec", "podManagementPolicy"), "defaults are filled in")
	require.NotContains(t, b.Object, "status")
}

func statefulSets(t *testing.T, l *lab) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		_, err := l.create(t, "statefulsets", version, statefulSet(version, "defaults-"+version, nil))
		require.NoError(t, err)
		b, err := l.of("statefulsets", "v1beta1").Get(t.Context(), "defaults-"+version, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "OrderedReady", value(t, b, "spec", "podManagementPolicy"))
		require.Equal(t, "ReCreate", value(t, b, "spec", "updateStrategy", "rollingUpdate", "podUpdatePolicy"))
		require.Equal(t, "Always", onlyContainer(t, b, "spec", "template")["imagePullPolicy"])
		if version == "v1beta1" {
			require.Equal(t, "Retain", value(t, b, "spec", "persistentVolumeClaimRetentionPolicy", "whenScaled"))
			require.Equal(t, "OnDelete", value(t, b, "spec", "volumeClaimUpdateStrategy", "type"))
		}
	}
	_, err := l.create(t, "statefulsets", "v1beta1", statefulSet("v1beta1", "bad", map[string]any{"reserveOrdinals": []any{int64(3), "12"}}))
	require.Equal(t, []string{"spec.reserveOrdinals[1]"}, causes(t, err))
	// What no schema says.
	_, err = l.create(t, "statefulsets", "v1beta1", statefulSet("v1beta1", "bad", map[string]any{"reserveOrdinals": []any{int64(3), "5-3"}, "podManagementPolicy": "Parallel",
		"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"maxUnavailable": "0%", "podUpdatePolicy": "InPlaceOnly"}}}))
	require.ElementsMatch(t, []string{"spec.reserveOrdinals[1]", "spec.updateStrategy.rollingUpdate.maxUnavailable", "spec.template.spec.readinessGates"}, refusedFields(t, err))
	_, err = l.create(t, "statefulsets", "v1alpha1", statefulSet("v1alpha1", "bad", map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"maxUnavailable": int64(2)}}}))
	require.Equal(t, []string{"spec.updateStrategy.rollingUpdate.maxUnavailable"}, refusedFields(t, err))

	t.Run("Scenario116_writes in the older version erase nothing", func(t *testing.T) { olderWrites(t, l) })
	t.Run("an object that claims to be deleted is admitted like any other", func(t *testing.T) { claimsDeletion(t, l) })

	t.Run("Scenario085_a template that is wrong already blocks nothing else", func(t *testing.T) {
		template := podTemplate()
		template["spec"] = map[string]any{"containers": []any{map[string]any{"name": "C_", "image": "i"}}}
		require.NoError(t, cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "flotilla-validating-webhook-configuration", metav1.DeleteOptions{}))
		harness.Eventually(t, "a write that nobody validates", harness.Patience, func(ctx context.Context) error {
			_, err := l.of("statefulsets", "v1beta1").Create(ctx, statefulSet("v1beta1", "old", map[string]any{"template": template}), metav1.CreateOptions{})
			return err
		})
		l.validate()
		sets := l.of("statefulsets", "v1beta1")
		harness.Eventually(t, "validation", harness.Patience, func(ctx context.Context) error {
			_, err := sets.Create(ctx, statefulSet("v1beta1", "another", map[string]any{"template": template}), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if apierrors.IsInvalid(err) {
				return nil
			}
			return fmt.Errorf("not refused: %w", err)
		})
		_, err := sets.Patch(t.Context(), "old", types.MergePatchType, []byte(`{"spec":{"replicas":1},"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = sets.Patch(t.Context(), "old", types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"j"}]`), metav1.PatchOptions{})
		require.Equal(t, []string{"spec.template.spec.containers[0].name"}, refusedFields(t, err))
	})
}

func claimTemplates(t *testing.T, l *lab) {
	claim := func(class, size string) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "data"}, "spec": map[string]any{
			"storageClassName": class, "accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": size}},
		}}
	}
	mounting := func(claims ...any) map[string]any {
		template := podTemplate()
		template["spec"] = map[string]any{"containers": []any{map[string]any{"name": "main", "image": "i", "volumeMounts": []any{map[string]any{"name": "data", "mountPath": "/data"}}}}}
		return map[string]any{"template": template, "volumeClaimTemplates": claims, "volumeClaimUpdateStrategy": map[string]any{"type": "OnPodRollingUpdate"}}
	}
	sets := l.of("statefulsets", "v1beta1")
	stiff := &storagev1.StorageClass{Provisioner: "flotilla.test/none", AllowVolumeExpansion: ptr.To(false)}
	stiff.GenerateName = "stiff-"
	stiff, err := cluster.Kube.StorageV1().StorageClasses().Create(t.Context(), stiff, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		// The test's own context has ended by now.
		_ = cluster.Kube.StorageV1().StorageClasses().Delete(context.Background(), stiff.Name, metav1.DeleteOptions{})
	})

	t.Run("Scenario088_a claim template can be mounted", func(t *testing.T) {
		_, err := sets.Create(t.Context(), statefulSet("v1beta1", "unclaimed", mounting()), metav1.CreateOptions{})
		require.Equal(t, []string{"spec.template.spec.containers[0].volumeMounts[0].name"}, refusedFields(t, err))
		_, err = sets.Create(t.Context(), statefulSet("v1beta1", "claimed", mounting(claim(stiff.Name, "1Gi"))), metav1.CreateOptions{})
		require.NoError(t, err)
	})
	t.Run("Scenario102_a class that does not expand", func(t *testing.T) {
		patch := []byte(`[{"op":"replace","path":"/spec/volumeClaimTemplates/0/spec/resources/requests/storage","value":"2Gi"}]`)
		harness.Eventually(t, "the class is known", harness.Patience, func(ctx context.Context) error {
			_, err := sets.Patch(ctx, "claimed", types.JSONPatchType, patch, metav1.PatchOptions{})
			if fields := refusedFields(t, err); fields[0] != "spec.volumeClaimTemplates[data].spec.resources.requests.storage" {
				return errors.New(fields[0])
			}
			return nil
		})
		leave := []byte(`{"spec":{"volumeClaimUpdateStrategy":{"type":"OnDelete"}}}`)
		_, err := sets.Patch(t.Context(), "claimed", types.MergePatchType, leave, metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = sets.Patch(t.Context(), "claimed", types.JSONPatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
	})
}

func broadcastJobs(t *testing.T, l *lab) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		created, err := l.create(t, "broadcastjobs", version, object("BroadcastJob", version, "defaults-"+version, map[string]any{"template": finite()}))
		require.NoError(t, err)
		require.Equal(t, "Always", value(t, created, "spec", "completionPolicy", "type"))
		require.Equal(t, "FailFast", value(t, created, "spec", "failurePolicy", "type"))
		require.Equal(t, int64(2147483647), value(t, created, "spec", "parallelism"))
		require.Equal(t, "Always", onlyContainer(t, created, "spec", "template")["imagePullPolicy"])

		_, err = l.create(t, "broadcastjobs", version, object("BroadcastJob", version, "not.good", map[string]any{"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"broadcastjob-name": "x"}}, "spec": finite()["spec"],
		}}))
		require.ElementsMatch(t, []string{"metadata.name", "spec.template.metadata.labels"}, refusedFields(t, err))
		_, err = l.create(t, "broadcastjobs", version, object("BroadcastJob", version, "bad", map[string]any{"template": finite(map[string]any{"name": "C_", "image": "i"})}))
		require.Equal(t, []string{"spec.template.spec.containers[0].name"}, refusedFields(t, err))
	}
	// v1beta1 has this in its schema.
	_, err := l.create(t, "broadcastjobs", "v1alpha1", object("BroadcastJob", "v1alpha1", "bad", map[string]any{"template": podTemplate()}))
	require.Equal(t, []string{"spec.template.spec.restartPolicy"}, refusedFields(t, err))
}

func advancedCronJobs(t *testing.T, l *lab) {
	job := func(template map[string]any) map[string]any {
		return map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": template}}}
	}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		created, err := l.create(t, "advancedcronjobs", version, object("AdvancedCronJob", version, "defaults-"+version, map[string]any{"schedule": "0 0 1 1 *", "template": job(finite())}))
		require.NoError(t, err)
		require.Equal(t, "Allow", value(t, created, "spec", "concurrencyPolicy"))
		require.Equal(t, int64(3), value(t, created, "spec", "successfulJobsHistoryLimit"))
		require.Equal(t, "Always", onlyContainer(t, created, "spec", "template", "jobTemplate", "spec", "template")["imagePullPolicy"])

		_, err = l.create(t, "advancedcronjobs", version, object("AdvancedCronJob", version, "bad", map[string]any{"schedule": "0 0 31 2 *", "timeZone": "Mars/X", "template": job(podTemplate())}))
		require.ElementsMatch(t, []string{"spec.schedule", "spec.timeZone", "spec.template.jobTemplate.spec.template.spec.restartPolicy"}, refusedFields(t, err))

		t.Run("Scenario091_the API server judges the template, in "+version, func(t *testing.T) {
			_, err := l.create(t, "advancedcronjobs", version, object("AdvancedCronJob", version, "bad", map[string]any{"schedule": "@daily", "template": job(finite(map[string]any{"name": "main"}))}))
			require.Equal(t, []string{"spec.template.jobTemplate.spec.template.spec.containers[0].image"}, refusedFields(t, err))
			broadcast := map[string]any{"broadcastJobTemplate": map[string]any{"spec": map[string]any{"template": finite(map[string]any{"name": "main"})}}}
			_, err = l.create(t, "advancedcronjobs", version, object("AdvancedCronJob", version, "bad", map[string]any{"schedule": "@daily", "template": broadcast}))
			require.Equal(t, []string{"spec.template.broadcastJobTemplate.spec.template.spec.containers[0].image"}, refusedFields(t, err))
		})
	}
	t.Run("Scenario044_the template may change and its kind may not", func(t *testing.T) {
		jobs := l.of("advancedcronjobs", "v1alpha1")
		_, err := jobs.Patch(t.Context(), "defaults-v1alpha1", types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/template/jobTemplate/spec/template/spec/containers/0/image","value":"j"}]`), metav1.PatchOptions{})
		require.NoError(t, err)
		patch := []byte(`{"spec":{"template":{"jobTemplate":null,"broadcastJobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"j"}]}}}}}}}`)
		_, err = jobs.Patch(t.Context(), "defaults-v1alpha1", types.MergePatchType, patch, metav1.PatchOptions{})
		require.Equal(t, []string{"spec.template"}, refusedFields(t, err))
	})
}
