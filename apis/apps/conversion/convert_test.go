package conversion

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func convert(t *testing.T, raw, to string) string {
	t.Helper()
	tree, err := Decode([]byte(raw))
	require.NoError(t, err)
	out, err := Convert(tree, group+to)
	require.NoError(t, err)
	text, err := Encode(out)
	require.NoError(t, err)
	return string(text)
}

func TestCloneSetByTheTable(t *testing.T) {
	const head = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet",`
	for name, c := range map[string]struct{ alpha, beta string }{
		"98 nothing given means that claims are reused": {
			`"spec":{}}`, `"spec":{"scaleStrategy":{"enablePVCReuse":true}}}`},
		"an in-place type is a policy": {
			`"spec":{"scaleStrategy":{"disablePVCReuse":true},"updateStrategy":{"partition":3,"type":"InPlaceIfPossible"}}}`,
			`"spec":{"scaleStrategy":{"enablePVCReuse":false},"updateStrategy":{"rollingUpdate":{"partition":3,"podUpdatePolicy":"InPlaceIfPossible"},"type":"RollingUpdate"}}}`},
		"OnDelete keeps its parameters": {
			`"spec":{"updateStrategy":{"maxSurge":"20%","paused":true,"type":"OnDelete"}}}`,
			`"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"rollingUpdate":{"maxSurge":"20%","paused":true},"type":"OnDelete"}}}`},
		"100 the label stands for a member": {
			`"metadata":{"labels":{"apps.kruise.io/cloneset-scaling-exclude-preparing-delete":"true"}},"spec":{}}`,
			`"metadata":{"labels":{"apps.kruise.io/cloneset-scaling-exclude-preparing-delete":"true"}},"spec":{"scaleStrategy":{"enablePVCReuse":true,"excludePreparingDelete":true}}}`},
		"pre-download annotations stand for members": {
			`"metadata":{"annotations":{"apps.kruise.io/image-predownload-parallelism":"4"}},"spec":{"updateStrategy":{"inPlaceUpdateStrategy":{"gracePeriodSeconds":1},"type":"InPlaceOnly"}}}`,
			`"metadata":{"annotations":{"apps.kruise.io/image-predownload-parallelism":"4"}},"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"rollingUpdate":{"inPlaceUpdateStrategy":{"gracePeriodSeconds":1,"imagePreDownloadParallelism":4},"podUpdatePolicy":"InPlaceOnly"},"type":"RollingUpdate"}}}`},
		"unknown members and wrong types stay": {
			`"spec":{"future":{"n":9007199254740993},"updateStrategy":5}}`,
			`"spec":{"future":{"n":9007199254740993},"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":5}}`},
	} {
		t.Run(name, func(t *testing.T) {
			beta := strings.Replace(head, "v1alpha1", "v1beta1", 1) + c.beta
			require.Equal(t, beta, convert(t, head+c.alpha, "v1beta1"))
			require.Equal(t, strings.Replace(head+c.alpha, `"spec":{}`, `"spec":{}`, 1), convert(t, beta, "v1alpha1"))
		})
	}
}

func TestScenario99AnOnDeleteSetKeepsItsPolicyUnlessTheTypeIsChanged(t *testing.T) {
	beta := `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{},"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"rollingUpdate":{"partition":2,"podUpdatePolicy":"InPlaceOnly"},"type":"OnDelete"}}}`
	alpha := convert(t, beta, "v1alpha1")
	require.Contains(t, alpha, `{\"updateStrategy\":{\"for\":\"OnDelete\",\"podUpdatePolicy\":\"InPlaceOnly\"}}`)
	require.Contains(t, alpha, `"updateStrategy":{"partition":2,"type":"OnDelete"}`)
	require.Equal(t, beta, convert(t, alpha, "v1beta1"))
	edited := strings.Replace(alpha, `"type":"OnDelete"`, `"type":"ReCreate"`, 1)
	require.Contains(t, convert(t, edited, "v1beta1"), `"updateStrategy":{"rollingUpdate":{"partition":2,"podUpdatePolicy":"ReCreate"},"type":"RollingUpdate"}`)
	require.NotContains(t, convert(t, edited, "v1beta1"), "cloneset-v1beta1-fields")
}

func TestStatefulSetCarriesWhatV1alpha1Lacks(t *testing.T) {
	beta := `{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","spec":{"ordinals":{"start":0},"replicas":3,"reserveOrdinals":[1,"3-5"]},"status":{"replicas":3,"updatedReadyReplicas":2}}`
	alpha := convert(t, beta, "v1alpha1")
	require.Equal(t, `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"StatefulSet","metadata":{"annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{\"spec\":{\"ordinals\":{\"start\":0},\"reserveOrdinals\":[1,\"3-5\"]},\"status\":{\"updatedReadyReplicas\":2}}"}},"spec":{"replicas":3},"status":{"replicas":3}}`, alpha)
	require.Equal(t, strings.Replace(beta, `"kind":"StatefulSet",`, `"kind":"StatefulSet","metadata":{},`, 1), convert(t, alpha, "v1beta1"))
}

