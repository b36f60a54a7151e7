package sidecarset

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/admission/admissiontest"
)

func (c *Cluster) Ready() error      { return nil }
func (c *Cluster) Cluster() *Cluster { return c }

var nobodyElse = Kind(&Cluster{}, nil, "flotilla-system")

const (
	logger = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"name":"logger"},"spec":{"selector":{"matchLabels":{"app":"web"}},"containers":[{"name":"agent","image":"agent:1.0"}]}}`
	mesh   = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"name":"mesh"},"spec":{"selector":{"matchLabels":{"app":"web"}},` +
		`"containers":[{"name":"mesh","image":"mesh:1","upgradeStrategy":{"upgradeType":"HotUpgrade","hotUpgradeEmptyImage":"empty:1"}}]}}`
)

// container adds members to the first container.
func container(t *testing.T, object, members string) string {
	t.Helper()
	return admissiontest.With(t, object, `"name":"agent",`, `"name":"agent",`+members+`,`)
}

func parse(t *testing.T, object string) *v1beta1.SidecarSet {
	t.Helper()
	set := &v1beta1.SidecarSet{}
	require.NoError(t, json.Unmarshal([]byte(object), set))
	return set
}

func among(t *testing.T, objects ...string) admission.Kind {
	t.Helper()
	c := &Cluster{}
	for _, o := range objects {
		c.Sets = append(c.Sets, parse(t, o))
	}
	return Kind(c, nil, "flotilla-system")
}

func accepts(t *testing.T, k admission.Kind, old, object string) {
	t.Helper()
	r := admissiontest.Check(t, k, old, object)
	require.True(t, r.Allowed, "%v", admissiontest.Fields(r))
}

// refuses also wants the field to be named.
func refuses(t *testing.T, k admission.Kind, old, object, name string) {
	t.Helper()
	r := admissiontest.Check(t, k, old, object)
	require.False(t, r.Allowed, object)
	require.Equal(t, []string{name}, slices.Sorted(maps.Keys(admissiontest.Fields(r))), r.Result.Message)
}

func TestSidecarSetScenarios1And2TheShortestSet(t *testing.T) {
	forged := admissiontest.With(t, logger, `"metadata":{`, `"metadata":{"annotations":{"kruise.io/sidecarset-hash":"mine","x":"y"},`)
	for _, object := range []string{logger, forged, admissiontest.With(t, logger, "v1beta1", "v1alpha1"), admissiontest.With(t, forged, "v1beta1", "v1alpha1")} {
		set := parse(t, admissiontest.Defaulted(t, nobodyElse, "", object))
		require.Equal(t, v1beta1.RollingUpdateSidecarSetStrategyType, set.Spec.UpdateStrategy.Type)
		require.Equal(t, []string{"0", "1"}, []string{set.Spec.UpdateStrategy.Partition.String(), set.Spec.UpdateStrategy.MaxUnavailable.String()})
		require.EqualValues(t, 10, *set.Spec.RevisionHistoryLimit)
		c := set.Spec.Containers[0]
		require.EqualValues(t, []string{"BeforeAppContainer", "ColdUpgrade", "disabled", "IfNotPresent", "/dev/termination-log", "File"}, []string{
			string(c.PodInjectPolicy), string(c.UpgradeStrategy.UpgradeType), string(c.ShareVolumePolicy.Type), string(c.ImagePullPolicy), c.TerminationMessagePath, string(c.TerminationMessagePolicy),
		})
		require.Nil(t, c.ShareVolumeDevicePolicy)
		require.Equal(t, "fb2wv2dwvd2b2z8zw78w74bbbd7487f77749969w495928zwvvbf4ffw28925z64", set.Annotations[pub.SidecarSetHashKey])
		require.Equal(t, "62258bb8d4vv7w584244bd5df277d4vw9fbf49c99967447fxw5z4f4956b97fz4", set.Annotations[pub.SidecarSetHashWithoutImageKey])
	}
	require.Equal(t, "y", parse(t, admissiontest.Defaulted(t, nobodyElse, "", forged)).Annotations["x"])
	withInit := parse(t, admissiontest.Defaulted(t, nobodyElse, "", admissiontest.Spec(t, logger, `"initContainers":[{"name":"i","image":"i"}]`)))
	require.Equal(t, v1beta1.AfterAppContainerType, withInit.Spec.InitContainers[0].PodInjectPolicy)
}

