package advancedcronjob

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	at "github.com/flotilla-k8s/flotilla/internal/admission/admissiontest"
)

const (
	minimal = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"AdvancedCronJob","metadata":{"name":"web"},"spec":{"schedule":"*/5 * * * *",` +
		`"template":{"jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"i"}]}}}}}}}`
	broadcast = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"AdvancedCronJob","metadata":{"name":"web"},"spec":{"schedule":"*/5 * * * *",` +
		`"template":{"broadcastJobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"i"}]}}}}}}}`
	pull = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"AdvancedCronJob","metadata":{"name":"web"},"spec":{"schedule":"*/5 * * * *",` +
		`"template":{"imageListPullJobTemplate":{"spec":{"images":["nginx:1"],"completionPolicy":{}}}}}}`

	wrong, forbidden = "FieldValueInvalid", "FieldValueForbidden"
)

func kind() admission.Kind {
	return Kind(nil, clocktesting.NewFakePassiveClock(time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)))
}

func change(t *testing.T, object, replace, by string) string {
	t.Helper()
	out := strings.Replace(object, replace, by, 1)
	require.NotEqual(t, object, out)
	return out
}

// with has other members in its spec; all of them replace what the shortest job says.
func with(t *testing.T, object, members string) string {
	t.Helper()
	return change(t, object, `"spec":{"schedule":"*/5 * * * *"`, `"spec":{`+members)
}

func patched(t *testing.T, object string) string {
	t.Helper()
	return at.Defaulted(t, kind(), "", object)
}

func TestScenario57Defaults(t *testing.T) {
	for _, object := range []string{minimal, broadcast} {
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			var job struct{ Spec map[string]any }
			require.NoError(t, json.Unmarshal([]byte(patched(t, strings.Replace(object, "v1beta1", version, 1))), &job))
			for _, text := range []string{"imagePullPolicy:Always", "terminationMessagePath:/dev/termination-log", "dnsPolicy:ClusterFirst", "schedulerName:default-scheduler", "securityContext:map[]", "terminationGracePeriodSeconds:30"} {
				require.Contains(t, fmt.Sprint(job.Spec["template"]), text)
			}
			require.NotContains(t, fmt.Sprint(job.Spec["template"]), "completionPolicy:map[type", "the job's own admission does that")
			delete(job.Spec, "template")
			got, err := json.Marshal(job.Spec)
			require.NoError(t, err)
			require.JSONEq(t, `{"schedule":"*/5 * * * *","concurrencyPolicy":"Allow","paused":false,"successfulJobsHistoryLimit":3,"failedJobsHistoryLimit":1}`, string(got))
		}
	}
}

func TestScenario30ImagesToPull(t *testing.T) {
	out := patched(t, pull)
	for _, text := range []string{`"concurrencyPolicy":"Replace"`, `"timeoutSeconds":600`, `"backoffLimit":3`, `"imagePullPolicy":"IfNotPresent"`, `"type":"Always"`} {
		require.Contains(t, out, text)
	}
	require.True(t, at.Check(t, kind(), "", out).Allowed)
	allow := patched(t, with(t, pull, `"schedule":"@daily","concurrencyPolicy":"Allow"`))
	require.Equal(t, map[string]string{"spec.concurrencyPolicy": wrong}, at.Fields(at.Check(t, kind(), "", allow)))
	// W5a: one that is there does not keep the others away.
	require.Contains(t, patched(t, change(t, pull, `"completionPolicy":{}`, `"completionPolicy":{"type":"Always"}`)), `"timeoutSeconds":600`)
}

func TestScenarios48And49DefaultsAreAddedAndNothingElse(t *testing.T) {
	for _, object := range []string{minimal, broadcast, pull} {
		at.AddsOnly(t, kind(), object)
	}
}

func TestScenario50OnceIsEnough(t *testing.T) {
	at.OnceIsEnough[v1beta1.AdvancedCronJob](t, kind())
}

func TestATemplateThatDoesNotChangeIsNotDefaulted(t *testing.T) {
	require.NotContains(t, at.Defaulted(t, kind(), minimal, with(t, minimal, `"schedule":"@daily"`)), "imagePullPolicy")
	require.Contains(t, at.Defaulted(t, kind(), minimal, change(t, minimal, `"image":"i"`, `"image":"j"`)), "imagePullPolicy")
}

func TestScenario59ATemplateThatAnOldClientCannotSeeStays(t *testing.T) {
	bare := `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"AdvancedCronJob","metadata":{"name":"web"},"spec":{"schedule":"@daily","paused":true,"concurrencyPolicy":"Replace","successfulJobsHistoryLimit":3,"failedJobsHistoryLimit":1,"template":{}}}`
	old := change(t, bare, `"name":"web"`, `"name":"web","annotations":{"apps.kruise.io/advancedcronjob-v1beta1-fields":"{\"spec\":{\"template\":{\"imageListPullJobTemplate\":{\"spec\":{\"images\":[\"a\"],\"completionPolicy\":{\"type\":\"Always\"}}}}}}"}`)
	put := change(t, bare, `"paused":true`, `"paused":false`)
	out := at.Defaulted(t, kind(), old, put)
	require.Contains(t, out, "imageListPullJobTemplate")
	require.True(t, at.Check(t, kind(), old, out).Allowed)
	require.Equal(t, map[string]string{"spec.template": forbidden}, at.Fields(at.Check(t, kind(), "", put)))
	other := change(t, put, `"template":{}`, `"template":{"jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}}`)
	require.NotContains(t, at.Defaulted(t, kind(), old, other), "imageListPullJobTemplate")
}

func TestScenario60WhatDoesNotBelongHere(t *testing.T) {
	at.RefusesOthers(t, kind(), minimal)
}

func FuzzAdmission(f *testing.F) {
	at.Fuzz(f, kind(), minimal, broadcast, pull)
}

// TestRules names the scenario of the kind's document before each case. A field may be refused in v1alpha1 at the same place.
func TestRules(t *testing.T) {
	s := func(expression string) string { return fmt.Sprintf(`"schedule":%q`, expression) }
	for name, c := range map[string]struct {
		members string
		refused map[string]string
	}{
		"58 empty":                        {s(""), map[string]string{"spec.schedule": wrong}},
		"58 seconds":                      {s("* * * * * *"), map[string]string{"spec.schedule": wrong}},
		"58 Sunday as 7":                  {s("0 10 * * 7"), map[string]string{"spec.schedule": wrong}},
		"58 minute 60":                    {s("60 * * * *"), map[string]string{"spec.schedule": wrong}},
		"58 no step":                      {s("*/0 * * * *"), map[string]string{"spec.schedule": wrong}},
		"58 reboot":                       {s("@reboot"), map[string]string{"spec.schedule": wrong}},
		"58 zone alone":                   {s("TZ=UTC"), map[string]string{"spec.schedule": wrong}},
		"58 W5 never":                     {s("0 0 31 2 *"), map[string]string{"spec.schedule": wrong}},
		"a leap day is near enough":       {s("0 0 29 2 *"), nil},
		"every 6 years":                   {s("@every 52560h"), map[string]string{"spec.schedule": wrong}},
		"59 two zones":                    {s("TZ=UTC * * * * *") + `,"timeZone":"UTC"`, map[string]string{"spec.schedule": wrong}},
		"59 one zone":                     {s("TZ=UTC * * * * *"), nil},
		"59 W5 TZ is no zone elsewhere":   {s("* * * * TZ=") + `,"timeZone":"UTC"`, map[string]string{"spec.schedule": wrong}},
		"60 no zone":                      {s("@daily") + `,"timeZone":""`, map[string]string{"spec.timeZone": wrong}},
		"60 Local":                        {s("@daily") + `,"timeZone":"Local"`, map[string]string{"spec.timeZone": wrong}},
		"60 Mars":                         {s("@daily") + `,"timeZone":"Mars/X"`, map[string]string{"spec.timeZone": wrong}},
		"60 outside":                      {s("@daily") + `,"timeZone":"../UTC"`, map[string]string{"spec.timeZone": wrong}},
		"61 negative numbers":             {s("@daily") + `,"startingDeadlineSeconds":-1,"successfulJobsHistoryLimit":-1,"failedJobsHistoryLimit":-1`, map[string]string{"spec.startingDeadlineSeconds": wrong, "spec.successfulJobsHistoryLimit": wrong, "spec.failedJobsHistoryLimit": wrong}},
		"a policy that is none":           {s("@daily") + `,"concurrencyPolicy":"Foo"`, map[string]string{"spec.concurrencyPolicy": wrong}},
		"everything is told at once (52)": {s("x") + `,"timeZone":"x","startingDeadlineSeconds":-1`, map[string]string{"spec.schedule": wrong, "spec.timeZone": wrong, "spec.startingDeadlineSeconds": wrong}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, version := range []string{"v1beta1", "v1alpha1"} {
				job := patched(t, strings.Replace(with(t, minimal, c.members), "v1beta1", version, 1))
				r := at.Check(t, kind(), "", job)
				require.Equal(t, c.refused == nil, r.Allowed, r.Result)
				if !r.Allowed {
					require.Equal(t, c.refused, at.Fields(r), r.Result.Message)
					require.Len(t, r.Result.Details.Causes, len(c.refused))
				}
				// What is stored already may stay as it is.
				require.True(t, at.Check(t, kind(), job, change(t, job, `"paused":false`, `"paused":true`)).Allowed)
			}
		})
	}
}

func TestScenario61Templates(t *testing.T) {
	none := change(t, minimal, minimal[strings.Index(minimal, `{"jobTemplate"`):], `{}}}`)
	two := change(t, minimal, `{"jobTemplate"`, `{"broadcastJobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}},"jobTemplate"`)
	for _, object := range []string{none, two} {
		require.Equal(t, map[string]string{"spec.template": forbidden}, at.Fields(at.Check(t, kind(), "", patched(t, object))))
	}
}

func TestScenario47TemplatesThatCouldNeverRun(t *testing.T) {
	const job, cast = "spec.template.jobTemplate.spec.", "spec.template.broadcastJobTemplate.spec."
	for name, c := range map[string]struct {
		object, replace, by string
		refused             map[string]string
	}{
		"no restartPolicy":     {minimal, `"restartPolicy":"Never",`, ``, map[string]string{job + "template.spec.restartPolicy": wrong}},
		"restartPolicy Always": {minimal, `"Never"`, `"Always"`, map[string]string{job + "template.spec.restartPolicy": wrong}},
		"a selector":           {minimal, `{"spec":{"template":{"spec"`, `{"spec":{"selector":{"matchLabels":{"a":"b"}},"manualSelector":true,"template":{"spec"`, map[string]string{job + "selector": wrong, job + "manualSelector": wrong}},
		"Never with TTL":       {broadcast, `{"spec":{"template":{"spec"`, `{"spec":{"completionPolicy":{"type":"Never","ttlSecondsAfterFinished":5},"template":{"spec"`, map[string]string{cast + "completionPolicy.ttlSecondsAfterFinished": wrong}},
		"parallelism":          {broadcast, `{"spec":{"template":{"spec"`, `{"spec":{"parallelism":"x","template":{"spec"`, map[string]string{cast + "parallelism": wrong}},
		"of the broadcast job": {broadcast, `"Never"`, `"Always"`, map[string]string{cast + "template.spec.restartPolicy": wrong}},
	} {
		t.Run(name, func(t *testing.T) {
			bad := patched(t, change(t, c.object, c.replace, c.by))
			require.Equal(t, c.refused, at.Fields(at.Check(t, kind(), "", bad)))
			require.True(t, at.Check(t, kind(), bad, change(t, bad, `"paused":false`, `"paused":true`)).Allowed, "it is there already")
			require.Equal(t, c.refused, at.Fields(at.Check(t, kind(), bad, change(t, bad, `"image":"i"`, `"image":"j"`))), "the template is judged as a whole")
		})
	}
}

func TestScenarios44And45AndWhatElseMayChange(t *testing.T) {
	old := patched(t, minimal)
	for _, c := range [][2]string{
		{`"image":"i"`, `"image":"j"`}, {`*/5 * * * *`, `@daily`}, {`"schedule"`, `"timeZone":"Europe/Berlin","startingDeadlineSeconds":30,"schedule"`},
		{`"Allow"`, `"Forbid"`}, {`"paused":false`, `"paused":true`}, {`"successfulJobsHistoryLimit":3`, `"successfulJobsHistoryLimit":0`}, {`"failedJobsHistoryLimit":1`, `"failedJobsHistoryLimit":0`},
	} {
		require.True(t, at.Check(t, kind(), old, change(t, old, c[0], c[1])).Allowed, c[1])
	}
	require.Equal(t, map[string]string{"spec.template": forbidden}, at.Fields(at.Check(t, kind(), old, patched(t, broadcast))))
}

func TestScenario59And60Warnings(t *testing.T) {
	warned := at.Check(t, kind(), "", patched(t, with(t, minimal, `"schedule":"CRON_TZ=UTC * * * * *","startingDeadlineSeconds":9`)))
	require.True(t, warned.Allowed)
	require.Len(t, warned.Warnings, 2)
	require.Empty(t, at.Check(t, kind(), "", patched(t, with(t, minimal, `"schedule":"* * * * *","startingDeadlineSeconds":10`))).Warnings)
}

func TestScenarios62And63Names(t *testing.T) {
	for name, allowed := range map[string]bool{strings.Repeat("a", 52): true, strings.Repeat("a", 53): false, strings.Repeat("a", 64): false, "a.b": false} {
		r := at.Check(t, kind(), "", patched(t, change(t, minimal, `"name":"web"`, `"name":"`+name+`"`)))
		require.Equal(t, allowed, r.Allowed, name)
		if !allowed {
			require.Equal(t, map[string]string{"metadata.name": wrong}, at.Fields(r))
		}
	}
	long := patched(t, change(t, minimal, `"name":"web"`, `"name":"`+strings.Repeat("a", 60)+`"`))
	require.True(t, at.Check(t, kind(), long, change(t, long, `"paused":false`, `"paused":true`)).Allowed)
}

func TestRulesOfImagesToPull(t *testing.T) {
	const spec = "spec.template.imageListPullJobTemplate.spec."
	many := make([]string, 256)
	for i := range many {
		many[i] = fmt.Sprintf("a:%d", i)
	}
	list, err := json.Marshal(many)
	require.NoError(t, err)
	images := func(list string) [2]string { return [2]string{`"images":["nginx:1"]`, `"images":` + list} }
	beside := func(members string) [2]string { return [2]string{`"images":`, members + `,"images":`} }
	for name, c := range map[string]struct {
		change  [2]string
		refused []string
	}{
		"names and labels":     {beside(`"selector":{"names":["n"],"matchLabels":{"a":"b"}}`), []string{"selector"}},
		"no selector":          {beside(`"selector":{"matchExpressions":[{"key":"a","operator":"Foo"}]}`), []string{"selector.matchExpressions[0].operator"}},
		"names twice":          {beside(`"selector":{"names":["n","n"]}`), []string{"selector.names[1]"}},
		"both selectors":       {beside(`"selector":{"names":["n"]},"podSelector":{}`), []string{"selector"}},
		"no selector of Pods":  {beside(`"podSelector":{"matchLabels":{"a b":"c"}}`), []string{"podSelector.matchLabels"}},
		"no images":            {images(`[]`), []string{"images"}},
		"too many images":      {images(string(list)), []string{"images"}},
		"255 images":           {images(strings.Replace(string(list), `"a:0",`, ``, 1)), nil},
		"images twice":         {images(`["a","b","a"]`), []string{"images[2]"}},
		"no image":             {images(`["a","B"]`), []string{"images[1]"}},
		"a type":               {[2]string{`"completionPolicy":{}`, `"completionPolicy":{"type":"Never"}`}, []string{"completionPolicy.type"}},
		"more than a day":      {[2]string{`"completionPolicy":{}`, `"completionPolicy":{"activeDeadlineSeconds":86401}`}, []string{"completionPolicy.activeDeadlineSeconds"}},
		"a day":                {[2]string{`"completionPolicy":{}`, `"completionPolicy":{"activeDeadlineSeconds":86400}`}, nil},
		"just one pull":        {[2]string{`"completionPolicy":{}`, `"completionPolicy":{"activeDeadlineSeconds":600}`}, nil},
		"less than one pull":   {[2]string{`"completionPolicy":{}`, `"completionPolicy":{"activeDeadlineSeconds":599}`}, []string{"completionPolicy.activeDeadlineSeconds"}},
		"a time to live":       {[2]string{`"completionPolicy":{}`, `"completionPolicy":{"ttlSecondsAfterFinished":5}`}, []string{"completionPolicy.ttlSecondsAfterFinished"}},
		"what may be together": {beside(`"selector":{"names":["n","m"]}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{}
			for _, f := range c.refused {
				want[spec+f] = wrong
			}
			r := at.Check(t, kind(), "", patched(t, change(t, pull, c.change[0], c.change[1])))
			require.Equal(t, len(want) == 0, r.Allowed, r.Result)
			for f := range at.Fields(r) {
				require.Contains(t, want, f, r.Result)
			}
			require.Len(t, at.Fields(r), len(want))
		})
	}
}

// carried is the same object in v1alpha1, where an annotation holds the images to pull.
func carried(t *testing.T, object string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, conversion.ConvertText(&out, []byte(object), conversion.Group+"/"+conversion.V1alpha1))
	require.Contains(t, out.String(), "advancedcronjob-v1beta1-fields")
	return out.String()
}

// TestScenarios30And49WhatAnAnnotationCarriesIsJudgedWithItsDefaults: they are not written into the annotation.
func TestScenarios30And49WhatAnAnnotationCarriesIsJudgedWithItsDefaults(t *testing.T) {
	for spec, refused := range map[string][]string{
		`"completionPolicy":{}`:                nil,
		`"completionPolicy":{"type":"Always"}`: nil,
		`"pullPolicy":{}`:                      nil,
		`"pullPolicy":{"timeoutSeconds":5},"imagePullPolicy":"Always"`: nil,
		`"parallelism":1`:                                  nil,
		`"completionPolicy":{"type":"Never"}`:              {"completionPolicy.type"},
		`"completionPolicy":{"activeDeadlineSeconds":599}`: {"completionPolicy.activeDeadlineSeconds"},
	} {
		t.Run(spec, func(t *testing.T) {
			want := map[string]string{}
			for _, f := range refused {
				want["spec.template.imageListPullJobTemplate.spec."+f] = wrong
			}
			bare := strings.Replace(pull, `"completionPolicy":{}`, spec, 1)
			require.Equal(t, want, at.Fields(at.Check(t, kind(), "", patched(t, bare))), "in v1beta1")
			alpha := carried(t, bare)
			out := patched(t, alpha)
			require.Equal(t, want, at.Fields(at.Check(t, kind(), "", out)), "in v1alpha1")
			var came, left struct {
				Metadata struct{ Annotations map[string]string }
			}
			require.NoError(t, json.Unmarshal([]byte(alpha), &came))
			require.NoError(t, json.Unmarshal([]byte(out), &left))
			require.Equal(t, came, left)
			// What is stored without them, from that version, may stay, whichever version changes something else.
			require.True(t, at.Check(t, kind(), out, change(t, out, `"paused":false`, `"paused":true`)).Allowed)
			require.True(t, at.Check(t, kind(), bare, patched(t, with(t, bare, `"schedule":"@daily"`))).Allowed)
		})
	}
}

func TestReferencesToImages(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for _, image := range []string{"a", "nginx:1", "library/nginx", "registry.example:5000/team/app:v1_2", "localhost/app", "a" + digest, "a:b" + digest, "[::1]:5000/a", "REG.example/a-b__c.d", "a---b"} {
		require.True(t, isImage(image), image)
	}
	for _, image := range []string{"", "A", "a b", "a:", "a@", "a@sha256:00", "/a", "a/", "a//b", "a..b", "a___b", "-a", "reg:x/a", "a:" + strings.Repeat("b", 129), "https://reg/a", strings.Repeat("a", 256), "a:.b"} {
		require.False(t, isImage(image), image)
	}
}
