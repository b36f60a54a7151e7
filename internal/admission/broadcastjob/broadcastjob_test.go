package broadcastjob

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	at "github.com/flotilla-k8s/flotilla/internal/admission/admissiontest"
)

const minimal = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"BroadcastJob","metadata":{"name":"web"},` +
	`"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"i"}]}}}}`

// with is the shortest job with something else in it.
func with(t *testing.T, replace, by string) string {
	t.Helper()
	out := strings.Replace(minimal, replace, by, 1)
	require.NotEqual(t, minimal, out)
	return out
}

func TestScenario72Defaults(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		out := at.Defaulted(t, Kind(nil), "", strings.Replace(minimal, "v1beta1", version, 1))
		var job struct{ Spec map[string]any }
		require.NoError(t, json.Unmarshal([]byte(out), &job))
		require.Contains(t, fmt.Sprint(job.Spec["template"]), "imagePullPolicy:Always")
		delete(job.Spec, "template")
		got, err := json.Marshal(job.Spec)
		require.NoError(t, err)
		require.JSONEq(t, `{"parallelism":2147483647,"completionPolicy":{"type":"Always"},"failurePolicy":{"type":"FailFast"}}`, string(got))
	}
}

func TestScenarios48And49DefaultsAreAddedAndNothingElse(t *testing.T) {
	at.AddsOnly(t, Kind(nil), minimal)
	paused := at.Defaulted(t, Kind(nil), "", with(t, `"spec":{"template"`, `"spec":{"paused":false,"template"`))
	require.Contains(t, paused, `"paused":false`, "what the client wrote stays")
}

func TestScenario50OnceIsEnough(t *testing.T) {
	at.OnceIsEnough[v1beta1.BroadcastJob](t, Kind(nil))
}

func TestScenario75ATemplateThatDoesNotChangeIsNotDefaulted(t *testing.T) {
	require.NotContains(t, at.Defaulted(t, Kind(nil), minimal, with(t, `"spec":{"template"`, `"spec":{"paused":true,"template"`)), "imagePullPolicy")
	image := with(t, `"image":"i"`, `"image":"j"`)
	require.Contains(t, at.Defaulted(t, Kind(nil), minimal, image), "imagePullPolicy")
	require.True(t, at.Check(t, Kind(nil), minimal, image).Allowed)
}

func TestScenario60WhatDoesNotBelongHere(t *testing.T) {
	at.RefusesOthers(t, Kind(nil), minimal)
}

func FuzzAdmission(f *testing.F) {
	at.Fuzz(f, Kind(nil), minimal)
}