func TestSidecarSetScenarios3And4WhatTheHashesAreTakenOf(t *testing.T) {
	hashes := func(object string) [2]string {
		a := parse(t, admissiontest.Defaulted(t, nobodyElse, "", object)).Annotations
		return [2]string{a[pub.SidecarSetHashKey], a[pub.SidecarSetHashWithoutImageKey]}
	}
	plain := hashes(logger)
	require.Equal(t, plain, hashes(admissiontest.Spec(t, logger, `"initContainers":[{"name":"setup","image":"setup:1"}]`)))
	image := hashes(admissiontest.With(t, logger, "agent:1.0", "agent:1.1"))
	require.NotEqual(t, plain[0], image[0])
	require.Equal(t, plain[1], image[1])
	const native = `"updateStrategy":{"type":"NotUpdate"},"initContainers":[{"name":"setup","image":"setup:1"},{"name":"native","image":"native:1","restartPolicy":"Always"}]`
	third := hashes(admissiontest.Spec(t, logger, native))
	require.Equal(t, [2]string{"ddw96v466f4fz42fb8f96f7644bdb47x9625df495dwvz474zd5484428x2fcw9b", "v84vd667bcwwb6688544z452fwf6cd7cw957zvx5c57c64c4c485d9z449fcz5fz"}, third)
	require.NotEqual(t, third[1], hashes(admissiontest.Spec(t, logger, strings.Replace(native, `"image":"setup:1"`, `"image":"setup:1","command":["x"]`, 1)))[1])
}

func TestScenarios48And49DefaultsOfASidecarSetAreAddedAndNothingElse(t *testing.T) {
	future := container(t, admissiontest.Spec(t, logger, `"alsoNew":[null],"volumes":[{"name":"v","newSource":{"a":9007199254740993},"emptyDir":{}}]`), `"futureField":{"a":9007199254740993}`)
	for _, object := range []string{future, admissiontest.With(t, future, "v1beta1", "v1alpha1")} {
		admissiontest.AddsOnly(t, nobodyElse, object, "/metadata/annotations")
		// Scenario 12 of SidecarSet: what is not known stays.
		for _, old := range []string{"", strings.Replace(object, "agent:1.0", "agent:2", 1)} {
			out := admissiontest.Defaulted(t, nobodyElse, old, object)
			for _, text := range []string{`"futureField":{"a":9007199254740993}`, `"alsoNew":[null]`, `"newSource":{"a":9007199254740993}`} {
				require.Contains(t, out, text)
			}
		}
	}
}

func TestScenario50DefaultsOfASidecarSetAreAddedOnce(t *testing.T) {
	admissiontest.OnceIsEnough[v1beta1.SidecarSet](t, nobodyElse)
}

func TestScenario52ThreeViolationsOfASidecarSetAreThreeCauses(t *testing.T) {
	bad := container(t, admissiontest.Spec(t, logger, `"updateStrategy":{"partition":-1},"namespaceSelector":{}`), `"podInjectPolicy":"Besides"`)
	r := admissiontest.Check(t, nobodyElse, "", bad)
	require.False(t, r.Allowed)
	require.Equal(t, []string{"spec.containers[0].podInjectPolicy", "spec.namespaceSelector", "spec.updateStrategy.partition"}, slices.Sorted(maps.Keys(admissiontest.Fields(r))))
}

func TestScenario58FieldsOfAnOlderSidecarSetAreItsOwn(t *testing.T) {
	alpha := admissiontest.With(t, logger, "v1beta1", "v1alpha1")
	refuses(t, nobodyElse, "", admissiontest.Spec(t, alpha, `"updateStrategy":{"partition":-1}`), "spec.updateStrategy.partition")
	refuses(t, nobodyElse, "", admissiontest.With(t, alpha, `"metadata":{`, `"metadata":{"labels":{"apps.kruise.io/sidecarset-custom-version":"bad value!"},`), "metadata.labels")
}

func TestScenario59ACarrierOfASidecarSetComesBack(t *testing.T) {
	const carrier = `"annotations":{"apps.kruise.io/sidecarset-v1beta1-fields":"{\"label\":\"x\",\"customVersion\":\"\"}"},`
	put := admissiontest.With(t, logger, "v1beta1", "v1alpha1", `"metadata":{`, `"metadata":{"labels":{"apps.kruise.io/sidecarset-custom-version":"x"},`)
	old := admissiontest.With(t, put, `"metadata":{`, `"metadata":{`+carrier)
	out := parse(t, admissiontest.Defaulted(t, nobodyElse, old, put))
	require.Contains(t, out.Annotations, "apps.kruise.io/sidecarset-v1beta1-fields")
	require.Contains(t, out.Annotations, pub.SidecarSetHashKey)
}

func TestScenario60WhatIsNoSidecarSet(t *testing.T) {
	admissiontest.RefusesOthers(t, nobodyElse, logger)
}

type unread struct{}

func (unread) Ready() error      { return errors.New("SidecarSets have not been read yet") }
func (unread) Cluster() *Cluster { return nil }

func TestScenario18NothingIsDecidedBeforeTheCachesAreThere(t *testing.T) {
	k := Kind(unread{}, nil, "flotilla-system")
	body := []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":{"group":"apps.kruise.io","resource":"sidecarsets"},"object":` + logger + `}}`)
	answer, code, err := k.Check()(t.Context(), body)
	require.ErrorContains(t, err, "not been read")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Nil(t, answer)
}

