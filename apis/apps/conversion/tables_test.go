package conversion

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, s string) Tree {
	t.Helper()
	obj, err := Decode([]byte(s))
	require.NoError(t, err)
	return obj
}

func convert(t *testing.T, obj Tree, version string) Tree {
	t.Helper()
	out, err := Convert(obj, Group+"/"+version)
	require.NoError(t, err)
	return out
}

// object completes an object with kind and version.
func object(t *testing.T, kind, version, rest string) Tree {
	t.Helper()
	obj := parse(t, rest)
	obj["kind"], obj["apiVersion"] = kind, Group+"/"+version
	return obj
}

type example struct{ kind, from, is, becomes string }

// Every example also comes back.
func examples() map[string]example {
	return map[string]example{
		"cloneset 98: nothing said in v1alpha1 means that claims are reused": {"CloneSet", V1alpha1,
			`{"spec":{"replicas":1}}`, `{"spec":{"replicas":1,"scaleStrategy":{"enablePVCReuse":true}}}`},
		"cloneset: reuse that is disabled is the default of v1beta1": {"CloneSet", V1alpha1,
			`{"spec":{"scaleStrategy":{"disablePVCReuse":true}}}`, `{"spec":{}}`},
		"cloneset: an in-place type is RollingUpdate with a policy": {"CloneSet", V1alpha1,
			`{"spec":{"updateStrategy":{"type":"InPlaceOnly","partition":"20%","x":1}}}`,
			`{"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"InPlaceOnly","partition":"20%"},"x":1}}}`},
		"webhook 30: parameters beside OnDelete survive": {"CloneSet", V1beta1,
			`{"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"OnDelete","rollingUpdate":{"partition":3}}}}`,
			`{"spec":{"updateStrategy":{"type":"OnDelete","partition":3}}}`},
		"cloneset 99: the policy of an OnDelete set is carried": {"CloneSet", V1beta1,
			`{"metadata":{"name":"x"},"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":{"partition":2,"podUpdatePolicy":"InPlaceOnly"}}}}`,
			`{"metadata":{"name":"x","annotations":{"apps.kruise.io/cloneset-v1beta1-fields":"{\"updateStrategy\":{\"for\":\"OnDelete\",\"podUpdatePolicy\":\"InPlaceOnly\"}}"}},"spec":{"scaleStrategy":{"disablePVCReuse":true},"updateStrategy":{"type":"OnDelete","partition":2}}}`},
		"cloneset: an empty rollingUpdate without a type is carried": {"CloneSet", V1beta1,
			`{"metadata":{"name":"x"},"spec":{"updateStrategy":{"rollingUpdate":{}}}}`,
			`{"metadata":{"name":"x","annotations":{"apps.kruise.io/cloneset-v1beta1-fields":"{\"updateStrategy\":{\"for\":\"ReCreate\",\"podUpdatePolicy\":null,\"rollingUpdate\":true,\"type\":null}}"}},"spec":{"scaleStrategy":{"disablePVCReuse":true},"updateStrategy":{"type":"ReCreate"}}}`},
		"cloneset: unknown members of rollingUpdate are shown and carried by name": {"CloneSet", V1beta1,
			`{"metadata":{"name":"x"},"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate","x":null}}}}`,
			`{"metadata":{"name":"x","annotations":{"apps.kruise.io/cloneset-v1beta1-fields":"{\"updateStrategy\":{\"for\":\"ReCreate\",\"members\":[\"x\"]}}"}},"spec":{"scaleStrategy":{"disablePVCReuse":true},"updateStrategy":{"type":"ReCreate","x":null}}}`},
		"cloneset: an annotation that says a pre-download field": {"CloneSet", V1alpha1,
			`{"metadata":{"annotations":{"apps.kruise.io/image-predownload-parallelism":"20%","apps.kruise.io/image-predownload-min-updated-ready-pods":"20%"}},"spec":{}}`,
			`{"metadata":{"annotations":{"apps.kruise.io/image-predownload-parallelism":"20%","apps.kruise.io/image-predownload-min-updated-ready-pods":"20%"}},"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"rollingUpdate":{"inPlaceUpdateStrategy":{"imagePreDownloadParallelism":"20%"}}}}}`},
		"webhook 27: a spec that is no object passes through": {"CloneSet", V1beta1, `{"spec":5}`, `{"spec":5}`},
		"statefulset 116: what v1alpha1 lacks is carried": {"StatefulSet", V1beta1,
			`{"metadata":{"name":"x"},"spec":{"replicas":3,"reserveOrdinals":[1,"3-5"],"ordinals":{"start":0}},"status":{"replicas":3,"updatedReadyReplicas":2,"updatedAvailableReplicas":0}}`,
			`{"metadata":{"name":"x","annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{\"spec\":{\"ordinals\":{\"start\":0},\"reserveOrdinals\":[1,\"3-5\"]},\"status\":{\"updatedReadyReplicas\":2}}"}},"spec":{"replicas":3},"status":{"replicas":3,"updatedAvailableReplicas":0}}`},
		"webhook 35: nothing to carry leaves no annotations": {"StatefulSet", V1beta1, `{"metadata":{"name":"x"},"spec":{"replicas":3}}`, `{"metadata":{"name":"x"},"spec":{"replicas":3}}`},
		"statefulset: a carrier that cannot be read is an ordinary annotation": {"StatefulSet", V1alpha1,
			`{"metadata":{"annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"garbage"}},"spec":{}}`,
			`{"metadata":{"annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"garbage"}},"spec":{}}`},
		"advancedcronjob 49 and webhook 26: the third template is carried": {"AdvancedCronJob", V1beta1,
			`{"metadata":{"name":"x"},"spec":{"paused":true,"template":{"imageListPullJobTemplate":{"spec":{"images":["a"]}}}}}`,
			`{"metadata":{"name":"x","annotations":{"apps.kruise.io/advancedcronjob-v1beta1-fields":"{\"spec\":{\"template\":{\"imageListPullJobTemplate\":{\"spec\":{\"images\":[\"a\"]}}}}}"}},"spec":{"paused":true,"template":{}}}`},
		"broadcastjob 76: only the version changes": {"BroadcastJob", V1alpha1,
			`{"metadata":{"name":"x"},"spec":{"parallelism":"50%","y":{}},"status":{"conditions":null}}`,
			`{"metadata":{"name":"x"},"spec":{"parallelism":"50%","y":{}},"status":{"conditions":null}}`},
		"sidecarset 6 and 7: a namespace is a selector of one namespace": {"SidecarSet", V1alpha1,
			`{"metadata":{"name":"x"},"spec":{"namespace":"ns1"}}`,
			`{"metadata":{"name":"x","annotations":{"apps.kruise.io/sidecarset-v1alpha1-fields":"{\"namespace\":\"ns1\"}"}},"spec":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"ns1"}}}}`},
		"sidecarset 8: a selector beside the namespace is remembered": {"SidecarSet", V1alpha1,
			`{"metadata":{"name":"x"},"spec":{"namespace":"ns1","namespaceSelector":{"matchLabels":{"tier":"a"}}}}`,
			`{"metadata":{"name":"x","annotations":{"apps.kruise.io/sidecarset-v1alpha1-fields":"{\"namespace\":\"ns1\",\"namespaceSelector\":{\"matchLabels\":{\"tier\":\"a\"}}}"}},"spec":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"ns1"}}}}`},
		"sidecarset 10: the label is the custom version": {"SidecarSet", V1alpha1,
			`{"metadata":{"labels":{"apps.kruise.io/sidecarset-custom-version":"v1"}},"spec":{}}`, `{"metadata":{},"spec":{"customVersion":"v1"}}`},
		"sidecarset 11: the label of a v1beta1 object is remembered": {"SidecarSet", V1beta1,
			`{"metadata":{"labels":{"apps.kruise.io/sidecarset-custom-version":"x"}},"spec":{}}`,
			`{"metadata":{"annotations":{"apps.kruise.io/sidecarset-v1beta1-fields":"{\"customVersion\":\"\",\"label\":\"x\"}"},"labels":{"apps.kruise.io/sidecarset-custom-version":"x"}},"spec":{}}`},
		"uniteddeployment 25: a flat CloneSet template is nested and remembered": {"UnitedDeployment", V1alpha1,
			`{"metadata":{"name":"x"},"spec":{"template":{"cloneSetTemplate":{"spec":{"updateStrategy":{"type":"InPlaceIfPossible","maxUnavailable":"20%"}}}}}}`,
			`{"metadata":{"name":"x","annotations":{"apps.kruise.io/uniteddeployment-cloneset-shape":"flat"}},"spec":{"template":{"cloneSetTemplate":{"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"InPlaceIfPossible","maxUnavailable":"20%"}}}}}}}`},
		"uniteddeployment 26: a nested one stays as it is": {"UnitedDeployment", V1alpha1,
			`{"spec":{"template":{"cloneSetTemplate":{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":{"partition":1}}}}}}}`,
			`{"spec":{"template":{"cloneSetTemplate":{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":{"partition":1}}}}}}}`},
		"uniteddeployment 27: the subsets are maps as well in v1alpha1": {"UnitedDeployment", V1beta1,
			`{"status":{"updatedRevision":"r","subsetStatuses":[{"name":"a","replicas":3,"partition":1},{"name":"b","replicas":2}]}}`,
			`{"status":{"updateStatus":{"updatedRevision":"r","currentPartitions":{"a":1,"b":0}},"subsetReplicas":{"a":3,"b":2},"subsetStatuses":[{"name":"a","replicas":3,"partition":1},{"name":"b","replicas":2}]}}`},
		"uniteddeployment: a scaleStrategy that is no object passes through": {"UnitedDeployment", V1alpha1,
			`{"metadata":{"name":"x"},"spec":{"template":{"cloneSetTemplate":{"metadata":{"labels":{"apps.kruise.io/cloneset-scaling-exclude-preparing-delete":"true"}},"spec":{"scaleStrategy":5,"updateStrategy":{"type":"ReCreate"}}}}}}`,
			`{"metadata":{"annotations":{"apps.kruise.io/uniteddeployment-cloneset-shape":"flat"},"name":"x"},"spec":{"template":{"cloneSetTemplate":{"metadata":{"labels":{"apps.kruise.io/cloneset-scaling-exclude-preparing-delete":"true"}},"spec":{"scaleStrategy":5,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate"}}}}}}}`},
		"uniteddeployment: a policy beside OnDelete has no flat place and stays nested": {"UnitedDeployment", V1beta1,
			`{"metadata":{"name":"x","annotations":{"apps.kruise.io/uniteddeployment-cloneset-shape":"flat"}},"spec":{"template":{"cloneSetTemplate":{"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"OnDelete","rollingUpdate":{"podUpdatePolicy":"InPlaceOnly","partition":1}}}}}}}`,
			`{"metadata":{"name":"x"},"spec":{"template":{"cloneSetTemplate":{"spec":{"updateStrategy":{"type":"OnDelete","partition":1,"rollingUpdate":{"podUpdatePolicy":"InPlaceOnly"}}}}}}}`},
		"uniteddeployment: unknown members beside the maps stay": {"UnitedDeployment", V1alpha1,
			`{"status":{"updateStatus":{"updatedRevision":"r","x":1}}}`, `{"status":{"updatedRevision":"r","updateStatus":{"x":1}}}`},
	}
}