// TestRules names the scenario of the kind's document before each case.
func TestRules(t *testing.T) {
	const wrong, unknown = "FieldValueInvalid", "FieldValueNotSupported"
	spec := func(members string) [2]string {
		return [2]string{`"spec":{"template"`, `"spec":{` + members + `,"template"`}
	}
	for name, c := range map[string]struct {
		change  [2]string
		refused map[string]string
	}{
		"73 no restartPolicy":          {[2]string{`"restartPolicy":"Never",`, ``}, map[string]string{"spec.template.spec.restartPolicy": wrong}},
		"73 restartPolicy Always":      {[2]string{`"Never"`, `"Always"`}, map[string]string{"spec.template.spec.restartPolicy": wrong}},
		"73 restartPolicy OnFailure":   {[2]string{`"Never"`, `"OnFailure"`}, nil},
		"73 Never with TTL":            {spec(`"completionPolicy":{"type":"Never","ttlSecondsAfterFinished":0}`), map[string]string{"spec.completionPolicy.ttlSecondsAfterFinished": wrong}},
		"73 Never with deadline":       {spec(`"completionPolicy":{"type":"Never","activeDeadlineSeconds":5}`), map[string]string{"spec.completionPolicy.activeDeadlineSeconds": wrong}},
		"73 label of the controller":   {[2]string{`"template":{`, `"template":{"metadata":{"labels":{"broadcastjob-name":"x"}},`}, map[string]string{"spec.template.metadata.labels": wrong}},
		"73 other label of it":         {[2]string{`"template":{`, `"template":{"metadata":{"labels":{"broadcastjob-controller-uid":"x"}},`}, map[string]string{"spec.template.metadata.labels": wrong}},
		"73 the same, empty":           {[2]string{`"template":{`, `"template":{"metadata":{"labels":{"broadcastjob-name":"","broadcastjob-controller-uid":""}},`}, nil},
		"74 parallelism without sense": {spec(`"parallelism":"abc"`), map[string]string{"spec.parallelism": wrong}},
		"74 parallelism negative":      {spec(`"parallelism":-1`), map[string]string{"spec.parallelism": wrong}},
		"74 parallelism with fraction": {spec(`"parallelism":"33.3%"`), map[string]string{"spec.parallelism": wrong}},
		"parallelism 0":                {spec(`"parallelism":0`), nil},
		"parallelism 0%":               {spec(`"parallelism":"0%"`), nil},
		"parallelism 150%":             {spec(`"parallelism":"150%"`), nil},
		"74 types":                     {spec(`"failurePolicy":{"type":"Foo"},"completionPolicy":{"type":"Foo"}`), map[string]string{"spec.failurePolicy.type": unknown, "spec.completionPolicy.type": unknown}},
		"74 restartLimit":              {spec(`"failurePolicy":{"restartLimit":-1}`), map[string]string{"spec.failurePolicy.restartLimit": wrong}},
		"74 times":                     {spec(`"completionPolicy":{"activeDeadlineSeconds":-1,"ttlSecondsAfterFinished":-1}`), map[string]string{"spec.completionPolicy.activeDeadlineSeconds": wrong, "spec.completionPolicy.ttlSecondsAfterFinished": wrong}},
		"a deadline of 0":              {spec(`"completionPolicy":{"activeDeadlineSeconds":0,"ttlSecondsAfterFinished":0}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, version := range []string{"v1beta1", "v1alpha1"} {
				job := at.Defaulted(t, Kind(nil), "", strings.Replace(with(t, c.change[0], c.change[1]), "v1beta1", version, 1))
				r := at.Check(t, Kind(nil), "", job)
				require.Equal(t, c.refused == nil, r.Allowed, r.Result)
				if !r.Allowed {
					require.Equal(t, c.refused, at.Fields(r), r.Result.Message)
				}
				// What is stored already may stay as it is; what becomes so may not.
				labelled := strings.Replace(job, `"name":"web"`, `"name":"web","labels":{"x":"y"}`, 1)
				require.NotEqual(t, job, labelled)
				require.True(t, at.Check(t, Kind(nil), job, labelled).Allowed)
				good := at.Defaulted(t, Kind(nil), "", strings.Replace(minimal, "v1beta1", version, 1))
				require.Equal(t, r.Allowed, at.Check(t, Kind(nil), good, job).Allowed)
			}
		})
	}
}

func TestScenario73Names(t *testing.T) {
	for name, allowed := range map[string]bool{"a.b": false, strings.Repeat("a", 64): false, strings.Repeat("a", 63): true, "a-1": true} {
		r := at.Check(t, Kind(nil), "", with(t, `"name":"web"`, `"name":"`+name+`"`))
		require.Equal(t, allowed, r.Allowed, name)
		if !allowed {
			require.Equal(t, map[string]string{"metadata.name": "FieldValueInvalid"}, at.Fields(r))
		}
	}
	require.Equal(t, map[string]string{"metadata.generateName": "FieldValueInvalid"}, at.Fields(at.Check(t, Kind(nil), "", with(t, `"name":"web"`, `"generateName":"a.b-"`))))
	require.True(t, at.Check(t, Kind(nil), "", with(t, `"name":"web"`, `"generateName":"a-"`)).Allowed)
}

func TestScenario52EveryViolationIsNamed(t *testing.T) {
	bad := with(t, `"spec":{"template":{"spec":{"restartPolicy":"Never",`, `"spec":{"parallelism":-1,"failurePolicy":{"type":"Foo","restartLimit":-1},"template":{"spec":{`)
	require.Len(t, at.Check(t, Kind(nil), "", bad).Result.Details.Causes, 4)
}