func TestSidecarSetScenario13(t *testing.T) {
	refuses(t, nobodyElse, "", admissiontest.With(t, logger, `"selector":{"matchLabels":{"app":"web"}},`, ""), "spec.selector")
	refuses(t, nobodyElse, "", admissiontest.With(t, logger, `{"matchLabels":{"app":"web"}}`, "{}"), "spec.selector")
	refuses(t, nobodyElse, "", admissiontest.Spec(t, logger, `"namespaceSelector":{}`), "spec.namespaceSelector")
	refuses(t, nobodyElse, "", admissiontest.With(t, logger, `[{"name":"agent","image":"agent:1.0"}]`, "[]"), "spec")
	refuses(t, nobodyElse, "", admissiontest.With(t, logger, `"logger"`, `"a.b"`), "metadata.name")
	refuses(t, nobodyElse, "", admissiontest.With(t, logger, "logger", strings.Repeat("a", 64)), "metadata.name")
	accepts(t, nobodyElse, "", admissiontest.With(t, logger, "logger", strings.Repeat("a", 63)))
	accepts(t, nobodyElse, "", logger)
}

func TestSidecarSetScenarios14To17TheUpdateStrategy(t *testing.T) {
	const at = "spec.updateStrategy"
	strategy := func(members string) string { return admissiontest.Spec(t, logger, `"updateStrategy":{`+members+`}`) }
	const some = `"selector":{"matchLabels":{"a":"b"}}`
	refuses(t, nobodyElse, "", strategy(some+`,"partition":1`), at)
	refuses(t, nobodyElse, "", strategy(some+`,"partition":"0%"`), at)
	accepts(t, nobodyElse, "", strategy(some+`,"partition":0`))
	refuses(t, nobodyElse, "", strategy(`"selector":{}`), at+".selector")
	for _, name := range []string{"partition", "maxUnavailable"} {
		for _, good := range []string{`0`, `3`, `"0%"`, `"50%"`, `"101%"`} {
			accepts(t, nobodyElse, "", strategy(`"`+name+`":`+good))
		}
		for _, bad := range []string{`-1`, `"abc"`, `"1.5%"`, `"10"`} {
			refuses(t, nobodyElse, "", strategy(`"`+name+`":`+bad), at+"."+name)
			refuses(t, nobodyElse, "", strategy(`"type":"NotUpdate","`+name+`":`+bad), at+"."+name)
		}
	}
	refuses(t, nobodyElse, "", strategy(`"scatterStrategy":[{"key":"k","value":"v"},{"key":"k","value":"v"}]`), at+".scatterStrategy[1]")
	const weight = `{"weight":101,"matchSelector":{"matchLabels":{"a":"b"}}}`
	refuses(t, nobodyElse, "", strategy(`"priorityStrategy":{"weightPriority":[`+weight+`]}`), at+".priorityStrategy.weightPriority[0].weight")
	zero := strings.Replace(weight, "101", "0", 1)
	accepts(t, nobodyElse, "", strategy(`"priorityStrategy":{"weightPriority":[`+zero+`]}`))
	refuses(t, nobodyElse, "", strategy(`"priorityStrategy":{"weightPriority":[`+zero+`],"orderPriority":[{"orderedKey":"k"}]}`), at+".priorityStrategy")
	const native = `"initContainers":[{"name":"native","image":"native:1","restartPolicy":"Always"}],`
	refuses(t, nobodyElse, "", admissiontest.Spec(t, logger, native+`"updateStrategy":{"type":"RollingUpdate"}`), at+".type")
	accepts(t, nobodyElse, "", admissiontest.Spec(t, logger, native+`"updateStrategy":{"type":"NotUpdate"}`))
}

func TestSidecarSetScenarios18And19WhatRunningPodsWouldNeverGet(t *testing.T) {
	two := admissiontest.With(t, logger, `"image":"agent:1.0"}`, `"image":"agent:1.0"},{"name":"b","image":"b"}`)
	refuses(t, nobodyElse, logger, two, "spec.containers[1].name")
	refuses(t, nobodyElse, logger, admissiontest.With(t, logger, "agent", "renamed"), "spec.containers[0].name")
	accepts(t, nobodyElse, two, logger)
	refuses(t, nobodyElse, logger, container(t, logger, `"upgradeStrategy":{"upgradeType":"HotUpgrade","hotUpgradeEmptyImage":"e"}`), "spec.containers[0].upgradeStrategy.upgradeType")
	// With defaults and without them it is the same.
	accepts(t, nobodyElse, logger, admissiontest.Defaulted(t, nobodyElse, "", logger))
}

