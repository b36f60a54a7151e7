package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/admission/admissiontest"
)

const podTemplate = `{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"main","image":"i"}]}}`

// of is an object with one template of the kind, further members of its spec, and subsets.
func of(kind, members string, subsets ...string) string {
	return `{"apiVersion":"apps.kruise.io/v1beta1","kind":"UnitedDeployment","metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"x"}},` +
		`"template":{"` + kind + `Template":{"metadata":{"labels":{"app":"x"}},"spec":{` + members + `"selector":{"matchLabels":{"app":"x"}},"template":` + podTemplate + `}}},` +
		`"topology":{"subsets":[` + strings.Join(subsets, ",") + `]}}}`
}

func plain(subsets ...string) string { return of("deployment", "", subsets...) }

func replicas(t *testing.T, n int, object string) string {
	t.Helper()
	return admissiontest.Spec(t, object, fmt.Sprintf(`"replicas":%d`, n))
}

func accepts(t *testing.T, old, object string) []string {
	t.Helper()
	r := admissiontest.Check(t, Kind(nil), old, object)
	require.True(t, r.Allowed, "%v", admissiontest.Fields(r))
	return r.Warnings
}

// refuses also wants the field to be named, and the reason.
func refuses(t *testing.T, old, object, reason, name string) {
	t.Helper()
	r := admissiontest.Check(t, Kind(nil), old, object)
	require.False(t, r.Allowed, object)
	require.Equal(t, map[string]string{name: "FieldValue" + reason}, admissiontest.Fields(r), r.Result.Message)
}

func parse(t *testing.T, object string) *v1beta1.UnitedDeployment {
	t.Helper()
	out := &v1beta1.UnitedDeployment{}
	require.NoError(t, json.Unmarshal([]byte(object), out))
	return out
}

func defaultsOf(t *testing.T, old, object string) *v1beta1.UnitedDeployment {
	t.Helper()
	return parse(t, admissiontest.Defaulted(t, Kind(nil), old, object))
}

func TestUnitedDeploymentScenarios2And3Defaults(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		out := defaultsOf(t, "", admissiontest.With(t, plain(`{"name":"a"}`), "v1beta1", version))
		require.EqualValues(t, 1, *out.Spec.Replicas)
		require.EqualValues(t, 10, *out.Spec.RevisionHistoryLimit)
		require.Equal(t, v1beta1.ManualUpdateStrategyType, out.Spec.UpdateStrategy.Type)
		require.Equal(t, &v1beta1.ManualUpdate{}, out.Spec.UpdateStrategy.ManualUpdate)
	}
	for _, s := range defaultsOf(t, "", plain(`{"name":"a","maxReplicas":4}`, `{"name":"b"}`)).Spec.Topology.Subsets {
		require.Equal(t, "0", s.MinReplicas.String())
	}
	for _, s := range defaultsOf(t, "", plain(`{"name":"a","replicas":1}`, `{"name":"b"}`)).Spec.Topology.Subsets {
		require.Nil(t, s.MinReplicas)
	}
}

func TestUnitedDeploymentScenario4OnlyTheTemplateOfAStatefulSetIsFilledIn(t *testing.T) {
	stateful := of("statefulSet", "")
	require.Contains(t, admissiontest.Defaulted(t, Kind(nil), "", stateful), `"restartPolicy":"Always"`)
	require.Contains(t, admissiontest.Defaulted(t, Kind(nil), "", stateful), `"dnsPolicy":"ClusterFirst"`)
	for _, kind := range []string{"cloneSet", "advancedStatefulSet", "deployment"} {
		object := of(kind, "")
		require.Equal(t, parse(t, object).Spec.Template, defaultsOf(t, "", object).Spec.Template)
	}
	scaled := replicas(t, 3, stateful)
	require.Equal(t, parse(t, stateful).Spec.Template, defaultsOf(t, stateful, scaled).Spec.Template, "an unchanged template starts no rollout")
	require.Contains(t, admissiontest.Defaulted(t, Kind(nil), stateful, admissiontest.With(t, stateful, `"image":"i"`, `"image":"j"`)), `"restartPolicy":"Always"`)
}

