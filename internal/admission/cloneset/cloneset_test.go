package cloneset

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission/admissiontest"
)

const minimal = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},` +
	`"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"i"}]}}}}`

func TestScenarios48And49DefaultsAreAddedAndNothingElse(t *testing.T) {
	admissiontest.AddsOnly(t, Kind(nil), minimal)
	out := admissiontest.Defaulted(t, Kind(nil), "", minimal)
	for _, text := range []string{`"replicas":1`, `"revisionHistoryLimit":10`, `"maxUnavailable":"20%"`, `"podUpdatePolicy":"ReCreate"`, `"imagePullPolicy":"Always"`} {
		require.Contains(t, out, text)
	}
}

func TestCloneSetScenario97DefaultsOfAMinimalSet(t *testing.T) {
	var set struct {
		Spec struct {
			Replicas, RevisionHistoryLimit int
			ScaleStrategy                  struct{ EnablePVCReuse bool }
			UpdateStrategy                 struct {
				Type          string
				RollingUpdate map[string]any
			}
			Template struct {
				Spec struct {
					Containers []struct{ ImagePullPolicy string }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(admissiontest.Defaulted(t, Kind(nil), "", minimal)), &set))
	require.Equal(t, 1, set.Spec.Replicas)
	require.Equal(t, 10, set.Spec.RevisionHistoryLimit)
	require.False(t, set.Spec.ScaleStrategy.EnablePVCReuse)
	require.Equal(t, "RollingUpdate", set.Spec.UpdateStrategy.Type)
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	require.EqualValues(t, 0, rolling["partition"])
	require.Equal(t, "20%", rolling["maxUnavailable"])
	require.EqualValues(t, 0, rolling["maxSurge"])
	require.Equal(t, "ReCreate", rolling["podUpdatePolicy"])
	require.Equal(t, "Always", set.Spec.Template.Spec.Containers[0].ImagePullPolicy)
}

func TestCloneSetScenario101OnDeleteIsAcceptedInV1alpha1(t *testing.T) {
	set := strings.NewReplacer("v1beta1", "v1alpha1", `"template":`, `"updateStrategy":{"type":"OnDelete"},"template":`).Replace(minimal)
	require.True(t, admissiontest.Check(t, Kind(nil), "", set).Allowed)
}

func TestScenario50OnceIsEnough(t *testing.T) {
	admissiontest.OnceIsEnough[v1beta1.CloneSet](t, Kind(nil))
}

func TestScenario47UnknownMembersStay(t *testing.T) {
	future := strings.Replace(minimal, `"image":"i"`, `"image":"i","futureField":{"a":9007199254740993}`, 1)
	future = strings.Replace(future, `"spec":{"selector"`, `"spec":{"alsoNew":[null],"selector"`, 1)
	out := admissiontest.Defaulted(t, Kind(nil), "", future)
	require.Contains(t, out, `"futureField":{"a":9007199254740993}`)
	require.Contains(t, out, `"alsoNew":[null]`)
}

func TestATemplateThatDoesNotChangeIsNotDefaulted(t *testing.T) {
	scaled := strings.Replace(minimal, `"spec":{"selector"`, `"spec":{"replicas":3,"selector"`, 1)
	require.NotContains(t, admissiontest.Defaulted(t, Kind(nil), minimal, scaled), "imagePullPolicy")
	changed := strings.Replace(minimal, `"image":"i"`, `"image":"j"`, 1)
	require.Contains(t, admissiontest.Defaulted(t, Kind(nil), minimal, changed), "imagePullPolicy")
}

func TestDefaultsOfTheOlderVersionAreInItsOwnForm(t *testing.T) {
	alpha := strings.Replace(minimal, "v1beta1", "v1alpha1", 1)
	out := admissiontest.Defaulted(t, Kind(nil), "", alpha)
	var set struct {
		Metadata map[string]any
		Spec     struct {
			Replicas       int
			UpdateStrategy map[string]any
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &set))
	require.Equal(t, 1, set.Spec.Replicas)
	require.Equal(t, "ReCreate", set.Spec.UpdateStrategy["type"])
	require.Equal(t, "20%", set.Spec.UpdateStrategy["maxUnavailable"])
	require.NotContains(t, set.Spec.UpdateStrategy, "rollingUpdate")
	require.Equal(t, map[string]any{"name": "web"}, set.Metadata)
	require.JSONEq(t, out, admissiontest.Defaulted(t, Kind(nil), "", out), "once is enough")
}

// TestDefaultsAreAddedToWhatTheOlderVersionSaysElsewhere: the way back turns these members into annotations, which are not part
// of the patch, and so may not take them away.
func TestDefaultsAreAddedToWhatTheOlderVersionSaysElsewhere(t *testing.T) {
	const inPlace = `"inPlaceUpdateStrategy":{"imagePreDownloadParallelism":2}`
	alpha := strings.NewReplacer("v1beta1", "v1alpha1", `"spec":{"selector"`, `"spec":{"updateStrategy":{`+inPlace+`},"selector"`).Replace(minimal)
	out := admissiontest.Defaulted(t, Kind(nil), "", alpha)
	require.Contains(t, out, inPlace)
	require.Contains(t, out, `"maxUnavailable":"20%"`)
	require.Equal(t, out, admissiontest.Defaulted(t, Kind(nil), "", out))
}

func TestScenario59ACarrierThatAClientLeftOutComesBack(t *testing.T) {
	old := `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"web","annotations":{"apps.kruise.io/cloneset-v1beta1-fields":"{\"updateStrategy\":{\"for\":\"OnDelete\",\"podUpdatePolicy\":\"InPlaceOnly\"}}"}},` +
		`"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"i"}]}},"updateStrategy":{"type":"OnDelete","partition":2}}}`
	put := strings.Replace(old, `,"annotations":{"apps.kruise.io/cloneset-v1beta1-fields":"{\"updateStrategy\":{\"for\":\"OnDelete\",\"podUpdatePolicy\":\"InPlaceOnly\"}}"}`, "", 1)
	require.NotEqual(t, old, put)
	require.Contains(t, admissiontest.Defaulted(t, Kind(nil), old, put), "cloneset-v1beta1-fields")
}

func TestScenario52EveryViolationIsNamed(t *testing.T) {
	bad := strings.NewReplacer(`"matchLabels":{"app":"web"}},`, `"matchLabels":{"app":"other"}},"minReadySeconds":-1,"updateStrategy":{"rollingUpdate":{"partition":"abc","maxUnavailable":0,"maxSurge":0}},`).Replace(minimal)
	r := admissiontest.Check(t, Kind(nil), "", bad)
	require.False(t, r.Allowed)
	require.EqualValues(t, http.StatusUnprocessableEntity, r.Result.Code)
	var fields []string
	for _, c := range r.Result.Details.Causes {
		fields = append(fields, c.Field)
	}
	require.ElementsMatch(t, []string{"spec.minReadySeconds", "spec.template.metadata.labels", "spec.updateStrategy.rollingUpdate.partition"}, fields)
	alpha := strings.NewReplacer("v1beta1", "v1alpha1", `"updateStrategy":{"rollingUpdate":{"partition":"abc","maxUnavailable":0,"maxSurge":0}}`, `"updateStrategy":{"partition":"abc"}`).Replace(bad)
	r = admissiontest.Check(t, Kind(nil), "", alpha)
	require.Contains(t, fmt.Sprint(r.Result.Details.Causes), "spec.updateStrategy.partition", "58 the path is that of the version that was spoken")
}

func TestCloneSetScenario58InPlaceOnlyAllowsWhatCanBeDone(t *testing.T) {
	only := strings.Replace(minimal, `"spec":{"selector"`, `"spec":{"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"InPlaceOnly"}},"selector"`, 1)
	for change, allowed := range map[string]bool{
		`"image":"j"`:                      true,
		`"image":"i","env":[{"name":"A"}]`: false,
		`"image":"j","args":["x"]`:         false,
	} {
		r := admissiontest.Check(t, Kind(nil), only, strings.Replace(only, `"image":"i"`, change, 1))
		require.Equal(t, allowed, r.Allowed, change)
		if !allowed {
			require.Equal(t, "spec.template", r.Result.Details.Causes[0].Field)
		}
	}
}

func TestCloneSetScenarios102And103(t *testing.T) {
	for name, c := range map[string]struct {
		replace, with, field string
	}{
		"partition":         {`"spec":{"selector"`, `"spec":{"updateStrategy":{"rollingUpdate":{"partition":"30"}},"selector"`, "spec.updateStrategy.rollingUpdate.partition"},
		"twice":             {`"spec":{"selector"`, `"spec":{"scaleStrategy":{"podsToDelete":["a","a"]},"selector"`, "spec.scaleStrategy.podsToDelete"},
		"empty selector":    {`{"matchLabels":{"app":"web"}}`, `{}`, "spec.selector"},
		"restartPolicy":     {`"spec":{"containers"`, `"spec":{"restartPolicy":"Never","containers"`, "spec.template.spec.restartPolicy"},
		"deadline of Pods":  {`"spec":{"containers"`, `"spec":{"activeDeadlineSeconds":5,"containers"`, "spec.template.spec.activeDeadlineSeconds"},
		"no budget":         {`"spec":{"selector"`, `"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":0,"maxSurge":0}},"selector"`, "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"surge in place":    {`"spec":{"selector"`, `"spec":{"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"InPlaceOnly","maxSurge":1}},"selector"`, "spec.updateStrategy.rollingUpdate.maxSurge"},
		"both priorities":   {`"spec":{"selector"`, `"spec":{"updateStrategy":{"rollingUpdate":{"priorityStrategy":{"orderPriority":[{"orderedKey":"x"}],"weightPriority":[{"weight":1,"matchSelector":{"matchLabels":{"a":"b"}}}]}}},"selector"`, "spec.updateStrategy.rollingUpdate.priorityStrategy"},
		"weight":            {`"spec":{"selector"`, `"spec":{"updateStrategy":{"rollingUpdate":{"priorityStrategy":{"weightPriority":[{"weight":101,"matchSelector":{"matchLabels":{"a":"b"}}}]}}},"selector"`, "spec.updateStrategy.rollingUpdate.priorityStrategy.weightPriority[0].weight"},
		"scatter twice":     {`"spec":{"selector"`, `"spec":{"updateStrategy":{"rollingUpdate":{"scatterStrategy":[{"key":"a","value":"b"},{"key":"a","value":"b"}]}},"selector"`, "spec.updateStrategy.rollingUpdate.scatterStrategy[1]"},
		"pre-download":      {`"spec":{"selector"`, `"spec":{"updateStrategy":{"rollingUpdate":{"inPlaceUpdateStrategy":{"imagePreDownloadParallelism":"20%"}}},"selector"`, "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism"},
		"throttle":          {`"spec":{"selector"`, `"spec":{"scaleStrategy":{"maxUnavailable":"x"},"selector"`, "spec.scaleStrategy.maxUnavailable"},
		"history":           {`"spec":{"selector"`, `"spec":{"revisionHistoryLimit":-1,"selector"`, "spec.revisionHistoryLimit"},
		"progress deadline": {`"spec":{"selector"`, `"spec":{"progressDeadlineSeconds":5,"minReadySeconds":5,"selector"`, "spec.progressDeadlineSeconds"},
		"claims twice":      {`"spec":{"selector"`, `"spec":{"volumeClaimTemplates":[{"metadata":{"name":"a"},"spec":` + goodClaim + `},{"metadata":{"name":"a"},"spec":` + goodClaim + `}],"selector"`, "spec.volumeClaimTemplates[1].metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(minimal, c.replace, c.with, 1)
			require.NotEqual(t, minimal, bad)
			r := admissiontest.Check(t, Kind(nil), "", bad)
			require.False(t, r.Allowed)
			require.Equal(t, c.field, r.Result.Details.Causes[0].Field, r.Result.Message)
			// What is stored already may stay as it is.
			labelled := strings.Replace(bad, `"name":"web"`, `"name":"web","labels":{"x":"y"}`, 1)
			require.True(t, admissiontest.Check(t, Kind(nil), bad, labelled).Allowed)
		})
	}
	require.True(t, admissiontest.Check(t, Kind(nil), "", strings.Replace(minimal, `"spec":{"selector"`, `"spec":{"replicas":0,"updateStrategy":{"rollingUpdate":{"partition":"33.3%","maxUnavailable":0,"maxSurge":0}},"selector"`, 1)).Allowed)
	moved := strings.Replace(strings.Replace(minimal, `{"matchLabels":{"app":"web"}}`, `{"matchLabels":{"app":"web","b":"c"}}`, 1), `"labels":{"app":"web"}`, `"labels":{"app":"web","b":"c"}`, 1)
	r := admissiontest.Check(t, Kind(nil), minimal, moved)
	require.False(t, r.Allowed)
	require.Equal(t, "spec.selector", r.Result.Details.Causes[0].Field)
}

// claiming is a set with one claim template of this spec.
func claiming(t *testing.T, spec string) string {
	t.Helper()
	return admissiontest.Spec(t, minimal, `"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":`+spec+`}]`)
}

const goodClaim = `{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`

func TestCloneSetScenario103ClaimsThatCouldNeverBeMade(t *testing.T) {
	const at = "spec.volumeClaimTemplates[0].spec."
	with := func(members string) string { return strings.Replace(goodClaim, `{`, `{`+members+`,`, 1) }
	instead := func(pairs ...string) string { return admissiontest.With(t, goodClaim, pairs...) }
	for name, c := range map[string]struct {
		spec    string
		refused map[string]string
	}{
		"nothing":               {`{}`, map[string]string{"accessModes": "Required", "resources.requests.storage": "Required"}},
		"no access mode":        {instead(`["ReadWriteOnce"]`, `[]`), map[string]string{"accessModes": "Required"}},
		"an unknown one":        {instead(`"ReadWriteOnce"`, `"ReadWriteOnce","Foo"`), map[string]string{"accessModes[1]": "NotSupported"}},
		"one that is exclusive": {instead(`"ReadWriteOnce"`, `"ReadWriteOnce","ReadWriteOncePod"`), map[string]string{"accessModes": "Forbidden"}},
		"no request":            {instead(`"requests"`, `"limits"`), map[string]string{"resources.requests.storage": "Required"}},
		"of something else":     {instead(`"storage"`, `"cpu"`), map[string]string{"resources.requests.storage": "Required"}},
		"less than nothing":     {instead(`1Gi`, `-1Gi`), map[string]string{"resources.requests.storage": "Invalid"}},
		"nothing at all":        {instead(`1Gi`, `0`), map[string]string{"resources.requests.storage": "Invalid"}},
		"a mode":                {with(`"volumeMode":"Foo"`), map[string]string{"volumeMode": "NotSupported"}},
		"a selector":            {with(`"selector":{"matchExpressions":[{"key":"a","operator":"Foo"}]}`), map[string]string{"selector.matchExpressions[0].operator": "Invalid"}},
		"a class":               {with(`"storageClassName":"A_"`), map[string]string{"storageClassName": "Invalid"}},
		"a class of attributes": {with(`"volumeAttributesClassName":"A_"`), map[string]string{"volumeAttributesClassName": "Invalid"}},
		"a source of no kind":   {with(`"dataSourceRef":{}`), map[string]string{"dataSourceRef.name": "Required", "dataSourceRef.kind": "Required"}},
		"a source of no group":  {with(`"dataSourceRef":{"name":"a","kind":"VolumeSnapshot"}`), map[string]string{"dataSourceRef": "Invalid"}},
		"a group":               {with(`"dataSourceRef":{"name":"a","kind":"Foo","apiGroup":"A_"}`), map[string]string{"dataSourceRef.apiGroup": "Invalid"}},
		"what most say":         {goodClaim, nil},
		"no class":              {with(`"storageClassName":"","volumeAttributesClassName":""`), nil},
		"all that may be said": {with(`"storageClassName":"fast","volumeMode":"Block","selector":{"matchLabels":{"a":"b"}},"dataSource":{"kind":"Foo","name":""},` +
			`"dataSourceRef":{"name":"a","kind":"VolumeSnapshot","apiGroup":"snapshot.storage.k8s.io"},"volumeName":"v"`), nil},
		"modes that go together": {instead(`"ReadWriteOnce"`, `"ReadWriteOnce","ReadOnlyMany","ReadWriteMany"`), nil},
		"an exclusive one alone": {instead(`"ReadWriteOnce"`, `"ReadWriteOncePod"`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, version := range []string{"v1beta1", "v1alpha1"} {
				set := strings.Replace(claiming(t, c.spec), "v1beta1", version, 1)
				want := map[string]string{}
				for f, reason := range c.refused {
					want[at+f] = "FieldValue" + reason
				}
				require.Equal(t, want, admissiontest.Fields(admissiontest.Check(t, Kind(nil), "", set)))
				// What is stored already may stay as it is, but not be made once more.
				require.True(t, admissiontest.Check(t, Kind(nil), set, admissiontest.Spec(t, set, `"minReadySeconds":3`)).Allowed)
				twice := admissiontest.With(t, set, `"volumeClaimTemplates":[`, `"volumeClaimTemplates":[{"metadata":{"name":"more"},"spec":`+c.spec+`},`)
				require.Equal(t, len(want) == 0, admissiontest.Check(t, Kind(nil), set, twice).Allowed)
				require.Equal(t, len(want) == 0, admissiontest.Check(t, Kind(nil), strings.Replace(claiming(t, goodClaim), "v1beta1", version, 1), set).Allowed)
			}
		})
	}
}

func TestScenario60WhatDoesNotBelongHere(t *testing.T) {
	admissiontest.RefusesOthers(t, Kind(nil), minimal)
}

func FuzzAdmission(f *testing.F) {
	admissiontest.Fuzz(f, Kind(nil), minimal)
}
