package statefulset

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	at "github.com/flotilla-k8s/flotilla/internal/admission/admissiontest"
)

const minimal = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},` +
	`"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"i"}]}}}}`

// all are the classes of a cluster.
type all struct {
	list []*storagev1.StorageClass
	err  error
}

func (a all) List() []*storagev1.StorageClass { return a.list }
func (a all) Synced() error                   { return a.err }

func kind() admission.Kind {
	class := func(name string, expands *bool, age time.Duration, isDefault bool) *storagev1.StorageClass {
		c := &storagev1.StorageClass{AllowVolumeExpansion: expands}
		c.Name, c.CreationTimestamp = name, metav1.NewTime(time.Unix(0, 0).Add(-age))
		if isDefault {
			c.Annotations = map[string]string{IsDefaultClass: "true"}
		}
		return c
	}
	return Kind(nil, all{list: []*storagev1.StorageClass{
		class("stiff", ptr.To(false), 0, false), class("silent", nil, 0, false), class("elastic", ptr.To(true), time.Hour, true),
		class("old-default", ptr.To(false), 2*time.Hour, true),
	}})
}

// with is the shortest set with other members in its spec, v1beta1 as all here. It has its defaults.
func with(t *testing.T, members string) string {
	t.Helper()
	return at.Defaulted(t, kind(), "", strings.Replace(minimal, `"spec":{"selector"`, `"spec":{`+members+`,"selector"`, 1))
}

func withTemplate(t *testing.T, set, members string) string {
	t.Helper()
	out := strings.Replace(set, `"containers"`, members+`,"containers"`, 1)
	require.NotEqual(t, set, out)
	return out
}

func TestScenario117Defaults(t *testing.T) {
	var out struct{ Spec map[string]any }
	require.NoError(t, json.Unmarshal([]byte(at.Defaulted(t, kind(), "", minimal)), &out))
	template, _ := out.Spec["template"].(map[string]any)
	require.Contains(t, fmt.Sprint(template), "imagePullPolicy:Always")
	delete(out.Spec, "template")
	delete(out.Spec, "selector")
	got, err := json.Marshal(out.Spec)
	require.NoError(t, err)
	require.JSONEq(t, `{"replicas":1,"revisionHistoryLimit":10,"podManagementPolicy":"OrderedReady","volumeClaimUpdateStrategy":{"type":"OnDelete"},
		"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},
		"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0,"maxUnavailable":1,"podUpdatePolicy":"ReCreate","minReadySeconds":0}}}`, string(got))
}

func TestScenarios48And49DefaultsAreAddedAndNothingElse(t *testing.T) {
	at.AddsOnly(t, kind(), minimal)
}

func TestScenario50OnceIsEnough(t *testing.T) {
	at.OnceIsEnough[v1beta1.StatefulSet](t, kind())
}

func TestTemplatesThatDoNotChangeAreNotDefaulted(t *testing.T) {
	claims := strings.Replace(minimal, `"spec":{"selector"`, `"spec":{"volumeClaimTemplates":[{"metadata":{"name":"data"}}],"selector"`, 1)
	scaled := strings.Replace(claims, `"spec":{"volume`, `"spec":{"replicas":3,"volume`, 1)
	out := at.Defaulted(t, kind(), claims, scaled)
	require.NotContains(t, out, "imagePullPolicy")
	require.NotContains(t, out, "Pending")
	require.Contains(t, at.Defaulted(t, kind(), claims, strings.Replace(claims, `"image":"i"`, `"image":"j"`, 1)), "imagePullPolicy")
	// Claim templates alone: their defaults, not those of the Pod template.
	out = at.Defaulted(t, kind(), claims, strings.Replace(claims, `"name":"data"`, `"name":"more"`, 1))
	require.NotContains(t, out, "imagePullPolicy")
	require.Contains(t, out, `"phase":"Pending"`)
}

// TestDefaultsThatTheOlderVersionCannotSay are the controller's: a patch never brings a carrier that the client did not have.
func TestDefaultsThatTheOlderVersionCannotSay(t *testing.T) {
	alpha := strings.Replace(minimal, "v1beta1", "v1alpha1", 1)
	out := at.Defaulted(t, kind(), "", alpha)
	require.Contains(t, out, `"podManagementPolicy":"OrderedReady"`)
	require.NotContains(t, out, "persistentVolumeClaimRetentionPolicy")
	require.NotContains(t, out, "annotations")
	require.Equal(t, out, at.Defaulted(t, kind(), "", out))
}