func TestScenarios48And49DefaultsOfAUnitedDeploymentAreAddedAndNothingElse(t *testing.T) {
	future := admissiontest.With(t, admissiontest.Spec(t, of("statefulSet", "", `{"name":"a","maxReplicas":1}`, `{"name":"b","new":{"a":9007199254740993}}`), `"alsoNew":[null]`), `"image":"i"`, `"image":"i","futureField":true`)
	for _, object := range []string{future, admissiontest.With(t, future, "v1beta1", "v1alpha1")} {
		admissiontest.AddsOnly(t, Kind(nil), object)
		out := admissiontest.Defaulted(t, Kind(nil), "", object)
		for _, text := range []string{`"futureField":true`, `"alsoNew":[null]`, `"new":{"a":9007199254740993}`} {
			require.Contains(t, out, text)
		}
	}
}

func TestScenario50DefaultsOfAUnitedDeploymentAreAddedOnce(t *testing.T) {
	admissiontest.OnceIsEnough[v1beta1.UnitedDeployment](t, Kind(nil))
}

func TestScenario52ThreeViolationsOfAUnitedDeploymentAreThreeCauses(t *testing.T) {
	bad := admissiontest.Spec(t, plain(`{"name":"A_"}`), `"revisionHistoryLimit":-1,"updateStrategy":{"type":"Auto"}`)
	r := admissiontest.Check(t, Kind(nil), "", bad)
	require.False(t, r.Allowed)
	require.Equal(t, []string{"spec.revisionHistoryLimit", "spec.topology.subsets[0].name", "spec.updateStrategy.type"}, slices.Sorted(maps.Keys(admissiontest.Fields(r))))
}

func TestScenario60WhatIsNoUnitedDeployment(t *testing.T) {
	admissiontest.RefusesOthers(t, Kind(nil), plain())
}

func TestScenarios25And26And58TheFlatFormOfACloneSetStaysFlat(t *testing.T) {
	flat := admissiontest.With(t, of("cloneSet", `"updateStrategy":{"type":"InPlaceIfPossible","maxUnavailable":"20%"},`, `{"name":"a"}`), "v1beta1", "v1alpha1")
	out := admissiontest.Defaulted(t, Kind(nil), "", flat)
	require.Contains(t, out, `"updateStrategy":{"type":"InPlaceIfPossible","maxUnavailable":"20%"}`)
	require.NotContains(t, out, "rollingUpdate")
	nested := admissiontest.With(t, of("cloneSet", `"updateStrategy":{"rollingUpdate":{"maxUnavailable":"20%"}},`, `{"name":"a"}`), "v1beta1", "v1alpha1")
	require.Contains(t, admissiontest.Defaulted(t, Kind(nil), "", nested), `"updateStrategy":{"rollingUpdate":{"maxUnavailable":"20%"}}`)
	refuses(t, "", admissiontest.With(t, nested, "20%", "x"), "Invalid", "spec.template.cloneSetTemplate.spec.updateStrategy.rollingUpdate.maxUnavailable")
}

func TestScenario59ACarrierOfAUnitedDeploymentComesBack(t *testing.T) {
	put := admissiontest.With(t, plain(), "v1beta1", "v1alpha1")
	old := admissiontest.With(t, put, `"metadata":{`, `"metadata":{"annotations":{"apps.kruise.io/uniteddeployment-v1beta1-fields":"{\"restore\":{\"/spec/x\":1}}"},`)
	require.Contains(t, admissiontest.Defaulted(t, Kind(nil), old, put), "uniteddeployment-v1beta1-fields")
}

