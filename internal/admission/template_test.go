package admission

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
)

// judgeWith answers for the API server and keeps what it was asked.
func judgeWith(t *testing.T, answer http.HandlerFunc) (*Templates, *string) {
	t.Helper()
	asked := new(string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/api/v1/namespaces/d/podtemplates" || r.URL.Query().Get("dryRun") != "All" || r.URL.Query().Get("fieldValidation") != "Ignore" {
			http.Error(w, "not a dry run", http.StatusTeapot)
			return
		}
		*asked = string(body)
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/json"}})
	require.NoError(t, err)
	return NewTemplates(client), asked
}

func accept(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, `{"kind":"PodTemplate","apiVersion":"v1"}`)
}

// refuse with these fields.
func refuse(code int, reason metav1.StatusReason, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Details: &metav1.StatusDetails{}}
		for _, f := range fields {
			s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: f, Message: `Invalid value: "x": is wrong`})
		}
		raw, err := json.Marshal(s)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(code)
		_, _ = w.Write(raw)
	}
}

// ask about a template at a path; the types see only its spec's containers.
func ask(t *testing.T, judge *Templates, was *corev1.PodTemplateSpec, template string, claims []string, path ...string) (field.ErrorList, []string) {
	t.Helper()
	tree, err := conversion.Decode([]byte(template))
	require.NoError(t, err)
	typed := &corev1.PodTemplateSpec{}
	require.NoError(t, json.Unmarshal([]byte(template), typed))
	at := field.NewPath(path[0], path[1:]...)
	for i := len(path) - 1; i >= 0; i-- {
		tree = conversion.Tree{path[i]: tree}
	}
	var list []corev1.PersistentVolumeClaim
	for _, name := range claims {
		list = append(list, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	object, err := conversion.Encode(tree)
	require.NoError(t, err)
	return judge.CheckChanged(t.Context(), Request{Namespace: "d", Object: object}, was, typed, list, at)
}

const template = `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"main","newField":9007199254740993}],"volumes":[{"name":"own"}]}}`

func TestScenario87ATemplateIsSentAsItWasWritten(t *testing.T) {
	judge, asked := judgeWith(t, accept)
	errs, warnings := ask(t, judge, nil, template, nil, "spec", "template")
	require.Empty(t, errs)
	require.Empty(t, warnings)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"PodTemplate","metadata":{"generateName":"check-","namespace":"d"},"template":`+template+`}`, *asked)
}

func TestScenario85WhatDoesNotChangeIsNotJudged(t *testing.T) {
	judge, asked := judgeWith(t, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "template.spec.x"))
	was := &corev1.PodTemplateSpec{}
	require.NoError(t, json.Unmarshal([]byte(template), was))
	errs, _ := ask(t, judge, was, template, nil, "spec", "template")
	require.Empty(t, errs)
	require.Empty(t, *asked)
	errs, _ = ask(t, judge, was, strings.Replace(template, "main", "other", 1), nil, "spec", "template")
	require.Len(t, errs, 1)
	var nobody *Templates
	errs, _ = ask(t, nobody, nil, template, nil, "spec", "template")
	require.Empty(t, errs)
}

func TestScenario88ClaimsAreVolumes(t *testing.T) {
	judge, asked := judgeWith(t, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
		"template.spec.volumes[0].name", "template.spec.volumes[1].name", "template.spec.volumes[2].name", "template.labels", "metadata.name"))
	errs, _ := ask(t, judge, nil, template, []string{"data", "own", "more"}, "spec", "template")
	require.Contains(t, *asked, `"volumes":[{"name":"own","persistentVolumeClaim":{"claimName":"own"}},{"name":"data","persistentVolumeClaim":{"claimName":"data"}},{"name":"more","persistentVolumeClaim":{"claimName":"more"}}]`)
	require.Contains(t, *asked, `"newField":9007199254740993`)
	var fields []string
	for _, e := range errs {
		fields = append(fields, e.Field)
	}
	require.Equal(t, []string{"spec.template.spec.volumes[0].name", "spec.volumeClaimTemplates[0].metadata.name", "spec.volumeClaimTemplates[2].metadata.name", "spec.template.labels"}, fields)
	require.Equal(t, `spec.template.labels: Invalid value: "x": is wrong`, errs[3].Error())
	errs, _ = ask(t, judge, nil, `{}`, []string{"data"}, "spec", "template")
	require.NotEmpty(t, errs)
	require.Contains(t, *asked, `"template":{"spec":{"volumes":[{"name":"data"`)
}

func TestScenario91TheRefusalIsWhereTheTemplateIs(t *testing.T) {
	judge, _ := judgeWith(t, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "template.spec.containers[0].image"))
	errs, _ := ask(t, judge, nil, template, nil, "spec", "template", "jobTemplate", "spec", "template")
	require.Len(t, errs, 1)
	require.Equal(t, "spec.template.jobTemplate.spec.template.spec.containers[0].image", errs[0].Field)
}

func TestScenario86WithoutAVerdictThereIsAWarning(t *testing.T) {
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	for name, answer := range map[string]http.HandlerFunc{
		"no right, or a quota": refuse(http.StatusForbidden, metav1.StatusReasonForbidden),
		"no dry run":           refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest),
		"no namespace":         refuse(http.StatusNotFound, metav1.StatusReasonNotFound),
		"something else":       refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError),
		"no answer in its time": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-stuck:
			case <-r.Context().Done():
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			judge, _ := judgeWith(t, answer)
			judge.within = 100 * time.Millisecond
			var told []string
			judge = judge.Observed(clock.RealClock{}, func(kind, result string, _ time.Duration) { told = append(told, kind, result) }).For("AdvancedCronJob")
			errs, warnings := ask(t, judge, nil, template, nil, "spec", "template", "broadcastJobTemplate", "spec", "template")
			require.Empty(t, errs)
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], "spec.template.broadcastJobTemplate.spec.template was not checked")
			require.Equal(t, warnings, shorten(warnings), "it fits")
			require.Equal(t, []string{"AdvancedCronJob", "unchecked"}, told)
		})
	}
	judge, asked := judgeWith(t, accept)
	for range templatesAtOnce {
		judge.slots <- struct{}{}
	}
	_, warnings := ask(t, judge, nil, template, nil, "spec", "template")
	require.Len(t, warnings, 1)
	require.Empty(t, *asked)
}

func TestScenario89WarningsArePassedOn(t *testing.T) {
	judge, _ := judgeWith(t, func(w http.ResponseWriter, r *http.Request) {
		for _, text := range []string{`would violate PodSecurity`, `template.spec.containers[0]: is old`, `three`, `four`} {
			w.Header().Add("Warning", fmt.Sprintf(`299 - %q`, text))
		}
		accept(w, r)
	})
	_, warnings := ask(t, judge, nil, template, nil, "spec", "template")
	require.Equal(t, []string{"spec.template: would violate PodSecurity", "spec.template.spec.containers[0]: is old", "spec.template: three"}, warnings)
}

// TestScenario89OfAnotherNamespaceNothingIsSaid: only what holds wherever the Pods are is passed on.
func TestScenario89OfAnotherNamespaceNothingIsSaid(t *testing.T) {
	judge, _ := judgeWith(t, func(w http.ResponseWriter, r *http.Request) {
		for _, text := range []string{`would violate PodSecurity "restricted:latest": runAsNonRoot != true`, `template.spec.containers[0]: is old`, `would violate PodSecurity "baseline:v1.30": host namespaces`, `three`, `four`, `five`} {
			w.Header().Add("Warning", fmt.Sprintf(`299 - %q`, text))
		}
		accept(w, r)
	})
	_, warnings := ask(t, judge.Elsewhere(), nil, template, nil, "spec", "template")
	require.Equal(t, []string{"spec.template.spec.containers[0]: is old", "spec.template: three", "spec.template: four"}, warnings)
	_, warnings = ask(t, judge, nil, template, nil, "spec", "template")
	require.Len(t, warnings, templateWarnings)
	require.Contains(t, warnings[0], "PodSecurity")
	var nobody *Templates
	require.Nil(t, nobody.Elsewhere())
}

func TestATemplateThatIsMadeUp(t *testing.T) {
	judge, asked := judgeWith(t, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "template.spec.containers"))
	errs, _ := judge.Check(t.Context(), "d", &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n"}}, nil, field.NewPath("spec", "topology"))
	require.Contains(t, *asked, `"nodeName":"n"`)
	require.Len(t, errs, 1)
	require.Equal(t, "spec.topology.spec.containers", errs[0].Field)
}