func TestScenarios59And116ACarrierThatAClientLeftOutComesBack(t *testing.T) {
	carrier := `,"annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{\"spec\":{\"reserveOrdinals\":[1]}}"}`
	put := at.Defaulted(t, kind(), "", strings.Replace(minimal, "v1beta1", "v1alpha1", 1))
	old := strings.Replace(put, `"name":"web"`, `"name":"web"`+carrier, 1)
	require.Contains(t, at.Defaulted(t, kind(), old, put), `reserveOrdinals`)
	cleared := strings.Replace(put, `"name":"web"`, `"name":"web","annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{}"}`, 1)
	require.NotContains(t, at.Defaulted(t, kind(), old, cleared), `reserveOrdinals`)
	// Nobody but the API server has a say in the status.
	own := strings.Replace(put, `"name":"web"`, `"name":"web","annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{\"status\":{\"updatedReadyReplicas\":9}}"}`, 1)
	status := strings.Replace(own, `Replicas\":9`, `Replicas\":1`, 1)
	require.NotEqual(t, own, status)
	require.Contains(t, at.Defaulted(t, kind(), status, own), `Replicas\":1`)
	require.NotContains(t, at.Defaulted(t, kind(), "", own), `Replicas\":9`)
	// The validating hook does not take it on trust that the other was asked, or had the last word.
	for _, c := range [][2]string{{old, put}, {status, own}, {"", own}} {
		require.Equal(t, map[string]string{"metadata.annotations": "FieldValueInvalid"}, at.Fields(at.Check(t, kind(), c[0], c[1])))
		good := at.Check(t, kind(), c[0], at.Defaulted(t, kind(), c[0], c[1]))
		require.True(t, good.Allowed, good.Result)
	}
	require.Contains(t, at.Check(t, kind(), old, put).Result.Message, "is not what the defaulting webhook makes of it")
	illTyped := strings.Replace(put, `"image":"i"`, `"image":5`, 1)
	require.Contains(t, at.Defaulted(t, kind(), old, illTyped), `reserveOrdinals`, "whatever else is wrong")
	garbage := strings.Replace(at.Defaulted(t, kind(), "", put), `"name":"web"`, `"name":"web","annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"[]"}`, 1)
	require.Equal(t, map[string]string{"metadata.annotations": "FieldValueInvalid"}, at.Fields(at.Check(t, kind(), "", garbage)))
}

// TestNothingIsCarriedThatTheSchemaWouldRefuse: it does not see what annotations hold.
func TestNothingIsCarriedThatTheSchemaWouldRefuse(t *testing.T) {
	alpha := at.Defaulted(t, kind(), "", strings.Replace(minimal, "v1beta1", "v1alpha1", 1))
	for _, carrier := range []string{`{\"spec\":{\"reserveOrdinals\":[null]}}`, `{\"restore\":{\"/spec/reserveOrdinals\":{\"to\":[1,null]}}}`} {
		r := at.Check(t, kind(), "", strings.Replace(alpha, `"name":"web"`, `"name":"web","annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"`+carrier+`"}`, 1))
		require.Equal(t, map[string]string{"metadata.annotations": "FieldValueInvalid"}, at.Fields(r), carrier)
	}
	// The same on the other side: what v1alpha1 could not be read with is not stored.
	beta := at.Defaulted(t, kind(), "", minimal)
	for carrier, problem := range map[string]string{
		`{\"restore\":{\"/spec/lifecycle\":{\"to\":{}}}}`: "",
		`{\"restore\":{\"/spec/replicas\":{\"to\":7}}}`:   "must be as written by the conversion",
	} {
		carrying := strings.Replace(beta, `"name":"web"`, `"name":"web","annotations":{"apps.kruise.io/statefulset-v1alpha1-fields":"`+carrier+`"}`, 1)
		for _, old := range []string{"", beta} {
			r := at.Check(t, kind(), old, carrying)
			require.Equal(t, problem == "", r.Allowed, "%v", r.Result)
			if problem != "" {
				require.Contains(t, r.Result.Message, problem)
			}
		}
		require.True(t, at.Check(t, kind(), carrying, carrying).Allowed, "what is there may stay")
	}
}

