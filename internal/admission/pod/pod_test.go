package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// cluster is a source. It selects Pods with label app=web.
type cluster struct {
	notReady, unknown error
	// asked is the namespace that was asked about last.
	asked string
}

func (c *cluster) Ready() error { return c.notReady }

func (c *cluster) Selecting(_ context.Context, namespace string, labels map[string]string) ([]*v1beta1.SidecarSet, error) {
	c.asked = namespace
	if labels["app"] != "web" {
		return nil, nil
	}
	return []*v1beta1.SidecarSet{{}}, c.unknown
}

// hook counts results.
type hook struct {
	*testing.T
	cluster
	results map[string]int
}

func newHook(t *testing.T) *hook { return &hook{T: t, results: map[string]int{}} }

// send sends a review of the object, in which texts are replaced.
func (h *hook) send(object string, replacements ...string) ([]byte, int, error) {
	h.Helper()
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},"namespace":"ns","operation":"CREATE","object":` + object + `}}`
	for i := 0; i < len(replacements); i += 2 {
		require.Contains(h, body, replacements[i])
		body = strings.Replace(body, replacements[i], replacements[i+1], 1)
	}
	return Mutate(&h.cluster, func(result string) { h.results[result]++ })(h.Context(), []byte(body))
}

// ask is send, of what is allowed.
func (h *hook) ask(object string, replacements ...string) *admissionv1.AdmissionResponse {
	h.Helper()
	raw, code, err := h.send(object, replacements...)
	require.NoError(h, err)
	require.Equal(h, http.StatusOK, code)
	var out admissionv1.AdmissionReview
	require.NoError(h, json.Unmarshal(raw, &out))
	require.EqualValues(h, "u", out.Response.UID)
	require.True(h, out.Response.Allowed)
	require.Equal(h, out.Response.Patch == nil, out.Response.PatchType == nil)
	return out.Response
}

const owned = `"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"1"},{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","name":"web","uid":"2","controller":true}]`

func pod(metadata, spec string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{` + metadata + `},"spec":{"containers":[{"name":"main"}]` + spec + `},"status":{}}`
}

func TestScenario071_WhatNoSetSelectsIsLeftAsItIs(t *testing.T) {
	h := newHook(t)
	require.Nil(t, h.ask(pod(`"labels":{"app":"other"}`, "")).Patch)
	require.Nil(t, h.ask(pod("", "")).Patch)
	require.Equal(t, map[string]int{"unselected": 2}, h.results)
}

// TestWhatIsSelectedBearsNoMark: the guard would let it pass.
func TestWhatIsSelectedBearsNoMark(t *testing.T) {
	h := newHook(t)
	require.Nil(t, h.ask(pod(`"labels":{"app":"web"}`, "")).Patch)
	require.Empty(t, h.results, "the injection says what becomes of it")
	require.NotContains(t, string(h.ask(pod(`"labels":{"app":"web"},`+owned, "")).Patch), "annotations")
}

