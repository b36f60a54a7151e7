package admission_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/internal/admission/admissiontest"
)

// TestScenario58AFieldIsNamedWhereTheClientWroteIt: v1alpha1 has other places for some, and several for others.
func TestScenario58AFieldIsNamedWhereTheClientWroteIt(t *testing.T) {
	cloneSet := func(annotations, members string) string {
		if annotations != "" {
			annotations = `,"annotations":{` + annotations + `}`
		}
		return object("CloneSet", annotations, selector+members+template)
	}
	united := func(annotations, members string) string {
		return object("UnitedDeployment", "", selector+`"template":{"cloneSetTemplate":{"metadata":{"labels":{"app":"x"},"annotations":{`+annotations+`}},"spec":{`+members+template+`}}},"topology":{"subsets":[{"name":"a"}]}`)
	}
	sidecars := func(members string) string {
		return object("SidecarSet", "", selector+members+`"containers":[{"name":"a","image":"i"}]`)
	}
	const (
		parallelism = "apps.kruise.io/image-predownload-parallelism"
		timeout     = "apps.kruise.io/image-predownload-timeout-seconds"
		updated     = "apps.kruise.io/image-predownload-min-updated-ready-pods"
		inTemplate  = "spec.template.cloneSetTemplate."
	)
	for name, c := range map[string]struct {
		kind, object string
		fields       []string
	}{
		"flat":                             {"CloneSet", cloneSet("", `"updateStrategy":{"partition":"x","maxSurge":-1},"scaleStrategy":{"maxUnavailable":"x"},`), []string{"spec.updateStrategy.partition", "spec.updateStrategy.maxSurge", "spec.scaleStrategy.maxUnavailable"}},
		"another type":                     {"CloneSet", cloneSet("", `"updateStrategy":{"type":"Bogus"},`), []string{"spec.updateStrategy.type"}},
		"annotations":                      {"CloneSet", cloneSet(`"`+parallelism+`":"10%","`+timeout+`":"-5","`+updated+`":"-1"`, ""), []string{"metadata.annotations[" + parallelism + "]", "metadata.annotations[" + timeout + "]", "metadata.annotations[" + updated + "]"}},
		"annotations that do not count":    {"CloneSet", cloneSet(`"`+timeout+`":"soon"`, `"updateStrategy":{"inPlaceUpdateStrategy":{"imagePreDownloadTimeoutSeconds":-5,"imagePreDownloadParallelism":-1}},`), []string{"spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds", "spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadParallelism"}},
		"an annotation of no plain number": {"CloneSet", cloneSet(`"`+timeout+`":"007"`, `"updateStrategy":{"inPlaceUpdateStrategy":{"imagePreDownloadTimeoutSeconds":-5}},`), []string{"spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds"}},
		"annotations beside fields":        {"CloneSet", cloneSet(`"`+parallelism+`":"x"`, `"updateStrategy":{"inPlaceUpdateStrategy":{"imagePreDownloadParallelism":1}},`), []string{"metadata.annotations[" + parallelism + "]"}},
		"a flat template":                  {"UnitedDeployment", united("", `"updateStrategy":{"type":"InPlaceIfPossible","maxUnavailable":"x"},`), []string{inTemplate + "spec.updateStrategy.maxUnavailable"}},
		"a nested template":                {"UnitedDeployment", united("", `"updateStrategy":{"rollingUpdate":{"maxUnavailable":"x"}},`), []string{inTemplate + "spec.updateStrategy.rollingUpdate.maxUnavailable"}},
		"types in a flat template":         {"UnitedDeployment", united("", `"scaleStrategy":{"disablePVCReuse":"no"},"updateStrategy":{"partition":[],"paused":5,"type":"InPlaceOnly"},`), []string{inTemplate + "spec.updateStrategy.partition", inTemplate + "spec.updateStrategy.paused"}},
		"a namespace":                      {"SidecarSet", sidecars(`"namespace":"Not A Name!",`), []string{"spec.namespace"}},
		"a selector of namespaces":         {"SidecarSet", sidecars(`"namespaceSelector":{"matchLabels":{"a b":"c"}},`), []string{"spec.namespaceSelector.matchLabels"}},
		"a namespace beside a selector":    {"SidecarSet", sidecars(`"namespace":"Not A Name!","namespaceSelector":{},`), []string{"spec.namespace"}},
		"what is the same in both forms":   {"CloneSet", cloneSet("", `"minReadySeconds":-1,`), []string{"spec.minReadySeconds"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := kinds()[c.kind]
			alpha := admissiontest.Defaulted(t, k, "", strings.Replace(c.object, "v1beta1", "v1alpha1", 1))
			r := admissiontest.Check(t, k, "", alpha)
			var fields []string
			for _, cause := range r.Result.Details.Causes {
				fields = append(fields, cause.Field)
				require.Contains(t, r.Result.Message, cause.Field+": ")
			}
			require.ElementsMatch(t, c.fields, fields, r.Result.Message)
		})
	}
}