func TestSidecarSetNamespaceAndCustomVersion(t *testing.T) {
	alpha := `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"SidecarSet","metadata":{"labels":{"apps.kruise.io/sidecarset-custom-version":"7"}},"spec":{"namespace":"n1"}}`
	beta := convert(t, alpha, "v1beta1")
	require.Contains(t, beta, `"spec":{"customVersion":"7","namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"n1"}}}`)
	require.Equal(t, alpha, convert(t, beta, "v1alpha1"))
	edited := strings.Replace(beta, `"kubernetes.io/metadata.name":"n1"`, `"kubernetes.io/metadata.name":"n2"`, 1)
	require.Contains(t, convert(t, edited, "v1alpha1"), `"spec":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"n2"}}}`)
}

func TestUnitedDeploymentAcceptsBothShapesOfACloneSet(t *testing.T) {
	flat := `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"UnitedDeployment","metadata":{},"spec":{"template":{"cloneSetTemplate":{"spec":{"updateStrategy":{"maxUnavailable":2,"type":"InPlaceIfPossible"}}}}}}`
	beta := convert(t, flat, "v1beta1")
	require.Contains(t, beta, `"updateStrategy":{"rollingUpdate":{"maxUnavailable":2,"podUpdatePolicy":"InPlaceIfPossible"},"type":"RollingUpdate"}`)
	require.Contains(t, beta, `"apps.kruise.io/uniteddeployment-cloneset-shape":"flat"`)
	require.Equal(t, flat, convert(t, beta, "v1alpha1"))
	nested := `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"UnitedDeployment","spec":{"template":{"cloneSetTemplate":{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":2}}}}}}}`
	require.Equal(t, strings.Replace(nested, "v1alpha1", "v1beta1", 1), convert(t, nested, "v1beta1"))
}

func TestUnitedDeploymentStatusListsAreInTopologyOrder(t *testing.T) {
	beta := convert(t, `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"UnitedDeployment","spec":{"topology":{"subsets":[{"name":"z"},{"name":"a"}]}},"status":{"subsetReplicas":{"a":1,"k":3,"z":2}}}`, "v1beta1")
	require.Contains(t, beta, `"status":{"subsetStatuses":[{"name":"z","replicas":2},{"name":"a","replicas":1},{"name":"k","replicas":3}]}`)
}

func TestAnImageListPullJobTemplateDoesNotBreakV1alpha1(t *testing.T) {
	beta := `{"apiVersion":"apps.kruise.io/v1beta1","kind":"AdvancedCronJob","metadata":{},"spec":{"template":{"imageListPullJobTemplate":{"spec":{"images":["a"]}}}}}`
	alpha := convert(t, beta, "v1alpha1")
	require.Contains(t, alpha, `"spec":{"template":{}}`)
	require.Equal(t, beta, convert(t, alpha, "v1beta1"))
}

func TestWhatIsTooLargeToCarryIsSaidSo(t *testing.T) {
	beta := `{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","spec":{"lifecycle":"` + strings.Repeat("x", 300<<10) + `"}}`
	require.Contains(t, convert(t, beta, "v1alpha1"), `"apps.kruise.io/statefulset-v1beta1-fields":"too-large"`)
}

func TestOnlyUnknownKindsAndVersionsFail(t *testing.T) {
	for _, raw := range []string{
		`{"kind":"CloneSet"}`, `{"apiVersion":"apps.kruise.io/v1alpha1"}`, `{"apiVersion":5,"kind":"CloneSet"}`,
		`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"DaemonSet"}`, `{"apiVersion":"apps.kruise.io/v2","kind":"CloneSet"}`,
	} {
		tree, err := Decode([]byte(raw))
		require.NoError(t, err)
		_, err = Convert(tree, v1beta1)
		require.Error(t, err, raw)
	}
	tree, err := Decode([]byte(`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet"}`))
	require.NoError(t, err)
	_, err = Convert(tree, "apps.kruise.io/v3")
	require.ErrorContains(t, err, "v3")
	_, err = Decode([]byte(`null`))
	require.Error(t, err)
}

func TestAnUpdateThatLeavesOutTheCarrierKeepsIt(t *testing.T) {
	old, err := Decode([]byte(`{"kind":"StatefulSet","metadata":{"annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{}"}}}`))
	require.NoError(t, err)
	updated := Tree{"kind": "StatefulSet"}
	KeepCarrier(old, updated)
	kept, ok := getMeta(updated, annotations, CarrierKey(kindStatefulSet))
	require.True(t, ok)
	require.Equal(t, "{}", kept)
	explicit := Tree{"kind": "StatefulSet", "metadata": Tree{"annotations": Tree{CarrierKey(kindStatefulSet): "other"}}}
	KeepCarrier(old, explicit)
	kept, _ = getMeta(explicit, annotations, CarrierKey(kindStatefulSet))
	require.Equal(t, "other", kept)
}