func TestScenario58FieldsOfTheOlderVersion(t *testing.T) {
	alpha := strings.NewReplacer("v1beta1", "v1alpha1", `"spec":{"selector"`, `"spec":{"updateStrategy":{"rollingUpdate":{"partition":-1}},"selector"`,
		`"name":"web"`, `"name":"web","annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{\"spec\":{\"reserveOrdinals\":[-1]}}"}`).Replace(minimal)
	fields := at.Fields(at.Check(t, kind(), "", at.Defaulted(t, kind(), "", alpha)))
	require.Equal(t, map[string]string{"spec.updateStrategy.rollingUpdate.partition": "FieldValueInvalid", "spec.reserveOrdinals[0]": "FieldValueInvalid"}, fields)
}

func TestScenario60WhatDoesNotBelongHere(t *testing.T) {
	at.RefusesOthers(t, kind(), minimal)
}

func FuzzAdmission(f *testing.F) {
	at.Fuzz(f, kind(), minimal)
}

func TestNothingIsDecidedBeforeTheClassesAreKnown(t *testing.T) {
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":{"group":"apps.kruise.io","resource":"statefulsets"},"object":` + minimal + `}}`
	_, code, err := Kind(nil, all{err: errors.New("StorageClasses are not listed yet")}).Check()(t.Context(), []byte(body))
	require.ErrorContains(t, err, "StorageClasses")
	require.Equal(t, http.StatusServiceUnavailable, code)
}

func TestAMemberOfTheWrongTypeIsNamed(t *testing.T) {
	alpha := strings.NewReplacer("v1beta1", "v1alpha1", `"image":"i"`, `"image":5,"ports":[{"containerPort":80},{"containerPort":"http"}],"resources":{"limits":{"cpu":"lots"}}`).Replace(minimal)
	require.Nil(t, at.Mutate(t, kind(), "", alpha).Patch)
	const container = "spec.template.spec.containers[0]."
	require.Equal(t, map[string]string{
		container + "image": "FieldValueInvalid", container + "ports[1].containerPort": "FieldValueInvalid", container + "resources.limits[cpu]": "FieldValueInvalid",
	}, at.Fields(at.Check(t, kind(), "", alpha)))
}