// TestScenario074_TheGateIsAddedWhereItIsMissing is about Pods that an older release of a controller makes.
func TestScenario074_TheGateIsAddedWhereItIsMissing(t *testing.T) {
	const ours, others = `{"conditionType":"KruisePodReady"}`, `{"conditionType":"InPlaceUpdateReady"}`
	for name, c := range map[string]struct{ metadata, spec, patch string }{
		"without any gate":           {owned, "", `[{"op":"add","path":"/spec/readinessGates","value":[` + ours + `]}]`},
		"with none in its list":      {owned, `,"readinessGates":[]`, `[{"op":"add","path":"/spec/readinessGates","value":[` + ours + `]}]`},
		"with others":                {owned, `,"readinessGates":[` + others + `]`, `[{"op":"add","path":"/spec/readinessGates/1","value":` + ours + `}]`},
		"with it":                    {owned, `,"readinessGates":[` + others + `,` + ours + `]`, ""},
		"in the older version":       {strings.Replace(owned, "v1beta1", "v1alpha1", 1), "", `[{"op":"add","path":"/spec/readinessGates","value":[` + ours + `]}]`},
		"owned and not controlled":   {strings.Replace(owned, `"controller":true`, `"controller":false`, 1), "", ""},
		"controlled by somebody":     {strings.Replace(owned, "apps.kruise.io/", "apps/", 1), "", ""},
		"of a group that looks so":   {strings.Replace(owned, "apps.kruise.io/", "apps.kruise.io.example/", 1), "", ""},
		"of nobody":                  {"", "", ""},
		"selected by a SidecarSet":   {owned + `,"labels":{"app":"web"}`, "", `[{"op":"add","path":"/spec/readinessGates","value":[` + ours + `]}]`},
		"with a name that is quoted": {strings.Replace(owned, `"name":"web"`, `"name":"\"}],[{"`, 1), "", `[{"op":"add","path":"/spec/readinessGates","value":[` + ours + `]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			object := pod(c.metadata, c.spec)
			h := newHook(t)
			got := h.ask(object).Patch
			require.Equal(t, c.patch, string(got))
			if got == nil {
				return
			}
			p, err := jsonpatch.DecodePatch(got)
			require.NoError(t, err)
			patched, err := p.Apply([]byte(object))
			require.NoError(t, err)
			require.Nil(t, h.ask(string(patched)).Patch, "once is enough")
			var typed corev1.Pod
			require.NoError(t, json.Unmarshal(patched, &typed))
			require.EqualValues(t, "KruisePodReady", typed.Spec.ReadinessGates[len(typed.Spec.ReadinessGates)-1].ConditionType)
		})
	}
}

func TestPodsThatAreLeftAlone(t *testing.T) {
	for name, object := range map[string]string{
		"a mirror of a static Pod": pod(owned+`,"annotations":{"kubernetes.io/config.mirror":"x"}`, ""),
		"a terminating one":        pod(owned+`,"deletionTimestamp":"2030-01-01T00:00:00Z"`, ""),
		"a finished one":           strings.Replace(pod(owned, ""), `"status":{}`, `"status":{"phase":"Succeeded"}`, 1),
		"a failed one":             strings.Replace(pod(owned, ""), `"status":{}`, `"status":{"phase":"Failed"}`, 1),
	} {
		h := newHook(t)
		h.notReady = errors.New("nothing is known yet")
		require.Nil(t, h.ask(object).Patch, name)
		require.Empty(t, h.results, name)
	}
	h := newHook(t)
	require.Nil(t, h.ask(pod(owned, ""), `"operation":"CREATE"`, `"operation":"UPDATE"`).Patch)
	require.Nil(t, h.ask(pod(owned, ""), `"operation":"CREATE"`, `"operation":"CREATE","subResource":"eviction"`).Patch)
	require.NotNil(t, h.ask(pod(owned+`,"deletionTimestamp":null,"annotations":null,"labels":null`, "")).Patch)
}

func TestTheNamespaceIsThatOfTheRequestUnlessThePodNamesOne(t *testing.T) {
	h := newHook(t)
	h.ask(pod("", ""))
	require.Equal(t, "ns", h.asked)
	h.ask(pod(`"namespace":"own"`, ""))
	require.Equal(t, "own", h.asked)
	h.ask(pod("", ""), `"namespace":"ns",`, "")
	require.Equal(t, "default", h.asked)
}

// TestScenario018_WhatCannotBeDecidedIsNoRefusal: the policy of the hook says what happens then.
func TestScenario018_WhatCannotBeDecidedIsNoRefusal(t *testing.T) {
	h := newHook(t)
	h.notReady = errors.New("SidecarSets have not been read yet")
	_, code, err := h.send(pod("", ""))
	require.ErrorContains(t, err, "have not been read")
	require.Equal(t, http.StatusServiceUnavailable, code)
	h.notReady, h.unknown = nil, errors.New("the namespace cannot be read")
	_, code, err = h.send(pod(`"labels":{"app":"web"}`, ""))
	require.ErrorContains(t, err, "cannot be read")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, map[string]int{"error": 2}, h.results)
}

func TestScenario060_WhatIsNoReviewOfAPod(t *testing.T) {
	good := pod("", "")
	for name, replacement := range map[string][2]string{
		"another resource":          {`"resource":"pods"`, `"resource":"nodes"`},
		"another group":             {`"resource":{"group":""`, `"resource":{"group":"apps"`},
		"another version":           {`"version":"v1","resource"`, `"version":"v2","resource"`},
		"another kind":              {`"version":"v1","kind":"Pod"`, `"version":"v1","kind":"Node"`},
		"another version of review": {`admission.k8s.io/v1`, `admission.k8s.io/v1alpha1`},
		"another kind of review":    {`"AdmissionReview"`, `"ConversionReview"`},
		"no uid":                    {`"uid":"u",`, ""},
		"a uid that is no text":     {`"uid":"u"`, `"uid":5`},
		"no request":                {`"request":`, `"requests":`},
		"no object":                 {`"object":`, `"subject":`},
		"an object of another kind": {`"kind":"Pod","metadata"`, `"kind":"Node","metadata"`},
		"labels that are no text":   {`"metadata":{`, `"metadata":{"labels":{"app":5}`},
		"no JSON":                   {`"request":{`, `"request":[`},
	} {
		h := newHook(t)
		_, code, err := h.send(good, replacement[0], replacement[1])
		require.Error(t, err, name)
		require.Equal(t, http.StatusBadRequest, code, name)
		require.Empty(t, h.results, name)
	}
}

func TestAnOlderFormOfReviewIsAnsweredAlike(t *testing.T) {
	raw, code, err := newHook(t).send(pod(owned, ""), "admission.k8s.io/v1", "admission.k8s.io/v1beta1")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, string(raw), `"apiVersion":"admission.k8s.io/v1beta1"`)
}

func FuzzPod(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","resource":{"version":"v1","resource":"pods"},"object":%s}}`,
		pod(owned+`,"labels":{"app":"web"}`, `,"readinessGates":[{"conditionType":"x"}]`))))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, code, err := Mutate(&cluster{}, func(string) {})(t.Context(), body); code >= http.StatusInternalServerError {
			t.Fatalf("%d: %v", code, err)
		}
	})
}