func TestEachMatterIsConvertedAsItsDocumentSays(t *testing.T) {
	for name, e := range examples() {
		t.Run(name, func(t *testing.T) {
			x := object(t, e.kind, e.from, e.is)
			y := convert(t, x, other(e.from))
			require.Equal(t, encode(t, object(t, e.kind, other(e.from), e.becomes)), encode(t, y))
			require.Equal(t, encode(t, x), encode(t, convert(t, y, e.from)))
		})
	}
}

// edits are made between two conversions; a value of nil removes.
func TestAnEditThroughTheOtherVersionWins(t *testing.T) {
	for name, c := range map[string]struct {
		kind, from, is string
		edit           []string
		value          any
		want           string
	}{
		"cloneset 99: a type that is changed drops the carried policy": {"CloneSet", V1beta1,
			`{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":{"partition":2,"podUpdatePolicy":"InPlaceOnly"}}}}`,
			[]string{"spec", "updateStrategy", "type"}, "ReCreate",
			`{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":2,"podUpdatePolicy":"ReCreate"}}}}`},
		"cloneset 100: a label that is removed clears the field": {"CloneSet", V1beta1,
			`{"metadata":{"labels":{"a":"b"}},"spec":{"scaleStrategy":{"enablePVCReuse":true,"excludePreparingDelete":true}}}`,
			[]string{"metadata", "labels", excludePreparingDeleteLabel}, nil,
			`{"metadata":{"labels":{"a":"b"}},"spec":{"scaleStrategy":{"enablePVCReuse":true}}}`},
		"cloneset: an explicit false that is edited stays edited": {"CloneSet", V1beta1,
			`{"spec":{"scaleStrategy":{"enablePVCReuse":false,"podsToDelete":["a"]}}}`, []string{"spec", "scaleStrategy", "disablePVCReuse"}, nil,
			`{"spec":{"scaleStrategy":{"enablePVCReuse":true,"podsToDelete":["a"]}}}`},
		"webhook 31: a field in the v1alpha1 spec is the annotation": {"CloneSet", V1alpha1,
			`{"metadata":{"name":"x"},"spec":{"updateStrategy":{"type":"InPlaceOnly","inPlaceUpdateStrategy":{"imagePreDownloadParallelism":2}}}}`,
			[]string{"spec", "updateStrategy", "rollingUpdate", inPlace, "imagePreDownloadParallelism"}, json.Number("3"),
			`{"metadata":{"annotations":{"apps.kruise.io/image-predownload-parallelism":"3"},"name":"x"},"spec":{"updateStrategy":{"type":"InPlaceOnly"}}}`},
		"webhook 29: replicas change and reserved ordinals stay": {"StatefulSet", V1beta1,
			`{"metadata":{},"spec":{"replicas":3,"reserveOrdinals":[1]}}`, []string{"spec", "replicas"}, json.Number("4"),
			`{"metadata":{},"spec":{"replicas":4,"reserveOrdinals":[1]}}`},
		"sidecarset 9: a changed selector ends the namespace": {"SidecarSet", V1alpha1,
			`{"metadata":{},"spec":{"namespace":"ns1"}}`, []string{"spec", "namespaceSelector"}, Tree{"matchLabels": Tree{"tier": "a"}},
			`{"metadata":{},"spec":{"namespaceSelector":{"matchLabels":{"tier":"a"}}}}`},
		"sidecarset: a changed label is the custom version": {"SidecarSet", V1beta1,
			`{"metadata":{"labels":{"apps.kruise.io/sidecarset-custom-version":"x"}},"spec":{"customVersion":"c"}}`,
			[]string{"metadata", "labels", customVersionLabel}, "new", `{"metadata":{},"spec":{"customVersion":"new"}}`},
		"uniteddeployment: without the annotation the view is nested": {"UnitedDeployment", V1alpha1,
			`{"metadata":{"annotations":{"a":"b"}},"spec":{"template":{"cloneSetTemplate":{"spec":{"updateStrategy":{"type":"ReCreate"}}}}}}`,
			[]string{"metadata", "annotations", shapeAnnotation}, nil,
			`{"metadata":{"annotations":{"a":"b"}},"spec":{"template":{"cloneSetTemplate":{"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate"}}}}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			y := convert(t, object(t, c.kind, c.from, c.is), other(c.from))
			at, last := y, len(c.edit)-1
			for _, k := range c.edit[:last] {
				at = ensure(at, k)
				require.NotNil(t, at)
			}
			if at[c.edit[last]] = c.value; c.value == nil {
				delete(at, c.edit[last])
			}
			back := convert(t, y, c.from)
			metadata := child(back, "metadata")
			if len(metadata) == 0 {
				delete(back, "metadata")
			}
			want := object(t, c.kind, c.from, c.want)
			if len(child(want, "metadata")) == 0 {
				delete(want, "metadata")
			}
			require.Equal(t, encode(t, want), encode(t, back))
		})
	}
}

func TestScenario25UnknownFieldsAreUnchanged(t *testing.T) {
	x := object(t, "CloneSet", V1beta1, `{"spec":{"fromTheFuture":{"a":1},"template":{"spec":{"containers":[{"newField":9007199254740993}]}},"updateStrategy":{"rollingUpdate":{"x":null}}}}`)
	require.Equal(t, encode(t, x), encode(t, convert(t, convert(t, x, V1alpha1), V1beta1)))
}

func TestScenario32SubsetsOfMapsComeInTheOrderOfTheTopologyThenByName(t *testing.T) {
	x := object(t, "UnitedDeployment", V1alpha1, `{"spec":{"topology":{"subsets":[{"name":"m"},{"name":"c"}]}},"status":{"subsetReplicas":{"z":1,"y":2,"c":3,"m":4},"updateStatus":{"currentPartitions":{"y":1}}}}`)
	first := encode(t, convert(t, x, V1beta1))
	require.Contains(t, first, `"subsetStatuses":[{"name":"m","replicas":4},{"name":"c","replicas":3},{"name":"y","partition":1,"replicas":2},{"name":"z","replicas":1}]`)
	for range 1000 {
		require.Equal(t, first, encode(t, convert(t, x, V1beta1)))
	}
}

func TestScenario33WhatDoesNotFitIsSaidToBeTooLarge(t *testing.T) {
	x := object(t, "AdvancedCronJob", V1beta1, `{"metadata":{"name":"x"},"spec":{"template":{"imageListPullJobTemplate":{}}}}`)
	x["spec"].(Tree)["template"].(Tree)[imageListPullJobTemplate] = Tree{"spec": strings.Repeat("x", 300<<10)}
	y := convert(t, x, V1alpha1)
	require.Equal(t, TooLarge, child(y, "metadata", "annotations")[CarrierKey("AdvancedCronJob", V1beta1)])
	require.Contains(t, CarrierProblem(nil, y), "edit this object through v1beta1")
}

// Annotations of more than 256 KiB would fail the whole list.
func TestAnnotationsNeverGrowTooLarge(t *testing.T) {
	for size := maxAnnotationBytes - 200; size < maxAnnotationBytes; size += 7 {
		x := object(t, "StatefulSet", V1beta1, `{"metadata":{"name":"x"},"spec":{"reserveOrdinals":[1]}}`)
		setAnnotation(x, "a", strings.Repeat("x", size))
		total := 0
		for k, v := range child(convert(t, x, V1alpha1), "metadata", "annotations") {
			total += len(k) + len(v.(string))
		}
		require.LessOrEqual(t, total, maxAnnotationBytes)
	}
}

func TestConvertFailsOnlyForWhatItCannotName(t *testing.T) {
	for name, c := range map[string]struct{ obj, to, says string }{
		"an unknown kind":          {`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"Foo"}`, "apps.kruise.io/v1beta1", "Foo"},
		"an unknown version":       {`{"apiVersion":"apps.kruise.io/v2","kind":"CloneSet"}`, "apps.kruise.io/v1beta1", "v2"},
		"an unknown wish":          {`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet"}`, "apps.kruise.io/v9", "v9"},
		"an apiVersion of no text": {`{"apiVersion":5,"kind":"CloneSet"}`, "apps.kruise.io/v1beta1", "apiVersion"},
		"no kind":                  {`{"apiVersion":"apps.kruise.io/v1beta1"}`, "apps.kruise.io/v1beta1", "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Convert(parse(t, c.obj), c.to)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestACustomVersionThatIsNoLabelValueIsNotMadeALabel(t *testing.T) {
	x := object(t, "SidecarSet", V1beta1, `{"metadata":{"name":"x"},"spec":{"customVersion":"not a label!"}}`)
	y := convert(t, x, V1alpha1)
	require.Empty(t, child(y, "metadata", "labels"))
	require.Equal(t, encode(t, x), encode(t, convert(t, y, V1beta1)))
}

func TestDecodeTakesOneObjectOnly(t *testing.T) {
	for _, s := range []string{"", "null", "[]", "5", "{", "{}{}", `{}x`} {
		_, err := Decode([]byte(s))
		require.Error(t, err, s)
	}
}
