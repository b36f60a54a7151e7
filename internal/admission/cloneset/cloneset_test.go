package cloneset

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const minimal = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},` +
	`"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"i"}]}}}}`

func ask(t *testing.T, handle func(context.Context, []byte) ([]byte, int, error), old, object string) *admissionv1.AdmissionResponse {
	t.Helper()
	r := &admissionv1.AdmissionRequest{
		UID: "u", Operation: admissionv1.Create, Name: "web", Namespace: "d",
		Resource: metav1.GroupVersionResource{Group: "apps.kruise.io", Resource: "clonesets"}, Object: runtime.RawExtension{Raw: []byte(object)},
	}
	if old != "" {
		r.Operation, r.OldObject = admissionv1.Update, runtime.RawExtension{Raw: []byte(old)}
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: r})
	require.NoError(t, err)
	raw, code, err := handle(t.Context(), body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	var out admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(raw, &out))
	require.EqualValues(t, "u", out.Response.UID)
	return out.Response
}

// defaulted is the object after the answer's patch.
func defaulted(t *testing.T, old, object string) string {
	t.Helper()
	r := ask(t, Kind(nil).Mutate(), old, object)
	require.True(t, r.Allowed)
	if r.Patch == nil {
		require.Nil(t, r.PatchType)
		return object
	}
	p, err := jsonpatch.DecodePatch(r.Patch)
	require.NoError(t, err)
	out, err := p.Apply([]byte(object))
	require.NoError(t, err)
	return string(out)
}

func TestScenario49DefaultsAreAddedAndNothingElse(t *testing.T) {
	r := ask(t, Kind(nil).Mutate(), "", minimal)
	var ops []struct{ Op, Path string }
	require.NoError(t, json.Unmarshal(r.Patch, &ops))
	require.NotEmpty(t, ops)
	for _, op := range ops {
		require.Equal(t, "add", op.Op, op.Path)
		require.True(t, strings.HasPrefix(op.Path, "/spec/"), op.Path)
	}
	out := defaulted(t, "", minimal)
	for _, text := range []string{`"replicas":1`, `"revisionHistoryLimit":10`, `"maxUnavailable":"20%"`, `"podUpdatePolicy":"ReCreate"`, `"imagePullPolicy":"Always"`} {
		require.Contains(t, out, text)
	}
	require.NotContains(t, out, "creationTimestamp")
	require.NotContains(t, out, "status")
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
	require.NoError(t, json.Unmarshal([]byte(defaulted(t, "", minimal)), &set))
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
	require.True(t, ask(t, Kind(nil).Check(), "", set).Allowed)
}

func TestScenarios48And50WhatIsCompleteGetsNoPatch(t *testing.T) {
	once := defaulted(t, "", minimal)
	r := ask(t, Kind(nil).Mutate(), "", once)
	require.Nil(t, r.Patch)
	require.Nil(t, r.PatchType)
}

func TestScenario47UnknownMembersStay(t *testing.T) {
	future := strings.Replace(minimal, `"image":"i"`, `"image":"i","futureField":{"a":9007199254740993}`, 1)
	future = strings.Replace(future, `"spec":{"selector"`, `"spec":{"alsoNew":[null],"selector"`, 1)
	out := defaulted(t, "", future)
	require.Contains(t, out, `"futureField":{"a":9007199254740993}`)
	require.Contains(t, out, `"alsoNew":[null]`)
}

func TestATemplateThatDoesNotChangeIsNotDefaulted(t *testing.T) {
	scaled := strings.Replace(minimal, `"spec":{"selector"`, `"spec":{"replicas":3,"selector"`, 1)
	require.NotContains(t, defaulted(t, minimal, scaled), "imagePullPolicy")
	changed := strings.Replace(minimal, `"image":"i"`, `"image":"j"`, 1)
	require.Contains(t, defaulted(t, minimal, changed), "imagePullPolicy")
}

func TestDefaultsOfTheOlderVersionAreInItsOwnForm(t *testing.T) {
	alpha := strings.Replace(minimal, "v1beta1", "v1alpha1", 1)
	out := defaulted(t, "", alpha)
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
	require.JSONEq(t, out, defaulted(t, "", out), "once is enough")
}

func TestScenario59ACarrierThatAClientLeftOutComesBack(t *testing.T) {
	old := `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"web","annotations":{"apps.kruise.io/cloneset-v1beta1-fields":"{\"updateStrategy\":{\"for\":\"OnDelete\",\"podUpdatePolicy\":\"InPlaceOnly\"}}"}},` +
		`"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"i"}]}},"updateStrategy":{"type":"OnDelete","partition":2}}}`
	put := strings.Replace(old, `,"annotations":{"apps.kruise.io/cloneset-v1beta1-fields":"{\"updateStrategy\":{\"for\":\"OnDelete\",\"podUpdatePolicy\":\"InPlaceOnly\"}}"}`, "", 1)
	require.NotEqual(t, old, put)
	require.Contains(t, defaulted(t, old, put), "cloneset-v1beta1-fields")
}

