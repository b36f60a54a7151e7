package conversion

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAHandWrittenCarrierCannotMakeAnObjectUnreadable(t *testing.T) {
	for name, entry := range map[string]string{
		"by its name":            `"/metadata/name":{"from":"x","to":"y"}`,
		"by its kind":            `"/kind":{"from":"SidecarSet","to":"Foo"}`,
		"by a malformed label":   `"/metadata/labels/apps.kruise.io~1sidecarset-custom-version":{"to":"not a label!"}`,
		"by a strange label":     `"/metadata/labels/other":{"to":"x"}`,
		"by labels that are odd": `"/metadata/labels":{"to":5}`,
	} {
		t.Run(name, func(t *testing.T) {
			x := object(t, "SidecarSet", V1beta1, `{"metadata":{"name":"x"},"spec":{"a":1}}`)
			clean := encode(t, convert(t, x, V1alpha1))
			setAnnotation(x, CarrierKey("SidecarSet", V1alpha1), `{"restore":{`+entry+`}}`)
			require.Equal(t, clean, encode(t, convert(t, x, V1alpha1)))
		})
	}
}

func TestAnUpdateThatOmitsTheCarrierKeepsIt(t *testing.T) {
	const carrier = `{"metadata":{"annotations":{"apps.kruise.io/%s-v1beta1-fields":"C"}}}`
	for name, c := range map[string]struct{ kind, updated, want string }{
		"59: a client dropped it":                  {"StatefulSet", `{"spec":{}}`, "C"},
		"a client cleared it":                      {"StatefulSet", `{"metadata":{"annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{}"}}}`, "{}"},
		"a client chose another template":          {"AdvancedCronJob", `{"spec":{"template":{"jobTemplate":{}}}}`, ""},
		"a cron job has no template it can see":    {"AdvancedCronJob", `{"spec":{"template":{}}}`, "C"},
		"metadata that cannot hold it stays alone": {"StatefulSet", `{"metadata":5}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			old := object(t, c.kind, V1alpha1, strings.Replace(carrier, "%s", strings.ToLower(c.kind), 1))
			updated := object(t, c.kind, V1alpha1, c.updated)
			before := encode(t, updated)
			kept, changed := KeepCarrier(old, updated)
			require.Equal(t, before != encode(t, kept), changed)
			require.Equal(t, c.want, text(child(kept, "metadata", "annotations"), CarrierKey(c.kind, V1beta1)))
			require.Equal(t, before, encode(t, updated))
		})
	}
}

func carrying(t *testing.T, kind, carrier string) Tree {
	t.Helper()
	obj := object(t, kind, V1alpha1, `{"metadata":{"name":"x"},"spec":{"replicas":1}}`)
	setAnnotation(obj, CarrierKey(kind, V1beta1), carrier)
	return obj
}

func TestAHandWrittenCarrierWritesNothingThatV1alpha1CanSay(t *testing.T) {
	for _, entry := range []string{
		`"/status":{"to":{"replicas":9}}`,
		`"/status/replicas":{"to":9}`,
		`"/spec/revisionHistoryLimit":{"to":11}`,
		`"/spec/replicas":{"from":1,"to":1000}`,
		`"/spec":{"from":{"replicas":1},"to":5}`,
		`"/spec":{"from":{"replicas":1}}`,
		`"/spec/template/spec/containers":{"to":[{"name":"other"}]}`,
		`"":{"to":1}`, `"/":{"to":1}`, `"spec":{"to":1}`,
		`"/metadata":{"from":{"name":"x"}}`,
	} {
		for _, kind := range []string{"CloneSet", "StatefulSet", "AdvancedCronJob", "SidecarSet", "UnitedDeployment"} {
			t.Run(kind+" "+entry, func(t *testing.T) {
				x := carrying(t, kind, `{"restore":{`+entry+`}}`)
				require.Contains(t, CarrierProblem(nil, x), "must be as written by the conversion: /restore")
				y := convert(t, x, V1beta1)
				setAnnotation(x, CarrierKey(kind, V1beta1), "{}")
				require.Equal(t, encode(t, convert(t, x, V1beta1)), encode(t, y))
			})
		}
	}
}

func TestACarrierOfAnotherShapeIsAProblem(t *testing.T) {
	for name, c := range map[string]struct{ kind, carrier, says string }{
		"a member that nobody writes":        {"StatefulSet", `{"bogus":1}`, "/bogus"},
		"a spec that is no object":           {"StatefulSet", `{"spec":5}`, "/spec"},
		"a field that v1alpha1 has":          {"StatefulSet", `{"spec":{"replicas":5}}`, "/spec/replicas"},
		"a template that v1alpha1 has":       {"AdvancedCronJob", `{"spec":{"template":{"jobTemplate":{}}}}`, "/spec/template/jobTemplate"},
		"entries that are no object":         {"CloneSet", `{"restore":[]}`, "/restore"},
		"an entry that is no object":         {"CloneSet", `{"restore":{"/spec/updateStrategy/type":5}}`, "/restore/~1spec~1updateStrategy~1type"},
		"a text":                             {"CloneSet", `garbage`, "must be a JSON object"},
		"what is of another kind":            {"SidecarSet", `{"updateStrategy":{"for":"OnDelete"}}`, "/updateStrategy"},
		"nothing":                            {"StatefulSet", `{}`, ""},
		"what a StatefulSet carries":         {"StatefulSet", `{"spec":{"reserveOrdinals":[1]},"status":{"updatedReadyReplicas":1}}`, ""},
		"what a CloneSet carries":            {"CloneSet", `{"updateStrategy":{"for":"OnDelete","podUpdatePolicy":"InPlaceOnly"},"restore":{"/spec/updateStrategy/type":{"from":"ReCreate"}}}`, ""},
		"what a SidecarSet carries":          {"SidecarSet", `{"label":"a","customVersion":"b"}`, ""},
		"what an AdvancedCronJob carries":    {"AdvancedCronJob", `{"spec":{"template":{"imageListPullJobTemplate":{}}}}`, ""},
		"a kind whose versions are the same": {"BroadcastJob", `{"spec":5}`, "must be"},
	} {
		t.Run(name, func(t *testing.T) {
			x := carrying(t, c.kind, c.carrier)
			if c.says == "" {
				require.Empty(t, CarrierProblem(nil, x))
				return
			}
			require.Contains(t, CarrierProblem(nil, x), c.says)
			require.Empty(t, CarrierProblem(x, x), "what is stored is no reason to refuse other changes")
		})
	}
}

func TestAnUpdateRestoresNothingElseThanWasCarried(t *testing.T) {
	const partition = `{"restore":{"/spec/updateStrategy/rollingUpdate/partition":{"from":5,"to":0}}}`
	old := object(t, "CloneSet", V1alpha1, `{"metadata":{"name":"x"},"spec":{"updateStrategy":{"partition":5}}}`)
	require.Contains(t, CarrierProblem(old, carrying(t, "CloneSet", partition)), "must be as written by the conversion: /restore")
	require.Empty(t, CarrierProblem(carrying(t, "CloneSet", partition), carrying(t, "CloneSet", strings.Replace(partition, "{", `{"updateStrategy":{"for":"OnDelete"},`, 1))))
	require.Empty(t, CarrierProblem(nil, carrying(t, "CloneSet", partition)))
}

func TestTextAndTreeAgreeOnWhatIsRestoredAboveTheirReach(t *testing.T) {
	for _, spec := range []string{`{"x":{}}`, `{"template":{"x":null}}`, `{"template":{}}`, `{}`} {
		x := object(t, "AdvancedCronJob", V1alpha1, `{"metadata":{"name":"x"},"spec":`+spec+`}`)
		setAnnotation(x, CarrierKey("AdvancedCronJob", V1beta1), `{"restore":{"/spec":{"from":`+spec+`}}}`)
		var out bytes.Buffer
		require.NoError(t, ConvertText(&out, []byte(encode(t, x)), Group+"/"+V1beta1))
		require.Equal(t, encode(t, convert(t, x, V1beta1)), encode(t, parse(t, out.String())), spec)
	}
}

func TestConversionsWriteNoCarrierThatIsAProblem(t *testing.T) {
	random(t, objectsPerDirection/10, func(t *testing.T, g generator, x Tree, kind, version string) {
		if version != V1beta1 || !hasHome(x) {
			return
		}
		y := convert(t, x, V1alpha1)
		if carrierOf(y, CarrierKey(kind, V1beta1)) != nil && carrierOf(x, CarrierKey(kind, V1beta1)) == nil {
			require.Empty(t, CarrierProblem(nil, y), encode(t, y))
		}
	})
}

func TestACarrierSaysOfTheStatusWhatIsStored(t *testing.T) {
	const stored = `{"spec":{"reserveOrdinals":[1]},"status":{"updatedReadyReplicas":2},"restore":{"/status/volumeClaims":{"to":[]}}}`
	for name, c := range map[string]struct{ old, updated, want string }{
		"as it was": {stored, stored, stored},
		"another status": {stored, `{"spec":{"reserveOrdinals":[2]},"status":{"updatedReadyReplicas":7,"volumeClaims":"x"}}`,
			`{"restore":{"/status/volumeClaims":{"to":[]}},"spec":{"reserveOrdinals":[2]},"status":{"updatedReadyReplicas":2}}`},
		"an entry about it": {stored, `{"restore":{"/spec/ordinals":{"to":{}},"/status/volumeClaims":{"to":"x"}}}`,
			`{"restore":{"/spec/ordinals":{"to":{}},"/status/volumeClaims":{"to":[]}},"status":{"updatedReadyReplicas":2}}`},
		"cleared":             {stored, `{}`, `{"restore":{"/status/volumeClaims":{"to":[]}},"status":{"updatedReadyReplicas":2}}`},
		"none was stored":     {`{}`, `{"status":{"updatedReadyReplicas":7}}`, `{}`},
		"a new object":        {"", `{"spec":{"reserveOrdinals":[2]},"status":{"updatedReadyReplicas":7}}`, `{"spec":{"reserveOrdinals":[2]}}`},
		"what cannot be read": {stored, `garbage`, `garbage`},
	} {
		t.Run(name, func(t *testing.T) {
			var old Tree
			if c.old != "" {
				old = carrying(t, "StatefulSet", c.old)
			}
			kept, _ := KeepCarrier(old, carrying(t, "StatefulSet", c.updated))
			again, changed := KeepCarrier(old, kept)
			require.False(t, changed)
			require.Equal(t, c.want, text(child(kept, "metadata", "annotations"), CarrierKey("StatefulSet", V1beta1)))
			require.Equal(t, encode(t, kept), encode(t, again), "applied to its own output")
		})
	}
}

func TestAnnotationsLeaveRoomForWhatV1alpha1CannotSay(t *testing.T) {
	room := maxAnnotationBytes - len(CarrierKey("StatefulSet", V1beta1)) - len(TooLarge)
	filled := func(kind, spec string, size int) []byte {
		x := object(t, kind, V1beta1, `{"metadata":{"name":"x"},"spec":`+spec+`}`)
		setAnnotation(x, "a", strings.Repeat("x", size-len("a")))
		return []byte(encode(t, x))
	}
	const reserving = `{"reserveOrdinals":[1]}`
	full, fuller := filled("StatefulSet", reserving, room), filled("StatefulSet", reserving, room+1)
	require.Empty(t, RoomProblem(nil, full))
	require.Contains(t, RoomProblem(nil, fuller), "1 bytes too many")
	require.NotEmpty(t, RoomProblem(full, fuller))
	require.Empty(t, RoomProblem(fuller, fuller))
	require.Empty(t, RoomProblem(nil, filled("StatefulSet", `{"replicas":1}`, room+1)), "nothing is to be said")
	require.Empty(t, RoomProblem(nil, filled("BroadcastJob", reserving, room+1)))
	require.NotContains(t, child(convert(t, parse(t, string(fuller)), V1alpha1), "metadata", "annotations"), CarrierKey("StatefulSet", V1beta1))
	require.Contains(t, child(convert(t, parse(t, string(full)), V1alpha1), "metadata", "annotations"), CarrierKey("StatefulSet", V1beta1))
	stored := convert(t, parse(t, string(fuller)), V1alpha1)
	require.Contains(t, CarrierProblem(stored, object(t, "StatefulSet", V1alpha1, `{"spec":{}}`)), "edit this object through v1beta1")
}