func TestUnitedDeploymentScenarios5To7OneTemplate(t *testing.T) {
	none := admissiontest.With(t, plain(), `"deploymentTemplate"`, `"unknownTemplate"`)
	refuses(t, "", none, "Required", "spec.template")
	two := admissiontest.With(t, plain(), `"template":{`, `"template":{"cloneSetTemplate":{"metadata":{"labels":{"app":"x"}},"spec":{"template":`+podTemplate+`}},`)
	refuses(t, "", two, "Invalid", "spec.template")
	refuses(t, "", of("statefulSet", `"replicas":3,`), "Invalid", "spec.template.statefulSetTemplate.spec.replicas")
	const partition = `"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1}},`
	for _, kind := range []string{"statefulSet", "advancedStatefulSet"} {
		at := "spec.template." + kind + "Template.spec.updateStrategy.rollingUpdate.partition"
		refuses(t, "", of(kind, partition), "Invalid", at)
		warnings := accepts(t, "", of(kind, strings.Replace(partition, `"type":"RollingUpdate",`, "", 1)))
		require.Len(t, warnings, 1)
		require.Contains(t, warnings[0], at)
	}
}

func TestUnitedDeploymentScenario8LabelsThatDoNotMatch(t *testing.T) {
	elsewhere := func(kind string) string {
		return admissiontest.With(t, of(kind, ""), kind+`Template":{"metadata":{"labels":{"app":"x"}}`, kind+`Template":{"metadata":{"labels":{"app":"y"}}`)
	}
	for _, kind := range []string{"deployment", "statefulSet", "advancedStatefulSet"} {
		refuses(t, "", elsewhere(kind), "Invalid", "spec.template."+kind+"Template.metadata.labels")
	}
	require.Len(t, accepts(t, "", elsewhere("cloneSet")), 1)
	require.Len(t, accepts(t, "", of("cloneSet", `"replicas":3,`)), 1)
	for _, kind := range []string{"deployment", "statefulSet", "advancedStatefulSet", "cloneSet"} {
		pods := admissiontest.With(t, of(kind, ""), `"template":`+podTemplate, `"template":`+strings.Replace(podTemplate, `"x"`, `"y"`, 1))
		refuses(t, "", pods, "Invalid", "spec.template."+kind+"Template.spec.template.metadata.labels")
	}
}

func TestTheNativeStatefulSetIsCheckedAsItsAPIServerWould(t *testing.T) {
	const at = "spec.template.statefulSetTemplate.spec."
	for members, c := range map[string][2]string{
		`"podManagementPolicy":"Some",`:                                              {"Invalid", "podManagementPolicy"},
		`"updateStrategy":{"type":"Some"},`:                                          {"Invalid", "updateStrategy.type"},
		`"updateStrategy":{"type":"OnDelete","rollingUpdate":{}},`:                   {"Invalid", "updateStrategy.rollingUpdate"},
		`"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Some"},`:              {"NotSupported", "persistentVolumeClaimRetentionPolicy.whenScaled"},
		`"minReadySeconds":-1,`:                                                      {"Invalid", "minReadySeconds"},
		`"ordinals":{"start":-1},`:                                                   {"Invalid", "ordinals.start"},
		`"podManagementPolicy":"Parallel","updateStrategy":{"type":"OnDelete"},"x":`: {},
	} {
		object := of("statefulSet", members)
		if c[0] == "" {
			accepts(t, "", of("statefulSet", members+"1,"))
			continue
		}
		refuses(t, "", object, c[0], at+c[1])
	}
	never := admissiontest.With(t, of("statefulSet", ""), `"spec":{"containers"`, `"spec":{"restartPolicy":"Never","containers"`)
	refuses(t, "", never, "NotSupported", at+"template.spec.restartPolicy")
	deadline := admissiontest.With(t, of("deployment", ""), `"spec":{"containers"`, `"spec":{"activeDeadlineSeconds":5,"containers"`)
	r := admissiontest.Check(t, Kind(nil), "", deadline)
	require.Contains(t, admissiontest.Fields(r), "spec.template.deploymentTemplate.spec.template.spec.activeDeadlineSeconds")
}