func TestScenario52EveryViolationIsNamed(t *testing.T) {
	bad := strings.NewReplacer(`"matchLabels":{"app":"web"}},`, `"matchLabels":{"app":"other"}},"minReadySeconds":-1,"updateStrategy":{"rollingUpdate":{"partition":"abc","maxUnavailable":0,"maxSurge":0}},`).Replace(minimal)
	r := ask(t, Kind(nil).Check(), "", bad)
	require.False(t, r.Allowed)
	require.EqualValues(t, http.StatusUnprocessableEntity, r.Result.Code)
	var fields []string
	for _, c := range r.Result.Details.Causes {
		fields = append(fields, c.Field)
	}
	require.ElementsMatch(t, []string{"spec.minReadySeconds", "spec.template.metadata.labels", "spec.updateStrategy.rollingUpdate.partition"}, fields)
	alpha := strings.NewReplacer("v1beta1", "v1alpha1", `"updateStrategy":{"rollingUpdate":{"partition":"abc","maxUnavailable":0,"maxSurge":0}}`, `"updateStrategy":{"partition":"abc"}`).Replace(bad)
	r = ask(t, Kind(nil).Check(), "", alpha)
	require.Contains(t, fmt.Sprint(r.Result.Details.Causes), "spec.updateStrategy.partition", "58 the path is that of the version that was spoken")
}

func TestCloneSetScenario58InPlaceOnlyAllowsWhatCanBeDone(t *testing.T) {
	only := strings.Replace(minimal, `"spec":{"selector"`, `"spec":{"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"InPlaceOnly"}},"selector"`, 1)
	for change, allowed := range map[string]bool{
		`"image":"j"`:                      true,
		`"image":"i","env":[{"name":"A"}]`: false,
		`"image":"j","args":["x"]`:         false,
	} {
		r := ask(t, Kind(nil).Check(), only, strings.Replace(only, `"image":"i"`, change, 1))
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
		"claims twice":      {`"spec":{"selector"`, `"spec":{"volumeClaimTemplates":[{"metadata":{"name":"a"}},{"metadata":{"name":"a"}}],"selector"`, "spec.volumeClaimTemplates[1].metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(minimal, c.replace, c.with, 1)
			require.NotEqual(t, minimal, bad)
			r := ask(t, Kind(nil).Check(), "", bad)
			require.False(t, r.Allowed)
			require.Equal(t, c.field, r.Result.Details.Causes[0].Field, r.Result.Message)
			// What is stored already may stay as it is.
			labelled := strings.Replace(bad, `"name":"web"`, `"name":"web","labels":{"x":"y"}`, 1)
			require.True(t, ask(t, Kind(nil).Check(), bad, labelled).Allowed)
		})
	}
	require.True(t, ask(t, Kind(nil).Check(), "", strings.Replace(minimal, `"spec":{"selector"`, `"spec":{"replicas":0,"updateStrategy":{"rollingUpdate":{"partition":"33.3%","maxUnavailable":0,"maxSurge":0}},"selector"`, 1)).Allowed)
	moved := strings.Replace(strings.Replace(minimal, `{"matchLabels":{"app":"web"}}`, `{"matchLabels":{"app":"web","b":"c"}}`, 1), `"labels":{"app":"web"}`, `"labels":{"app":"web","b":"c"}`, 1)
	r := ask(t, Kind(nil).Check(), minimal, moved)
	require.False(t, r.Allowed)
	require.Equal(t, "spec.selector", r.Result.Details.Causes[0].Field)
}

func TestScenario60WhatDoesNotBelongHere(t *testing.T) {
	for name, body := range map[string]string{
		"another resource": `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":{"group":"apps","resource":"deployments"},"object":` + minimal + `}}`,
		"no uid":           `{"kind":"AdmissionReview","request":{"operation":"CREATE"}}`,
		"no request":       `{"kind":"AdmissionReview"}`,
		"another kind":     `{"kind":"ConversionReview"}`,
		"no object":        `{"kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":{"group":"apps.kruise.io","resource":"clonesets"}}}`,
		"another version":  `{"kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":{"group":"apps.kruise.io","resource":"clonesets"},"object":{"apiVersion":"apps.kruise.io/v9","kind":"CloneSet"}}}`,
	} {
		for _, handle := range []func(context.Context, []byte) ([]byte, int, error){Kind(nil).Mutate(), Kind(nil).Check()} {
			_, code, err := handle(t.Context(), []byte(body))
			require.Error(t, err, name)
			require.Equal(t, http.StatusBadRequest, code, name)
		}
	}
}

func FuzzAdmission(f *testing.F) {
	review := `{"kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":{"group":"apps.kruise.io","resource":"clonesets"},"object":%s}}`
	f.Add([]byte(fmt.Sprintf(review, minimal)))
	f.Add([]byte(fmt.Sprintf(review, `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","spec":5}`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, handle := range []func(context.Context, []byte) ([]byte, int, error){Kind(nil).Mutate(), Kind(nil).Check()} {
			if _, code, err := handle(t.Context(), body); code >= http.StatusInternalServerError {
				t.Fatalf("%d: %v", code, err)
			}
		}
	})
}