// refusals are fields with the word for why, none: the object is accepted. Scenarios are those of the kind's document.
func TestRulesOfASet(t *testing.T) {
	const rolling = "spec.updateStrategy.rollingUpdate."
	for name, c := range map[string]struct {
		members string
		refused map[string]string
	}{
		"27 forms of reservations":         {`"reserveOrdinals":["0003-005","3-3",7]`, nil},
		"27 other forms":                   {`"reserveOrdinals":["12","5-3","1-2-3","1 - 3","1-%",-1]`, all6("spec.reserveOrdinals[%d]")},
		"29 a huge reservation":            {`"reserveOrdinals":["0-2000000000"]`, nil},
		"29 start":                         {`"ordinals":{"start":-1}`, invalid("spec.ordinals.start")},
		"29 history":                       {`"revisionHistoryLimit":-1`, invalid("spec.revisionHistoryLimit")},
		"29 claims":                        {`"volumeClaimUpdateStrategy":{"type":"Foo"}`, map[string]string{"spec.volumeClaimUpdateStrategy.type": "FieldValueNotSupported"}},
		"ordinals beyond all numbers":      {`"ordinals":{"start":2147483000},"replicas":648`, invalid("spec.replicas")},
		"the last ordinals":                {`"ordinals":{"start":2147483000},"replicas":647`, nil},
		"reserved beyond all numbers":      {`"reserveOrdinals":["0-2147483647"]`, invalid("spec.replicas")},
		"118 management":                   {`"podManagementPolicy":"Foo"`, invalid("spec.podManagementPolicy")},
		"119 ordered, two":                 {`"updateStrategy":{"rollingUpdate":{"maxUnavailable":2}}`, invalid(rolling + "maxUnavailable")},
		"119 ordered, percent":             {`"updateStrategy":{"rollingUpdate":{"maxUnavailable":"1%"}},"scaleStrategy":{"maxUnavailable":"100%"}`, invalid(rolling+"maxUnavailable", "spec.scaleStrategy.maxUnavailable")},
		"119 parallel, none":               {`"podManagementPolicy":"Parallel","updateStrategy":{"rollingUpdate":{"maxUnavailable":0}},"scaleStrategy":{"maxUnavailable":0}`, invalid(rolling+"maxUnavailable", "spec.scaleStrategy.maxUnavailable")},
		"119 parallel, no percent":         {`"podManagementPolicy":"Parallel","updateStrategy":{"rollingUpdate":{"maxUnavailable":"0%"}}`, invalid(rolling + "maxUnavailable")},
		"119 parallel, negative":           {`"podManagementPolicy":"Parallel","updateStrategy":{"rollingUpdate":{"maxUnavailable":-1}}`, invalid(rolling + "maxUnavailable")},
		"119 parallel, no number":          {`"podManagementPolicy":"Parallel","updateStrategy":{"rollingUpdate":{"maxUnavailable":"abc"}},"scaleStrategy":{"maxUnavailable":"5"}`, invalid(rolling+"maxUnavailable", "spec.scaleStrategy.maxUnavailable")},
		"119 parallel, a fraction":         {`"podManagementPolicy":"Parallel","updateStrategy":{"rollingUpdate":{"maxUnavailable":"33.3%"}}`, invalid(rolling + "maxUnavailable")},
		"119 parallel, more than all":      {`"podManagementPolicy":"Parallel","updateStrategy":{"rollingUpdate":{"maxUnavailable":"120%"}},"scaleStrategy":{"maxUnavailable":"120%"}`, nil},
		"120 five minutes and a second":    {`"updateStrategy":{"rollingUpdate":{"minReadySeconds":301}}`, invalid(rolling + "minReadySeconds")},
		"120 five minutes":                 {`"updateStrategy":{"rollingUpdate":{"minReadySeconds":300}}`, nil},
		"120 partition":                    {`"updateStrategy":{"rollingUpdate":{"partition":-1}}`, invalid(rolling + "partition")},
		"121 OnDelete with parameters":     {`"updateStrategy":{"type":"OnDelete","rollingUpdate":{}}`, invalid("spec.updateStrategy.rollingUpdate")},
		"121 OnDelete with null":           {`"updateStrategy":{"type":"OnDelete","rollingUpdate":null}`, nil},
		"another type":                     {`"updateStrategy":{"type":"Foo"}`, invalid("spec.updateStrategy")},
		"another policy":                   {`"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"Foo"}}`, invalid(rolling + "podUpdatePolicy")},
		"80 in place without gate":         {`"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"InPlaceIfPossible"}}`, invalid("spec.template.spec.readinessGates")},
		"122 unordered, but ordered":       {`"updateStrategy":{"rollingUpdate":{"unorderedUpdate":{}}}`, map[string]string{rolling + "unorderedUpdate": "FieldValueRequired"}},
		"122 a weight":                     {`"podManagementPolicy":"Parallel","updateStrategy":{"rollingUpdate":{"unorderedUpdate":{"priorityStrategy":{"weightPriority":[{"weight":101,"matchSelector":{"matchLabels":{"a":"b"}}},{"weight":0,"matchSelector":{"matchLabels":{"a":"b"}}}]}}}}`, map[string]string{rolling + "unorderedUpdate.priorityStrategy.weightPriority[0].weight": "FieldValueRequired"}},
		"122 both orders":                  {`"podManagementPolicy":"Parallel","updateStrategy":{"rollingUpdate":{"unorderedUpdate":{"priorityStrategy":{"orderPriority":[{"orderedKey":"k"}],"weightPriority":[{"weight":1,"matchSelector":{"matchLabels":{"a":"b"}}}]}}}}`, map[string]string{rolling + "unorderedUpdate.priorityStrategy": "FieldValueRequired"}},
		"retention":                        {`"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Foo","whenScaled":"Bar"}`, map[string]string{"spec.persistentVolumeClaimRetentionPolicy.whenDeleted": "FieldValueNotSupported", "spec.persistentVolumeClaimRetentionPolicy.whenScaled": "FieldValueNotSupported"}},
		"negative replicas":                {`"replicas":-1`, invalid("spec.replicas")},
		"claim templates of the same name": {`"volumeClaimTemplates":[{"metadata":{"name":"a"}},{"metadata":{"name":"a"}},{}]`, map[string]string{"spec.volumeClaimTemplates[1].metadata.name": "FieldValueDuplicate", "spec.volumeClaimTemplates[2].metadata.name": "FieldValueRequired"}},
	} {
		t.Run(name, func(t *testing.T) {
			set := with(t, c.members)
			r := at.Check(t, kind(), "", set)
			require.Equal(t, len(c.refused) == 0, r.Allowed, r.Result)
			if !r.Allowed {
				require.Equal(t, c.refused, at.Fields(r), r.Result.Message)
			}
			// What is stored already may stay as it is.
			labelled := strings.Replace(set, `"name":"web"`, `"name":"web","labels":{"x":"y"}`, 1)
			require.NotEqual(t, set, labelled)
			require.True(t, at.Check(t, kind(), set, labelled).Allowed)
		})
	}
}

