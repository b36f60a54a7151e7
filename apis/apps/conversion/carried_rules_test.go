package conversion

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatAConversionCarriesIsFaithful(t *testing.T) {
	carrying := 0
	random(t, objectsPerDirection/10, func(t *testing.T, _ generator, x Tree, kind, version string) {
		if version == V1beta1 || !hasHome(x) {
			return
		}
		delete(x, "status")
		setAnnotation(x, CarrierKey(kind, V1beta1), "")
		setAnnotation(x, CarrierKey(kind, V1alpha1), "")
		beta := convert(t, x, V1beta1)
		if child(beta, "metadata", "annotations")[CarrierKey(kind, V1alpha1)] != nil {
			carrying++
		}
		require.Empty(t, CarriedProblem(nil, beta), "%s\n%s", encode(t, x), encode(t, beta))
	})
	require.Greater(t, carrying, 100)
}

func TestWhatACarrierSaysBesideAV1beta1ObjectHasToBeFaithful(t *testing.T) {
	for name, c := range map[string]struct{ kind, object, carrier, problem string }{
		"another value":      {"CloneSet", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":3}}}}`, `{"restore":{"/spec/updateStrategy/partition":{"from":3,"to":99}}}`, "says of the object what v1beta1 does not"},
		"of another type":    {"CloneSet", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":3}}}}`, `{"restore":{"/spec/updateStrategy/partition":{"from":3,"to":[1]}}}`, "says of the object what v1beta1 does not"},
		"a whole strategy":   {"CloneSet", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":3}}}}`, `{"restore":{"/spec/updateStrategy":{"from":{"partition":3,"type":"ReCreate"},"to":"x"}}}`, "says of the object what v1beta1 does not"},
		"of the status":      {"UnitedDeployment", `{"spec":{}}`, `{"restore":{"/status/subsetReplicas":{"from":{"x":2},"to":"x"}}}`, "/restore/~1status~1subsetReplicas is not"},
		"outside":            {"CloneSet", `{"spec":{}}`, `{"restore":{"/spec/replicas":{"from":3,"to":"x"}}}`, "/restore/~1spec~1replicas is not"},
		"no object":          {"CloneSet", `{"spec":{}}`, `[]`, "must be a JSON object"},
		"a namespace":        {"SidecarSet", `{"spec":{}}`, `{"restore":{"/spec/namespace":{"to":"n1"}}}`, "says of the object what v1beta1 does not"},
		"none":               {"CloneSet", `{"spec":{}}`, `{}`, ""},
		"the same otherwise": {"CloneSet", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":3}}}}`, `{"restore":{"/spec/updateStrategy/type":{"from":"ReCreate"}}}`, ""},
		"what is stale":      {"CloneSet", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":4}}}}`, `{"restore":{"/spec/updateStrategy/partition":{"from":3,"to":99}}}`, ""},
		"too much of it":     {"CloneSet", `{"spec":{}}`, TooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			key := CarrierKey(c.kind, V1alpha1)
			bare := object(t, c.kind, V1beta1, c.object)
			carrying := deepCopyTree(bare)
			setAnnotation(carrying, key, c.carrier)
			for _, old := range []Tree{nil, bare} {
				problem := CarriedProblem(old, carrying)
				require.Contains(t, problem, c.problem)
				require.Equal(t, c.problem == "", problem == "", problem)
			}
			require.Empty(t, CarriedProblem(carrying, carrying), "what was there is not wrong")
			require.Empty(t, CarriedProblem(carrying, bare))
		})
	}
	// What is stale may not come true later.
	stale := object(t, "CloneSet", V1beta1, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":4}}}}`)
	setAnnotation(stale, CarrierKey("CloneSet", V1alpha1), `{"restore":{"/spec/updateStrategy/partition":{"from":3,"to":99}}}`)
	later := deepCopyTree(stale)
	child(later, "spec", "updateStrategy", "rollingUpdate")["partition"] = json.Number("3")
	require.Contains(t, CarriedProblem(stale, later), "says of the object what v1beta1 does not")
}