func TestSidecarSetScenario20ContainersShareOneSpaceOfNames(t *testing.T) {
	refuses(t, nobodyElse, "", admissiontest.Spec(t, logger, `"initContainers":[{"name":"agent","image":"i"}]`), "spec.containers[0].name")
	refuses(t, nobodyElse, "", admissiontest.With(t, mesh, `"containers":[`, `"containers":[{"name":"mesh-2","image":"i"},`), "spec.containers[1].name")
}

func TestSidecarSetScenarios21To24WhoMeetsWhom(t *testing.T) {
	other := admissiontest.With(t, logger, "logger", "other")
	selector := func(s string) string { return admissiontest.With(t, other, `{"matchLabels":{"app":"web"}}`, s) }
	const at = "spec.containers[0].name"
	refuses(t, among(t, logger), "", other, at)
	accepts(t, among(t, logger), "", selector(`{"matchLabels":{"app":"db"}}`))
	refuses(t, among(t, logger), "", selector(`{"matchLabels":{"tier":"x"}}`), at)
	in := func(object, value string) string {
		return admissiontest.Spec(t, object, `"namespaceSelector":{"matchLabels":{"a":"`+value+`"}}`)
	}
	accepts(t, among(t, in(logger, "1")), "", in(other, "2"))
	refuses(t, among(t, in(logger, "1")), "", in(other, "1"), at)
	refuses(t, among(t, in(logger, "1")), "", other, at)
	refuses(t, among(t, logger), "", selector(`{"matchExpressions":[{"key":"tier","operator":"Exists"}]}`), at)
	accepts(t, among(t, other), "", other)

	refuses(t, among(t, mesh), "", admissiontest.With(t, other, `"agent"`, `"mesh-1"`), at)
	refuses(t, among(t, mesh), "", admissiontest.With(t, other, `"agent"`, `"mesh"`), at)
	refuses(t, among(t, logger), "", admissiontest.With(t, admissiontest.Spec(t, other, `"initContainers":[{"name":"agent","image":"i"}]`), `"name":"agent","image":"agent:1.0"`, `"name":"o","image":"o"`), "spec.initContainers[0].name")

	volume := func(object, source string) string {
		return admissiontest.Spec(t, object, `"volumes":[{"name":"logs"`+source+`}]`)
	}
	mine := func(source string) string { return admissiontest.With(t, volume(other, source), `"agent"`, `"o"`) }
	accepts(t, among(t, volume(logger, "")), "", mine(`,"emptyDir":{}`))
	refuses(t, among(t, volume(logger, "")), "", mine(`,"hostPath":{"path":"/"}`), "spec.volumes[0]")
	// What was stored already does not block the change of something else.
	labelled := admissiontest.With(t, other, `"name":"other"`, `"name":"other","labels":{"x":"y"}`)
	accepts(t, among(t, logger), other, labelled)
}

func permitting(t *testing.T, list string) admission.Kind {
	t.Helper()
	return Kind(&Cluster{WhiteList: ptr.To(list)}, nil, "flotilla-system")
}

func TestSidecarSetScenarios25And27PermissionToPatch(t *testing.T) {
	const at = "spec.patchPodMetadata"
	patching := admissiontest.Spec(t, logger, `"patchPodMetadata":[{"annotations":{"oom-score":"{\"agent\":1}"},"patchPolicy":"MergePatchJson"}]`)
	refuses(t, nobodyElse, "", patching, at)
	const rule = `{"rules":[{"selector":{"matchLabels":{"sidecar":"x"}},"allowedAnnotationKeyExprs":["^oom-score$"]}],"unknown":1}`
	everybody := admissiontest.With(t, rule, `"selector":{"matchLabels":{"sidecar":"x"}},`, "")
	accepts(t, permitting(t, everybody), "", patching)
	refuses(t, permitting(t, rule), "", patching, at)
	accepts(t, permitting(t, rule), "", admissiontest.With(t, patching, `"metadata":{`, `"metadata":{"labels":{"sidecar":"x"},`))
	refuses(t, permitting(t, admissiontest.With(t, everybody, "allowedAnnotationKeyExprs", "allowedAnnotationKeys")), "", patching, at)
	refuses(t, permitting(t, "{"), "", patching, at)
	refuses(t, permitting(t, admissiontest.With(t, everybody, "^oom-score$", "(")), "", patching, at)
	refuses(t, permitting(t, everybody), "", admissiontest.With(t, patching, "oom-score", "other"), at)
	accepts(t, Kind(&Cluster{PatchAllowed: true}, nil, ""), "", patching)
	refuses(t, Kind(&Cluster{PatchAllowed: true, WhiteList: ptr.To(everybody)}, nil, ""), "", admissiontest.With(t, patching, "oom-score", "other"), at)
	// A permission that was taken away is asked for again.
	refuses(t, nobodyElse, patching, admissiontest.With(t, patching, "agent:1.0", "agent:2"), at)

	all := permitting(t, `{"rules":[{"allowedAnnotationKeyExprs":[".*"]}]}`)
	for _, key := range []string{"kruise.io/sidecarset-hash", "version.sidecarset.kruise.io/agent", "apps.kruise.io/sidecarset-evaluated"} {
		refuses(t, all, "", admissiontest.Spec(t, logger, `"patchPodMetadata":[{"annotations":{"`+key+`":"v"}}]`), "spec.patchPodMetadata[0].annotations["+key+"]")
	}
	refuses(t, all, "", admissiontest.Spec(t, logger, `"patchPodMetadata":[{"annotations":{}}]`), "spec.patchPodMetadata[0].annotations")
	refuses(t, all, "", admissiontest.Spec(t, logger, `"patchPodMetadata":[{"annotations":{"a b":"v"}}]`), "spec.patchPodMetadata[0].annotations")
	refuses(t, all, "", admissiontest.With(t, patching, `"{\"agent\":1}"`, `"[1]"`), "spec.patchPodMetadata[0].annotations[oom-score]")
}