func all6(format string) map[string]string {
	fields := map[string]string{}
	for i := range 6 {
		fields[fmt.Sprintf(format, i)] = "FieldValueInvalid"
	}
	return fields
}

func invalid(fields ...string) map[string]string {
	out := map[string]string{}
	for _, f := range fields {
		out[f] = "FieldValueInvalid"
	}
	return out
}

func TestRulesOfTheTemplateAndItsSelector(t *testing.T) {
	for name, c := range map[string]struct {
		replace, with string
		refused       map[string]string
	}{
		"123 restartPolicy":        {`"containers"`, `"restartPolicy":"OnFailure","containers"`, map[string]string{"spec.template.spec.restartPolicy": "FieldValueNotSupported"}},
		"123 deadline":             {`"containers"`, `"activeDeadlineSeconds":5,"containers"`, map[string]string{"spec.template.spec.activeDeadlineSeconds": "FieldValueForbidden"}},
		"123 selector":             {`"matchLabels":{"app":"web"}`, `"matchLabels":{"app":"db"}`, invalid("spec.template.metadata.labels")},
		"no selector":              {`"selector":{"matchLabels":{"app":"web"}},`, ``, map[string]string{"spec.selector": "FieldValueRequired", "spec.template.metadata.labels": "FieldValueInvalid"}},
		"a selector of everything": {`{"matchLabels":{"app":"web"}}`, `{}`, invalid("spec.selector")},
		"labels of the template":   {`"labels":{"app":"web"}`, `"labels":{"app":"web","a b":"c"},"annotations":{"d e":"f"}`, invalid("spec.template.labels", "spec.template.annotations")},
		"80 in place with gate": {`"spec":{"selector"`,
			`"spec":{"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"InPlaceOnly"}},"selector"`, invalid("spec.template.spec.readinessGates")},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(minimal, c.replace, c.with, 1)
			require.NotEqual(t, minimal, bad)
			r := at.Check(t, kind(), "", at.Defaulted(t, kind(), "", bad))
			require.False(t, r.Allowed)
			require.Equal(t, c.refused, at.Fields(r), r.Result.Message)
		})
	}
}

func TestScenarios9And123Names(t *testing.T) {
	named := func(name string) string {
		return at.Defaulted(t, kind(), "", strings.Replace(minimal, `"name":"web"`, `"name":"`+name+`"`, 1))
	}
	require.True(t, at.Check(t, kind(), "", named(strings.Repeat("a", 52))).Allowed)
	for _, name := range []string{strings.Repeat("a", 53), "a.b", "-a", ""} {
		require.Contains(t, at.Fields(at.Check(t, kind(), "", named(name))), "metadata.name", name)
	}
	long := named(strings.Repeat("a", 60))
	require.True(t, at.Check(t, kind(), long, strings.Replace(long, `"replicas":1`, `"replicas":2`, 1)).Allowed, "it is there already")
	generated := strings.Replace(named("web"), `"name":"web"`, `"generateName":"a.b-"`, 1)
	require.Equal(t, invalid("metadata.generateName"), at.Fields(at.Check(t, kind(), "", generated)))
}