func TestUnitedDeploymentScenario9NamesOfSubsets(t *testing.T) {
	refuses(t, "", plain(`{"name":"a"}`, `{"name":"a"}`), "Invalid", "spec.topology.subsets[1].name")
	refuses(t, "", plain(`{"name":"A_"}`), "Invalid", "spec.topology.subsets[0].name")
	r := admissiontest.Check(t, Kind(nil), "", plain(`{"name":""}`))
	require.EqualValues(t, "FieldValueRequired", r.Result.Details.Causes[0].Type)
	require.Equal(t, "spec.topology.subsets[0].name", r.Result.Details.Causes[0].Field)
}

func TestUnitedDeploymentScenarios10To14And19And20WhatSubsetsAskFor(t *testing.T) {
	const at = "spec.topology.subsets"
	share := func(list ...string) []string {
		var out []string
		for i, q := range list {
			member := ""
			if q != "" {
				member = `,"replicas":` + q
			}
			out = append(out, fmt.Sprintf(`{"name":"%c"%s}`, 'a'+i, member))
		}
		return out
	}
	refuses(t, "", replicas(t, 5, plain(share("6")...)), "Invalid", at)
	refuses(t, "", replicas(t, 5, plain(share("2", "2")...)), "Invalid", at)
	accepts(t, "", replicas(t, 5, plain(share("2", "")...)))
	refuses(t, "", plain(share("2", "3")...), "Invalid", at)
	accepts(t, "", plain())
	for _, q := range []string{`"101%"`, `"-1%"`, `"5"`, `"1.5%"`, `-1`} {
		refuses(t, "", replicas(t, 5, plain(share(q, "")...)), "Invalid", at+"[0].replicas")
		refuses(t, "", plain(`{"name":"a","minReplicas":`+q+`}`), "Invalid", at+"[0].minReplicas")
		refuses(t, "", plain(`{"name":"a","maxReplicas":`+q+`}`, `{"name":"b"}`), "Invalid", at+"[0].maxReplicas")
	}
	accepts(t, "", replicas(t, 5, plain(share(`"+5%"`, "")...)))
	refuses(t, "", plain(`{"name":"a","replicas":1}`, `{"name":"b","maxReplicas":2}`), "Invalid", at)
	refuses(t, "", plain(`{"name":"a","maxReplicas":2}`, `{"name":"b","maxReplicas":3}`), "Invalid", at)
	refuses(t, "", plain(`{"name":"a","minReplicas":3,"maxReplicas":2}`, `{"name":"b"}`), "Invalid", at+"[0].minReplicas")
	accepts(t, "", plain(`{"name":"a","minReplicas":9,"maxReplicas":9}`, `{"name":"b"}`))
	adaptive := `"topology":{"scheduleStrategy":{"type":"Adaptive"},`
	refuses(t, "", admissiontest.With(t, plain(share("1")...), `"topology":{`, adaptive), "Forbidden", at+"[0].replicas")

	// Scenario 20: what is off by rounding alone is put right later.
	for _, c := range []struct {
		n      int
		shares []string
		good   bool
	}{
		{5, []string{`"50%"`, `"50%"`}, true}, {10, []string{`"33%"`, `"33%"`, `"33%"`}, false}, {10, []string{`"33%"`, `"33%"`, `"34%"`}, true}, {1, []string{`"50%"`, `"50%"`}, true},
		{7, []string{`"25%"`, `"25%"`, `"25%"`, `"25%"`}, true}, {10, []string{`"15%"`, `"85%"`}, true}, {4, []string{"3", `"50%"`, ""}, false}, {10, []string{`"60%"`, `"60%"`}, false},
	} {
		object := replicas(t, c.n, plain(share(c.shares...)...))
		if c.good {
			accepts(t, "", object)
		} else {
			refuses(t, "", object, "Invalid", at)
		}
	}
}