func TestSidecarSetScenario26WhoPatchesAnAnnotation(t *testing.T) {
	patching := func(object, policy string) string {
		return admissiontest.Spec(t, object, `"patchPodMetadata":[{"annotations":{"k":"{}"},"patchPolicy":"`+policy+`"}]`)
	}
	other := admissiontest.With(t, logger, "logger", "other", `"agent"`, `"o"`)
	for _, c := range []struct {
		theirs, mine string
		allowed      bool
	}{
		{"Overwrite", "Overwrite", false}, {"Overwrite", "MergePatchJson", false}, {"MergePatchJson", "Overwrite", false},
		{"MergePatchJson", "MergePatchJson", true}, {"Retain", "Overwrite", true}, {"MergePatchJson", "Retain", true}, {"Retain", "Retain", true},
	} {
		k := Kind(&Cluster{PatchAllowed: true, Sets: []*v1beta1.SidecarSet{parse(t, patching(logger, c.theirs))}}, nil, "")
		if c.allowed {
			accepts(t, k, "", patching(other, c.mine))
		} else {
			refuses(t, k, "", patching(other, c.mine), "spec.patchPodMetadata")
		}
	}
	refuses(t, Kind(&Cluster{PatchAllowed: true}, nil, ""), "", admissiontest.Spec(t, logger, `"patchPodMetadata":[{"annotations":{"k":"1"}},{"annotations":{"k":"2"}}]`), "spec.patchPodMetadata")
}

func canary(t *testing.T, name, base string) string {
	t.Helper()
	return admissiontest.With(t, admissiontest.Spec(t, logger, `"updateStrategy":{"type":"NotUpdate"}`), `"name":"logger"`,
		`"name":"`+name+`","annotations":{"apps.kruise.io/sidecarset-canary":"true","apps.kruise.io/sidecarset-base":"`+base+`"}`)
}

func TestSidecarSetScenarios28And29Canaries(t *testing.T) {
	const at = "metadata.annotations"
	first := canary(t, "first", "logger")
	accepts(t, among(t, logger), "", first)
	refuses(t, nobodyElse, "", first, at)
	refuses(t, among(t, first), "", canary(t, "first", "first"), at)
	refuses(t, among(t, logger, first), "", canary(t, "second", "first"), at)
	refuses(t, among(t, logger), "", admissiontest.With(t, first, "NotUpdate", "RollingUpdate"), at)
	refuses(t, among(t, logger, admissiontest.With(t, logger, "logger", "third")), first, canary(t, "first", "third"), at)
	refuses(t, among(t, logger, admissiontest.With(t, logger, "logger", "plain")), admissiontest.With(t, logger, "logger", "plain"), canary(t, "plain", "logger"), at)
	refuses(t, among(t, logger, first), "", canary(t, "second", "logger"), "spec.containers[0].name")
	// A base and its canary never meet, whoever comes first.
	accepts(t, among(t, first), "", logger)
	accepts(t, among(t, logger, first), logger, admissiontest.With(t, logger, "agent:1.0", "agent:1.1"))
}