func TestScenario118WhatNeverChanges(t *testing.T) {
	set := with(t, `"serviceName":"a"`)
	for _, change := range [][2]string{
		{`"serviceName":"a"`, `"serviceName":"b"`},
		{`"podManagementPolicy":"OrderedReady"`, `"podManagementPolicy":"Parallel"`},
		{`{"matchLabels":{"app":"web"}}`, `{"matchExpressions":[{"key":"app","operator":"Exists"}]}`},
	} {
		changed := strings.Replace(set, change[0], change[1], 1)
		require.NotEqual(t, set, changed)
		require.Equal(t, map[string]string{"spec": "FieldValueForbidden"}, at.Fields(at.Check(t, kind(), set, changed)), change[1])
	}
	other := strings.NewReplacer(`"image":"i"`, `"image":"j"`, `"replicas":1`, `"replicas":5`, `"partition":0`, `"partition":2`, `"revisionHistoryLimit":10`, `"revisionHistoryLimit":3`,
		`"whenDeleted":"Retain"`, `"whenDeleted":"Delete"`, `"serviceName":"a"`, `"serviceName":"a","reserveOrdinals":[1],"ordinals":{"start":1},"scaleStrategy":{"maxUnavailable":1},"lifecycle":{"preDelete":{"markPodNotReady":true}},"volumeClaimTemplates":[{"metadata":{"name":"x"}}]`).Replace(set)
	require.True(t, at.Check(t, kind(), set, other).Allowed)
}

func TestScenario79InPlaceOnly(t *testing.T) {
	only := withTemplate(t, strings.Replace(minimal, `"spec":{"selector"`, `"spec":{"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"InPlaceOnly"}},"selector"`, 1),
		`"readinessGates":[{"conditionType":"InPlaceUpdateReady"}]`)
	old := at.Defaulted(t, kind(), "", only)
	require.True(t, at.Check(t, kind(), "", old).Allowed)
	for change, allowed := range map[string]bool{
		`"image":"j"`:                                  true,
		`"image":"j","env":[{"name":"A"}]`:             false,
		`"image":"i","imagePullPolicy":"IfNotPresent"`: false,
	} {
		object := at.Defaulted(t, kind(), old, strings.Replace(only, `"image":"i"`, change, 1))
		r := at.Check(t, kind(), old, object)
		require.Equal(t, allowed, r.Allowed, change)
		if !allowed {
			require.Equal(t, map[string]string{"spec.template": "FieldValueForbidden"}, at.Fields(r))
		}
	}
}

func claims(strategy string, templates ...string) string {
	return fmt.Sprintf(`"volumeClaimUpdateStrategy":{"type":%q},"volumeClaimTemplates":[%s]`, strategy, strings.Join(templates, ","))
}

// claim is a template; class may be empty.
func claim(name, class, size string) string {
	if class != "" {
		class = fmt.Sprintf(`"storageClassName":%q,`, class)
	}
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":%q}}}}`, name, class, size)
}

// limited asks for 1Gi of storage, and for a limit.
func limited(class, limit string) string {
	return strings.Replace(claim("a", class, "1Gi"), `"requests"`, fmt.Sprintf(`"limits":{"storage":%q},"requests"`, limit), 1)
}