func TestUnitedDeploymentScenarios15And16Strategies(t *testing.T) {
	reserve := func(kind string) string {
		return admissiontest.With(t, of(kind, ""), `"topology":{`, `"topology":{"scheduleStrategy":{"type":"Adaptive","adaptive":{"reserveUnschedulablePods":true}},`)
	}
	refuses(t, "", reserve("advancedStatefulSet"), "Invalid", "spec.topology.scheduleStrategy")
	refuses(t, "", reserve("statefulSet"), "Invalid", "spec.topology.scheduleStrategy")
	accepts(t, "", reserve("deployment"))
	refuses(t, "", admissiontest.With(t, reserve("deployment"), `"reserveUnschedulablePods":true`, `"unschedulableDuration":-1`), "Invalid", "spec.topology.scheduleStrategy.adaptive.unschedulableDuration")
	refuses(t, "", admissiontest.With(t, reserve("deployment"), `"reserveUnschedulablePods":true`, `"rescheduleCriticalSeconds":-1`), "Invalid", "spec.topology.scheduleStrategy.adaptive.rescheduleCriticalSeconds")
	const at = "spec.updateStrategy.manualUpdate.partitions"
	partitions := func(p string) string {
		return admissiontest.Spec(t, plain(`{"name":"a"}`), `"updateStrategy":{"manualUpdate":{"partitions":{`+p+`}}}`)
	}
	refuses(t, "", partitions(`"d":1`), "Invalid", at)
	refuses(t, "", partitions(`"a":-1`), "Invalid", at+"[a]")
	accepts(t, partitions(`"a":-1`), admissiontest.Spec(t, partitions(`"a":-1`), `"revisionHistoryLimit":3`))
	accepts(t, "", partitions(`"a":1`))
	refuses(t, "", admissiontest.Spec(t, plain(), `"updateStrategy":{"type":"Auto"}`), "NotSupported", "spec.updateStrategy.type")
	refuses(t, "", replicas(t, -1, plain()), "Invalid", "spec.replicas")
}

func TestUnitedDeploymentScenario17WhereASubsetIsStays(t *testing.T) {
	const zone = `"nodeSelectorTerm":{"matchExpressions":[{"key":"zone","operator":"In","values":["1"]}]}`
	const toleration = `"tolerations":[{"key":"k","operator":"Exists"}]`
	old := plain(`{"name":"a",` + zone + `,` + toleration + `}`)
	refuses(t, old, admissiontest.With(t, old, `["1"]`, `["2"]`), "Forbidden", "spec.topology.subsets[0].nodeSelectorTerm")
	refuses(t, old, admissiontest.With(t, old, `"key":"k"`, `"key":"l"`), "Forbidden", "spec.topology.subsets[0].tolerations")
	accepts(t, old, admissiontest.With(t, old, `"name":"a"`, `"name":"d"`, `["1"]`, `["2"]`))
}

