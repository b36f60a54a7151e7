package admission_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/internal/admission/admissiontest"
)

// TestPercentagesOfMoreThanAllAreWarnedOf: they were always accepted, but hardly anybody means them.
func TestPercentagesOfMoreThanAllAreWarnedOf(t *testing.T) {
	const all, none = ": over 100% means all Pods", ": over 100% means that no Pod is updated"
	statefulSet := func(members string) string {
		return object("StatefulSet", "", selector+`"podManagementPolicy":"Parallel",`+members+template)
	}
	united := func(kind, members string) string {
		return object("UnitedDeployment", "", selector+`"template":{"`+kind+`Template":{"metadata":{"labels":{"app":"x"}},"spec":{`+members+template+`}}},"topology":{"subsets":[{"name":"a"}]}`)
	}
	const rolling = `"updateStrategy":{"rollingUpdate":{"maxUnavailable":"150%"}},`
	for name, c := range map[string]struct {
		kind, object string
		warnings     []string
	}{
		"a CloneSet": {
			"CloneSet", object("CloneSet", "", selector+`"scaleStrategy":{"maxUnavailable":"101%"},"updateStrategy":{"rollingUpdate":{"partition":"100.1%","maxUnavailable":"200%","maxSurge":"200%"}},`+template),
			[]string{"spec.scaleStrategy.maxUnavailable" + all, "spec.updateStrategy.rollingUpdate.maxUnavailable" + all, "spec.updateStrategy.rollingUpdate.partition" + none},
		},
		"as much as all": {
			"CloneSet", object("CloneSet", "", selector+`"scaleStrategy":{"maxUnavailable":1000},"updateStrategy":{"rollingUpdate":{"partition":"100%","maxUnavailable":"100.0%"}},`+template), nil,
		},
		"a StatefulSet": {
			"StatefulSet", statefulSet(`"scaleStrategy":{"maxUnavailable":"120%"},` + rolling),
			[]string{"spec.scaleStrategy.maxUnavailable" + all, "spec.updateStrategy.rollingUpdate.maxUnavailable" + all},
		},
		"a SidecarSet": {
			"SidecarSet", object("SidecarSet", "", selector+`"containers":[{"name":"a","image":"i"}],"updateStrategy":{"partition":"150%","maxUnavailable":"150%"}`),
			[]string{"spec.updateStrategy.maxUnavailable" + all, "spec.updateStrategy.partition" + none},
		},
		"a BroadcastJob": {
			"BroadcastJob", object("BroadcastJob", "", `"parallelism":"150%","template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"i"}]}}`),
			[]string{"spec.parallelism" + all},
		},
		"CloneSets of a UnitedDeployment": {
			"UnitedDeployment", united("cloneSet", `"scaleStrategy":{"maxUnavailable":"120%"},`+rolling),
			[]string{"spec.template.cloneSetTemplate.spec.scaleStrategy.maxUnavailable" + all, "spec.template.cloneSetTemplate.spec.updateStrategy.rollingUpdate.maxUnavailable" + all},
		},
		"StatefulSets of a UnitedDeployment": {
			"UnitedDeployment", united("advancedStatefulSet", `"podManagementPolicy":"Parallel",`+rolling),
			[]string{"spec.template.advancedStatefulSetTemplate.spec.updateStrategy.rollingUpdate.maxUnavailable" + all},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := kinds()[c.kind]
			set := admissiontest.Defaulted(t, k, "", c.object)
			r := admissiontest.Check(t, k, "", set)
			require.True(t, r.Allowed, r.Result)
			require.ElementsMatch(t, c.warnings, r.Warnings)
			require.ElementsMatch(t, c.warnings, admissiontest.Check(t, k, set, set).Warnings, "an update tells it, too")
		})
	}
	k := kinds()["CloneSet"]
	alpha := strings.Replace(object("CloneSet", "", selector+`"updateStrategy":{"partition":"120%"},`+template), "v1beta1", "v1alpha1", 1)
	require.Equal(t, []string{"spec.updateStrategy.partition" + none}, admissiontest.Check(t, k, "", alpha).Warnings, "58 the field is that of the client")
}