// TestScenario89OfOurOwnNamespaceASidecarSetIsNotWarned: its Pods are in others.
func TestScenario89OfOurOwnNamespaceASidecarSetIsNotWarned(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Warning", `299 - "would violate PodSecurity \"restricted:latest\": runAsNonRoot != true"`)
		w.Header().Add("Warning", `299 - "template.spec.containers[0]: is old"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"kind":"PodTemplate","apiVersion":"v1"}`)
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	require.NoError(t, err)
	k := Kind(&Cluster{}, admission.NewTemplates(client), "flotilla-system")
	for old, object := range map[string]string{"": logger, logger: admissiontest.With(t, logger, "agent:1.0", "agent:1.1")} {
		require.Equal(t, []string{"spec.containers[0]: is old"}, admissiontest.Check(t, k, old, object).Warnings)
	}
}

// apart is a set for Pods that no other one here is for.
func apart(t *testing.T, object string) string {
	t.Helper()
	return admissiontest.With(t, object, `{"app":"web"}`, `{"app":"other"}`)
}

// TestSidecarSetScenario28OnlyCreationMakesACanary: neither in one update nor in several does a set become one that it was not.
func TestSidecarSetScenario28OnlyCreationMakesACanary(t *testing.T) {
	const at, isCanary = "metadata.annotations", `"apps.kruise.io/sidecarset-canary":"true",`
	other, plain := apart(t, canary(t, "plain", "logger")), apart(t, admissiontest.With(t, logger, "logger", "plain"))
	k := among(t, logger, plain)
	for name, half := range map[string]string{
		"only a base":    admissiontest.With(t, other, isCanary, ""),
		"another value":  admissiontest.With(t, other, `"true"`, `"True"`),
		"without a base": admissiontest.With(t, other, `,"apps.kruise.io/sidecarset-base":"logger"`, ""),
		"an empty base":  admissiontest.With(t, other, `"apps.kruise.io/sidecarset-base":"logger"`, `"apps.kruise.io/sidecarset-base":""`),
	} {
		t.Run(name, func(t *testing.T) {
			accepts(t, k, plain, half)
			refuses(t, k, half, other, at)
			accepts(t, k, other, half)
		})
	}
	accepts(t, k, other, admissiontest.With(t, other, "agent:1.0", "agent:1.1"))
}

// TestSidecarSetScenario28TheBaseOfACanaryIsNone: it may have been deleted and be made anew.
func TestSidecarSetScenario28TheBaseOfACanaryIsNone(t *testing.T) {
	const at = "metadata.annotations"
	upper, lower := canary(t, "middle", "logger"), apart(t, canary(t, "lower", "middle"))
	refuses(t, among(t, logger, lower), "", upper, at)
	// Where there are three already, the one in the middle can still be changed in other ways.
	all := among(t, logger, upper, lower)
	accepts(t, all, upper, admissiontest.With(t, upper, "agent:1.0", "agent:1.1", `"annotations":{`, `"annotations":{"x":"y",`))
	accepts(t, all, upper, admissiontest.With(t, upper, `"apps.kruise.io/sidecarset-canary":"true",`, "", `{"app":"web"}`, `{"app":"third"}`))
}

func TestSidecarSetScenarios30And31ResourcesThatAreComputed(t *testing.T) {
	const at = "spec.containers[0].resourcesPolicy"
	policy := func(regex, expressions string) string {
		return container(t, logger, `"resourcesPolicy":{"targetContainersMode":"sum","targetContainersNameRegex":"`+regex+`","resourcesExpr":{`+expressions+`}}`)
	}
	limits := func(resource, text string) string {
		return policy(".*", `"limits":{"`+resource+`":"`+text+`"}`)
	}
	refuses(t, nobodyElse, "", admissiontest.With(t, limits("cpu", "cpu"), `"image"`, `"resources":{"limits":{"cpu":"1"}},"image"`), at)
	onInit := `"resourcesPolicy":{"targetContainersMode":"sum","targetContainersNameRegex":".*","resourcesExpr":{"limits":{"cpu":"cpu"}}}`
	refuses(t, nobodyElse, "", admissiontest.Spec(t, logger, `"initContainers":[{"name":"i","image":"i",`+onInit+`}]`), "spec.initContainers[0].resourcesPolicy")
	accepts(t, nobodyElse, "", admissiontest.Spec(t, logger, `"updateStrategy":{"type":"NotUpdate"},"initContainers":[{"name":"i","image":"i","restartPolicy":"Always",`+onInit+`}]`))
	refuses(t, nobodyElse, "", policy("", `"limits":{}`), at+".targetContainersNameRegex")
	refuses(t, nobodyElse, "", policy("[invalid(regex", `"limits":{}`), at+".targetContainersNameRegex")
	refuses(t, nobodyElse, "", policy(".*", ""), at+".resourcesExpr")
	for _, text := range []string{"max(cpu*50%)", "max(cpu*50%, 50m", "invalidvar * 50%", "1K", "cpu*cpu", "1/cpu"} {
		refuses(t, nobodyElse, "", limits("cpu", text), at+".resourcesExpr.limits.cpu")
	}
	for _, text := range []string{"cpu", "100MB"} {
		refuses(t, nobodyElse, "", policy(".*", `"requests":{"memory":"`+text+`"}`), at+".resourcesExpr.requests.memory")
	}
	for _, text := range []string{"max(cpu*50%, 50m)", "0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)", "cpu-2"} {
		accepts(t, nobodyElse, "", limits("cpu", text))
	}
	accepts(t, nobodyElse, "", limits("memory", "100Mi"))
	accepts(t, nobodyElse, "", limits("memory", "memory-100Mi"))
}

func revision(name, set, version string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{pub.SidecarSetNameKey: set, pub.SidecarSetCustomVersionKey: version}}}
}

func TestSidecarSetScenarios32To34PinnedRevisions(t *testing.T) {
	const at = "spec.injectionStrategy.revision"
	pin := func(members string) string {
		return admissiontest.Spec(t, logger, `"injectionStrategy":{"revision":{`+members+`}}`)
	}
	k := Kind(&Cluster{Revisions: []*appsv1.ControllerRevision{revision("logger-1", "logger", "v1"), revision("other-1", "other", "v2")}}, nil, "")
	refuses(t, k, "", pin(`"policy":"Partial"`), at)
	refuses(t, k, "", pin(`"revisionName":"logger-2"`), at)
	refuses(t, k, "", pin(`"customVersion":"v3"`), at)
	accepts(t, k, "", pin(`"revisionName":"logger-1"`))
	accepts(t, k, "", pin(`"customVersion":"v1"`))
	refuses(t, k, "", pin(`"revisionName":"other-1"`), at)
	refuses(t, k, "", pin(`"customVersion":"v2"`), at)
	refuses(t, k, "", pin(`"customVersion":"v1","policy":"Sometimes"`), at+".policy")

	pinned := pin(`"revisionName":"gone"`)
	accepts(t, k, pinned, admissiontest.With(t, pinned, `"name":"logger"`, `"name":"logger","labels":{"x":"y"}`))
	refuses(t, k, pinned, pin(`"revisionName":"gone-too"`), at)
	paused := admissiontest.With(t, pinned, `"injectionStrategy":{`, `"injectionStrategy":{"paused":true,`)
	accepts(t, k, pinned, paused)
	refuses(t, k, paused, pinned, at)
}

func TestSidecarSetScenario35WhereVariablesComeFrom(t *testing.T) {
	transfer := func(members string) string { return container(t, logger, `"transferEnv":[{`+members+`}]`) }
	const at = "spec.containers[0].transferEnv[0]"
	from := func(path string) string {
		return transfer(`"envName":"E","sourceContainerNameFrom":{"fieldRef":{"fieldPath":"` + path + `"}}`)
	}
	refuses(t, nobodyElse, "", transfer(`"envName":"E","sourceContainerNameFrom":{}`), at+".sourceContainerNameFrom.fieldRef")
	refuses(t, nobodyElse, "", from("metadata.name"), at+".sourceContainerNameFrom.fieldRef")
	refuses(t, nobodyElse, "", from("metadata.labels['a b']"), at+".sourceContainerNameFrom.fieldRef")
	accepts(t, nobodyElse, "", from("metadata.labels['app']"))
	accepts(t, nobodyElse, "", from("metadata.annotations['Example.com/app']"))
	refuses(t, nobodyElse, "", transfer(`"envName":"E"`), at)
	refuses(t, nobodyElse, "", transfer(`"sourceContainerName":"main"`), at)
	accepts(t, nobodyElse, "", transfer(`"sourceContainerName":"main","envNames":["A","B"]`))
	refuses(t, nobodyElse, "", admissiontest.Spec(t, logger, `"initContainers":[{"name":"i","image":"i","transferEnv":[{"envName":"E"}]}]`), "spec.initContainers[0].transferEnv[0]")
}

func TestSidecarSetScenario36HolesThatAreClosed(t *testing.T) {
	refuses(t, nobodyElse, "", admissiontest.Spec(t, logger, `"customVersion":"bad value!"`), "spec.customVersion")
	refuses(t, nobodyElse, "", admissiontest.With(t, mesh, `,"hotUpgradeEmptyImage":"empty:1"`, ""), "spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage")
	refuses(t, nobodyElse, "", admissiontest.With(t, mesh, "empty:1", "mesh:1"), "spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage")
	foo := container(t, logger, `"upgradeStrategy":{"upgradeType":"Foo"}`)
	refuses(t, nobodyElse, "", foo, "spec.containers[0].upgradeStrategy.upgradeType")
	accepts(t, nobodyElse, foo, admissiontest.With(t, foo, "agent:1.0", "agent:2"))
	refuses(t, nobodyElse, "", admissiontest.Spec(t, logger, `"updateStrategy":{"type":"Foo"}`), "spec.updateStrategy.type")
	refuses(t, Kind(&Cluster{PatchAllowed: true}, nil, ""), "", admissiontest.Spec(t, logger, `"patchPodMetadata":[{"annotations":{"a":"b"},"patchPolicy":"Foo"}]`), "spec.patchPodMetadata[0].patchPolicy")
	refuses(t, nobodyElse, "", admissiontest.With(t, mesh, `"image":"mesh:1"`, `"image":"mesh:1","ports":[{"containerPort":1,"hostPort":1}]`), "spec.containers[0].ports[0].hostPort")
	refuses(t, nobodyElse, "", admissiontest.With(t, mesh, `"name":"mesh","image"`, `"name":"`+strings.Repeat("m", 62)+`","image"`), "spec.containers[0].name")
	refuses(t, nobodyElse, "", admissiontest.Spec(t, logger, `"revisionHistoryLimit":-1`), "spec.revisionHistoryLimit")
	refuses(t, nobodyElse, "", container(t, logger, `"shareVolumePolicy":{"type":"on"}`), "spec.containers[0].shareVolumePolicy")
	refuses(t, nobodyElse, "", container(t, logger, `"shareVolumeDevicePolicy":{"type":"on"}`), "spec.containers[0].shareVolumeDevicePolicy.type")
	refuses(t, nobodyElse, "", admissiontest.Spec(t, logger, `"initContainers":[{"name":"i","image":"i","upgradeStrategy":{"upgradeType":"HotUpgrade","hotUpgradeEmptyImage":"e"}}]`), "spec.initContainers[0].upgradeStrategy.upgradeType")
	inits := func(members string) string {
		return admissiontest.Spec(t, logger, `"initContainers":[{"name":"i","image":"i",`+members+`}]`)
	}
	refuses(t, nobodyElse, "", inits(`"podInjectPolicy":"Besides"`), "spec.initContainers[0].podInjectPolicy")
	refuses(t, nobodyElse, "", inits(`"shareVolumePolicy":{"type":"on"}`), "spec.initContainers[0].shareVolumePolicy.type")
	accepts(t, nobodyElse, "", mesh)
}

func TestWhatTheAPIServerIsAskedAboutASidecarSet(t *testing.T) {
	ask := func(object string) string {
		tree, err := conversion.Decode([]byte(object))
		require.NoError(t, err)
		raw, err := conversion.Encode(asWritten(tree))
		require.NoError(t, err)
		after, err := conversion.Encode(tree)
		require.NoError(t, err)
		require.JSONEq(t, object, string(after), "the object is not changed")
		return string(raw)
	}
	full := container(t, admissiontest.Spec(t, logger, `"volumes":[{"name":"v"}],"initContainers":[{"name":"i","image":"i","podInjectPolicy":"AfterAppContainer"}]`),
		`"futureField":{"a":9007199254740993},"upgradeStrategy":{},"transferEnv":[],"resourcesPolicy":{},"shareVolumePolicy":{},"shareVolumeDevicePolicy":{}`)
	require.JSONEq(t, `{"spec":{"restartPolicy":"Always","dnsPolicy":"ClusterFirst","serviceAccountName":"default","volumes":[{"name":"v"}],
		"initContainers":[{"name":"i","image":"i"}],"containers":[{"name":"agent","image":"agent:1.0","futureField":{"a":9007199254740993}}]}}`, ask(full))
	initOnly := admissiontest.With(t, logger, `"containers":[{"name":"agent"`, `"initContainers":[{"name":"application"`)
	require.Contains(t, ask(initOnly), `"containers":[{"image":"applicationx","name":"applicationx"}]`)
}

func FuzzAdmission(f *testing.F) {
	admissiontest.Fuzz(f, nobodyElse, logger, mesh)
}

func TestSetsThatCannotBeComparedWithAreNamed(t *testing.T) {
	k := Kind(&Cluster{Unknown: []string{"broken", "logger"}}, nil, "")
	r := admissiontest.Check(t, k, "", logger)
	require.True(t, r.Allowed, r.Result)
	require.Equal(t, []string{"spec.containers: not compared with SidecarSet broken, which cannot be read"}, r.Warnings)
}

// TestNothingIsStoredThatV1alpha1CouldNotBeReadWith: one such object fails every list of that version.
func TestNothingIsStoredThatV1alpha1CouldNotBeReadWith(t *testing.T) {
	inOne := admissiontest.Spec(t, logger, `"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"n1"}}`)
	for carrier, problem := range map[string]string{
		`{\"namespace\":\"n1\"}`:                                               "",
		`{\"namespace\":\"n1\",\"namespaceSelector\":\"all\"}`:                 "v1alpha1 could not be read with that",
		`{\"restore\":{\"/spec/namespace\":{\"to\":7}}}`:                       "says of the object what v1beta1 does not",
		`{\"restore\":{\"/spec/updateStrategy/type\":{\"to\":\"NotUpdate\"}}}`: "must be as written by the conversion",
	} {
		carrying := admissiontest.With(t, inOne, `"metadata":{`, `"metadata":{"annotations":{"apps.kruise.io/sidecarset-v1alpha1-fields":"`+carrier+`"},`)
		r := admissiontest.Check(t, nobodyElse, "", carrying)
		require.Equal(t, problem == "", r.Allowed, "%s: %v", carrier, r.Result)
		if problem != "" {
			require.Equal(t, map[string]string{"metadata.annotations": "FieldValueInvalid"}, admissiontest.Fields(r))
			require.Contains(t, r.Result.Message, problem)
		}
	}
}