func TestWhereASubsetMayBe(t *testing.T) {
	const at = "spec.topology.subsets[0]."
	for text, c := range map[string][2]string{
		`"nodeSelectorTerm":{"matchExpressions":[{"key":"a b","operator":"Exists"}]}`:                {"Invalid", "nodeSelectorTerm.matchExpressions[0].key"},
		`"nodeSelectorTerm":{"matchExpressions":[{"key":"a","operator":"Is"}]}`:                      {"Invalid", "nodeSelectorTerm.matchExpressions[0].operator"},
		`"nodeSelectorTerm":{"matchExpressions":[{"key":"a","operator":"In"}]}`:                      {"Required", "nodeSelectorTerm.matchExpressions[0].values"},
		`"nodeSelectorTerm":{"matchExpressions":[{"key":"a","operator":"In","values":["a b"]}]}`:     {"Invalid", "nodeSelectorTerm.matchExpressions[0].values[0]"},
		`"nodeSelectorTerm":{"matchExpressions":[{"key":"a","operator":"Exists","values":["a"]}]}`:   {"Forbidden", "nodeSelectorTerm.matchExpressions[0].values"},
		`"nodeSelectorTerm":{"matchExpressions":[{"key":"a","operator":"Gt","values":["a"]}]}`:       {"Invalid", "nodeSelectorTerm.matchExpressions[0].values[0]"},
		`"nodeSelectorTerm":{"matchFields":[{"key":"metadata.uid","operator":"In","values":["a"]}]}`: {"Invalid", "nodeSelectorTerm.matchFields[0].key"},
		`"nodeSelectorTerm":{"matchFields":[{"key":"metadata.name","operator":"In"}]}`:               {"Required", "nodeSelectorTerm.matchFields[0].values"},
		`"tolerations":[{"key":"a b"}]`:                                                                            {"Invalid", "tolerations[0].key"},
		`"tolerations":[{"value":"a"}]`:                                                                            {"Invalid", "tolerations[0].operator"},
		`"tolerations":[{"key":"a","operator":"Exists","value":"a"}]`:                                              {"Invalid", "tolerations[0].value"},
		`"tolerations":[{"key":"a","operator":"Is"}]`:                                                              {"NotSupported", "tolerations[0].operator"},
		`"tolerations":[{"key":"a","effect":"Some"}]`:                                                              {"NotSupported", "tolerations[0].effect"},
		`"tolerations":[{"key":"a","effect":"NoSchedule","tolerationSeconds":5}]`:                                  {"Invalid", "tolerations[0].effect"},
		`"tolerations":[{"key":"a","operator":"Gt","value":"x"}]`:                                                  {"Invalid", "tolerations[0].value"},
		`"tolerations":[{"operator":"Exists"},{"key":"a","value":"b","effect":"NoExecute","tolerationSeconds":5}]`: {},
		`"nodeSelectorTerm":{"matchExpressions":[{"key":"a","operator":"Lt","values":["5"]}],"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n"]}]}`: {},
	} {
		object := plain(`{"name":"a",` + text + `}`)
		if c[0] == "" {
			accepts(t, "", object)
			continue
		}
		refuses(t, "", object, c[0], at+c[1])
	}
}

func TestUnitedDeploymentScenario18WhatAStatefulSetCannotChange(t *testing.T) {
	native := of("statefulSet", `"serviceName":"s",`)
	refuses(t, native, admissiontest.With(t, native, `"serviceName":"s"`, `"serviceName":"t"`), "Forbidden", "spec.template.statefulSetTemplate.spec")
	accepts(t, native, of("statefulSet", `"serviceName":"s","minReadySeconds":3,"revisionHistoryLimit":2,`))
	accepts(t, native, admissiontest.Defaulted(t, Kind(nil), "", native))
	refuses(t, native, of("statefulSet", `"serviceName":"s","volumeClaimTemplates":[{"metadata":{"name":"d"}}],`), "Forbidden", "spec.template.statefulSetTemplate.spec")
	advanced := of("advancedStatefulSet", "")
	refuses(t, advanced, of("advancedStatefulSet", `"podManagementPolicy":"Parallel",`), "Forbidden", "spec.template.advancedStatefulSetTemplate.spec")
	accepts(t, advanced, of("advancedStatefulSet", `"podManagementPolicy":"OrderedReady","reserveOrdinals":[1],`))
	accepts(t, native, advanced)
	const selector = `"selector":{"matchLabels":{"app":"x"}},"template":{"metadata"`
	refuses(t, advanced, admissiontest.With(t, advanced, selector, strings.Replace(selector, `"x"`, `"x","b":"c"`, 1)), "Forbidden", "spec.template.advancedStatefulSetTemplate.spec")
	// The schema demands it, so that nothing else of such a template could be changed without.
	accepts(t, admissiontest.With(t, advanced, selector, `"template":{"metadata"`), advanced)
}