func TestClaimTemplates(t *testing.T) {
	const follow, leave = "OnPodRollingUpdate", "OnDelete"
	of := "spec.volumeClaimTemplates"
	expand := func(name string) map[string]string {
		return map[string]string{of + "[" + name + "].spec.resources.requests.storage": "FieldValueForbidden"}
	}
	for name, c := range map[string]struct {
		old, set string
		refused  map[string]string
	}{
		"102 a class that does not expand":        {claims(follow, claim("a", "stiff", "1Gi")), claims(follow, claim("a", "stiff", "2Gi")), expand("a")},
		"102 the same, left alone":                {claims(leave, claim("a", "stiff", "1Gi")), claims(leave, claim("a", "stiff", "2Gi")), nil},
		"102 only the one that expands":           {claims(follow, claim("a", "stiff", "1Gi"), claim("b", "elastic", "1Gi")), claims(follow, claim("a", "stiff", "1Gi"), claim("b", "elastic", "2Gi")), nil},
		"W8 a class that says nothing":            {claims(follow, claim("a", "silent", "1Gi")), claims(follow, claim("a", "silent", "2Gi")), expand("a")},
		"a class that is not there":               {claims(follow, claim("a", "gone", "1Gi")), claims(follow, claim("a", "gone", "2Gi")), invalid(of + "[a].spec.storageClassName")},
		"the newest default class expands":        {claims(follow, claim("a", "", "1Gi")), claims(follow, claim("a", "", "2Gi")), nil},
		"103 shrinking":                           {claims(follow, claim("a", "elastic", "3Gi")), claims(follow, claim("a", "elastic", "1Gi")), nil},
		"103 the same size in other words":        {claims(follow, claim("a", "stiff", "1Gi")), claims(follow, claim("a", "stiff", "1024Mi")), nil},
		"104 one more":                            {claims(follow, claim("a", "elastic", "1Gi")), claims(follow, claim("a", "elastic", "1Gi"), claim("b", "elastic", "1Gi")), map[string]string{of: "FieldValueInvalid", of + "[b].name": "FieldValueForbidden"}},
		"104 one more, left alone":                {claims(leave, claim("a", "elastic", "1Gi")), claims(leave, claim("a", "elastic", "1Gi"), claim("b", "elastic", "1Gi")), nil},
		"one less":                                {claims(follow, claim("a", "elastic", "1Gi"), claim("b", "elastic", "1Gi")), claims(follow, claim("a", "elastic", "1Gi")), invalid(of)},
		"another name":                            {claims(follow, claim("a", "elastic", "1Gi")), claims(follow, claim("b", "elastic", "1Gi")), map[string]string{of + "[b].name": "FieldValueForbidden"}},
		"106 another class as the strategy comes": {claims(leave, claim("a", "elastic", "1Gi")), claims(follow, claim("a", "silent", "1Gi")), invalid(of + "[a]")},
		"W8 another class as the strategy goes":   {claims(follow, claim("a", "elastic", "1Gi")), claims(leave, claim("a", "silent", "1Gi")), nil},
		"other access modes":                      {claims(follow, claim("a", "elastic", "1Gi")), claims(follow, strings.Replace(claim("a", "elastic", "1Gi"), "Once", "Many", 1)), invalid(of + "[a]")},
		"a limit alone":                           {claims(follow, limited("stiff", "5Gi")), claims(follow, limited("stiff", "6Gi")), expand("a")},
		"a limit that comes":                      {claims(follow, claim("a", "stiff", "1Gi")), claims(follow, limited("stiff", "6Gi")), expand("a")},
		"a limit alone, where it expands":         {claims(follow, limited("elastic", "5Gi")), claims(follow, limited("elastic", "6Gi")), nil},
		"the same limit in other words":           {claims(follow, limited("stiff", "1Gi")), claims(follow, limited("stiff", "1024Mi")), nil},
		"labels":                                  {claims(follow, claim("a", "stiff", "1Gi")), claims(follow, strings.Replace(claim("a", "stiff", "1Gi"), `"name":"a"`, `"name":"a","labels":{"x":"y"}`, 1)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := at.Check(t, kind(), with(t, c.old), with(t, c.set))
			require.Equal(t, c.refused == nil, r.Allowed, r.Result)
			if !r.Allowed {
				require.Equal(t, c.refused, at.Fields(r), r.Result.Message)
			}
		})
	}
	// Without a default class nothing is known about a claim that names none.
	none := Kind(nil, all{})
	require.True(t, at.Check(t, none, with(t, claims(follow, claim("a", "", "1Gi"))), with(t, claims(follow, claim("a", "", "2Gi")))).Allowed)
}

func TestDefaultsThatSomebodyLeftOutAreAskedFor(t *testing.T) {
	require.Equal(t, map[string]string{"spec.podManagementPolicy": "FieldValueRequired", "spec.updateStrategy": "FieldValueRequired"}, at.Fields(at.Check(t, kind(), "", minimal)))
	bare := strings.Replace(minimal, `"spec":{"selector"`, `"spec":{"podManagementPolicy":"Parallel","updateStrategy":{"type":"RollingUpdate","rollingUpdate":{}},"selector"`, 1)
	require.Equal(t, map[string]string{"spec.updateStrategy.rollingUpdate.maxUnavailable": "FieldValueRequired", "spec.updateStrategy.rollingUpdate.podUpdatePolicy": "FieldValueRequired"}, at.Fields(at.Check(t, kind(), "", bare)))
}

// Somebody may have stored it past the schema; a label is no reason to be told of it.
func TestAStatusThatCannotBeReadHoldsUpNoChange(t *testing.T) {
	k := kind()
	whole := at.Defaulted(t, k, "", minimal)
	broken := strings.TrimSuffix(whole, "}") + `,"status":{"volumeClaims":"x"}}`
	changed := at.Spec(t, broken, `"replicas":3`)
	require.True(t, at.Check(t, k, broken, changed).Allowed)
	require.Empty(t, at.Mutate(t, k, broken, changed).Patch)
	require.Contains(t, at.Fields(at.Check(t, k, broken, at.Spec(t, broken, `"replicas":"x"`))), "spec.replicas")
}