func TestUnitedDeploymentScenario21TheSelectorStays(t *testing.T) {
	old := plain()
	moved := strings.ReplaceAll(old, `{"app":"x"}`, `{"app":"x","b":"c"}`)
	refuses(t, old, moved, "Invalid", "spec.selector")
	refuses(t, "", admissiontest.With(t, old, `"selector":{"matchLabels":{"app":"x"}},"template":{"d`, `"selector":{},"template":{"d`), "Invalid", "spec.selector")
	refuses(t, "", admissiontest.With(t, old, `"selector":{"matchLabels":{"app":"x"}},"template":{"d`, `"template":{"d`), "Required", "spec.selector")
}

func TestUnitedDeploymentScenario22Patches(t *testing.T) {
	patch := func(p string) string { return plain(`{"name":"a","patch":` + p + `}`) }
	const at = "spec.topology.subsets[0].patch"
	for _, bad := range []string{
		`{"metadata":{"labels":{"apps.kruise.io/subset-name":"z"}}}`, `{"metadata":{"labels":{"apps.kruise.io/controller-revision-hash":null}}}`,
		`{"metadata":{"labels":{"app":"y"}}}`, `[]`, `"text"`, `{"spec":5}`, `{"spec":{"containers":[{"image":"without a name"}]}}`,
	} {
		refuses(t, "", patch(bad), "Invalid", at)
		// What is stored already may stay, but not under another template.
		accepts(t, patch(bad), admissiontest.Spec(t, patch(bad), `"revisionHistoryLimit":3`))
		refuses(t, patch(bad), admissiontest.With(t, patch(bad), `"image":"i"`, `"image":"j"`), "Invalid", at)
	}
	for _, good := range []string{`{"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"2"}}}]}}`, `{"spec":{"containers":[{"name":"main","image":"j"}]}}`, `null`, `{}`} {
		accepts(t, "", patch(good))
	}
}

// TestAsManyPatchesAreJudgedAsIsSaid: ten of a request at most, beside the template.
func TestAsManyPatchesAreJudgedAsIsSaid(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"kind":"PodTemplate","apiVersion":"v1"}`)
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	require.NoError(t, err)
	k := Kind(admission.NewTemplates(client))
	patched := func(n int) string {
		var subsets []string
		for i := range n {
			subsets = append(subsets, fmt.Sprintf(`{"name":"s%d","patch":{"metadata":{"labels":{"subset":"s%d"}}}}`, i, i))
		}
		return plain(subsets...)
	}
	for patches, want := range map[int]int64{0: 1, 3: 4, 9: 10, 10: 11, 12: 11} {
		asked.Store(0)
		require.True(t, admissiontest.Check(t, k, "", patched(patches)).Allowed)
		require.Equal(t, want, asked.Load(), "%d patches", patches)
	}
	asked.Store(0)
	require.True(t, admissiontest.Check(t, k, patched(3), patched(5)).Allowed)
	require.EqualValues(t, 2, asked.Load(), "only what is new")
}

func TestUnitedDeploymentScenario23LongNames(t *testing.T) {
	named := func(n int) string { return admissiontest.With(t, plain(), `"web"`, `"`+strings.Repeat("w", n)+`"`) }
	refuses(t, "", named(53), "Invalid", "metadata.name")
	accepts(t, "", named(52))
	accepts(t, named(53), replicas(t, 3, named(53)))
	stateful := admissiontest.With(t, of("statefulSet", "", `{"name":"zone"}`), `"web"`, `"`+strings.Repeat("w", 42)+`"`)
	require.Len(t, accepts(t, "", stateful), 1)
	require.Empty(t, accepts(t, "", admissiontest.With(t, stateful, "ww", "w")))
}

func FuzzAdmission(f *testing.F) {
	admissiontest.Fuzz(f, Kind(nil), plain(`{"name":"a","replicas":"50%","patch":{"spec":{}}}`), of("statefulSet", "", `{"name":"a","maxReplicas":1,"tolerations":[{}]}`))
}
