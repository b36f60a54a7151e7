package admission_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/admission/admissiontest"
	"github.com/flotilla-k8s/flotilla/internal/admission/advancedcronjob"
	"github.com/flotilla-k8s/flotilla/internal/admission/broadcastjob"
	"github.com/flotilla-k8s/flotilla/internal/admission/cloneset"
	"github.com/flotilla-k8s/flotilla/internal/admission/sidecarset"
	"github.com/flotilla-k8s/flotilla/internal/admission/statefulset"
	"github.com/flotilla-k8s/flotilla/internal/admission/uniteddeployment"
)

// empty is a cluster with nothing in it.
type empty struct{}

func (empty) List() []*storagev1.StorageClass { return nil }
func (empty) Synced() error                   { return nil }
func (empty) Ready() error                    { return nil }
func (empty) Cluster() *sidecarset.Cluster    { return &sidecarset.Cluster{} }

func kinds() map[string]admission.Kind {
	out := map[string]admission.Kind{}
	for _, k := range []admission.Kind{
		cloneset.Kind(nil), statefulset.Kind(nil, empty{}), broadcastjob.Kind(nil), sidecarset.Kind(empty{}, nil, "n"), uniteddeployment.Kind(nil),
		advancedcronjob.Kind(nil, clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))),
	} {
		out[k.Kind] = k
	}
	return out
}

// review is about an object that is created, or updated to what it is.
func review(k admission.Kind, operation, version, spec string) []byte {
	object := fmt.Sprintf(`{"apiVersion":"apps.kruise.io/%s","kind":%q,"metadata":{"name":"web"},"spec":%s}`, version, k.Kind, spec)
	old := "null"
	if operation == "UPDATE" {
		old = object
	}
	return fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","resource":{"group":"apps.kruise.io","version":%q,"resource":%q},`+
		`"name":"web","namespace":"d","operation":%q,"object":%s,"oldObject":%s}}`, version, k.Resource, operation, object, old)
}

// allocated is what a function allocates in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// hostile are specs with n times what is next to nothing when it is written, and much when it is read.
func hostile() map[string]func(n int) (kind, spec string) {
	const selector = `"selector":{"matchLabels":{"a":"b"}}`
	list := func(element string, n int) string { return "[" + strings.Repeat(element+",", n-1) + element + "]" }
	pods := func(spec string) string { return `{"metadata":{"labels":{"a":"b"}},"spec":` + spec + `}` }
	in := func(kind, before, element, after string) func(int) (string, string) {
		return func(n int) (string, string) { return kind, before + list(element, n) + after }
	}
	ofPod := func(before, element, after string) func(int) (string, string) {
		return in("CloneSet", `{`+selector+`,"template":{"metadata":{"labels":{"a":"b"}},"spec":`+before, element, after+`}}`)
	}
	return map[string]func(int) (string, string){
		"containers":               ofPod(`{"containers":`, `{}`, `}`),
		"containers with a name":   ofPod(`{"containers":`, `{"name":"a"}`, `}`),
		"containers that are null": ofPod(`{"containers":`, `null`, `}`),
		"containers in two lists": func(n int) (string, string) {
			return "StatefulSet", `{` + selector + `,"template":` + pods(`{"containers":`+list(`{}`, n)+`,"initContainers":`+list(`{}`, n)+`}`) + `}`
		},
		"probes":                    ofPod(`{"containers":`, `{"livenessProbe":{"httpGet":{}},"readinessProbe":{"grpc":{}},"startupProbe":{}}`, `}`),
		"volumes":                   ofPod(`{"volumes":`, `{"emptyDir":{}}`, `}`),
		"volumes with sources":      ofPod(`{"volumes":[{"projected":{"sources":`, `{"serviceAccountToken":{}}`, `}}]}`),
		"environment":               ofPod(`{"containers":[{"name":"a","env":`, `{"valueFrom":{"fieldRef":{}}}`, `}]}`),
		"ports":                     ofPod(`{"containers":[{"name":"a","ports":`, `{}`, `}]}`),
		"limits":                    ofPod(`{"containers":[{"name":"a","env":`, `{"valueFrom":{"resourceFieldRef":{"divisor":"1"}}}`, `}]}`),
		"claims":                    in("StatefulSet", `{`+selector+`,"template":`+pods(`{}`)+`,"volumeClaimTemplates":`, `{}`, `}`),
		"sidecars":                  in("SidecarSet", `{`+selector+`,"containers":`, `{}`, `}`),
		"subsets":                   in("UnitedDeployment", `{`+selector+`,"topology":{"subsets":`, `{}`, `}}`),
		"patches of subsets":        in("UnitedDeployment", `{`+selector+`,"template":{"cloneSetTemplate":{"spec":{"template":`+pods(`{}`)+`}}},"topology":{"subsets":`, `{"name":"a","patch":{}}`, `}}`),
		"a template of a template":  in("UnitedDeployment", `{`+selector+`,"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":`, `{}`, `}}}}}}`),
		"a job's containers":        in("AdvancedCronJob", `{"schedule":"* * * * *","template":{"jobTemplate":{"spec":{"template":{"spec":{"containers":`, `{}`, `}}}}}}`),
		"a job's volumes":           in("BroadcastJob", `{"template":{"spec":{"volumes":`, `{}`, `}}}`),
		"labels to scatter by":      in("CloneSet", `{`+selector+`,"updateStrategy":{"rollingUpdate":{"scatterStrategy":`, `{}`, `}}}`),
		"weights":                   in("StatefulSet", `{`+selector+`,"updateStrategy":{"rollingUpdate":{"unorderedUpdate":{"priorityStrategy":{"weightPriority":`, `{}`, `}}}}}`),
		"images to pull":            in("AdvancedCronJob", `{"schedule":"* * * * *","template":{"imageListPullJobTemplate":{"spec":{"images":`, `""`, `}}}}`),
		"names":                     in("CloneSet", `{`+selector+`,"scaleStrategy":{"podsToDelete":`, `""`, `}}`),
		"ordinals":                  in("StatefulSet", `{`+selector+`,"reserveOrdinals":`, `1`, `}`),
		"what nobody knows":         ofPod(`{"future":`, `{}`, `}`),
		"what nobody knows, deep":   in("CloneSet", `{`+selector+`,"future":`, `{"":[{"":0}]}`, `}`),
		"members that do not fit":   ofPod(`{"containers":`, `5`, `}`),
		"environment that is wrong": ofPod(`{"containers":[{"name":"a","env":`, `{"name":5}`, `}]}`),
		"a spec that is a list":     in("StatefulSet", ``, `{}`, ``),
	}
}

// TestMemoryIsInProportionToWhatIsSent: handlers hold at most six times the body. Here all that they ever allocate is bounded:
// by a number of times the body, and by what any object may take. Bodies are about the worst that are read, by themselves and
// beside a long text, which weighs next to nothing; and far worse ones, which are not read.
func TestMemoryIsInProportionToWhatIsSent(t *testing.T) {
	known, padding := kinds(), `"future":"`+strings.Repeat("x", 256<<10)+`",`
	for name, spec := range hostile() {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			request := func(operation, padding string, n int) (admission.Kind, []byte) {
				kind, text := spec(n)
				return known[kind], review(known[kind], operation, version, strings.Replace(text, `{"`, "{"+padding+`"`, 1))
			}
			worst := 30_000
			for isTooMuch(t, request, worst) {
				worst = worst * 3 / 4
			}
			for _, c := range []struct {
				operation, padding string
				n                  int
			}{{"CREATE", "", worst}, {"UPDATE", "", worst}, {"UPDATE", padding, worst}, {"CREATE", "", 30_000}} {
				k, body := request(c.operation, c.padding, c.n)
				for does, handle := range map[string]admission.Handle{"mutating": k.Mutate(), "validating": k.Check()} {
					requireMemory(t, handle, body, fmt.Sprintf("%d %s and %d bytes, %s %s, %s", c.n, name, len(c.padding), c.operation, version, does))
				}
			}
		}
	}
}

// requireMemory expects more of v1beta1: v1alpha1 is converted, there and back.
func requireMemory(t *testing.T, handle admission.Handle, body []byte, what string) {
	t.Helper()
	most, times := uint64(18<<20), uint64(6)
	if strings.Contains(what, "v1alpha1") {
		most, times = 54<<20, 12
	}
	if got := allocated(func() { _, _, _ = handle(t.Context(), body) }); got > most+times*uint64(len(body)) {
		t.Errorf("%d KiB for %d KiB: %s", got>>10, len(body)>>10, what)
	}
}

func isTooMuch(t *testing.T, request func(operation, padding string, n int) (admission.Kind, []byte), n int) bool {
	t.Helper()
	k, body := request("CREATE", "", n)
	answer, code, err := k.Check()(t.Context(), body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	return strings.Contains(string(answer), "FieldValueTooMany")
}

// TestWhatIsTooMuchIsNamed: the mutating hook leaves it alone, the validating one refuses it where the client wrote it.
func TestWhatIsTooMuchIsNamed(t *testing.T) {
	for name, want := range map[string]string{
		"containers":               `"message":"Too many: 30000: must have at most [0-9]+ items","field":"spec.template.spec.containers"`,
		"ports":                    `"field":"spec.template.spec.containers\[0\].ports"`,
		"a template of a template": `"field":"spec.template.cloneSetTemplate.spec.template.spec.containers"`,
		"what nobody knows":        `"field":"spec.template.spec.future"`,
		"a spec that is a list":    `"field":"spec"`,
	} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			kind, spec := hostile()[name](30_000)
			k := kinds()[kind]
			body := review(k, "UPDATE", version, spec)
			answer, code, err := k.Check()(t.Context(), body)
			require.NoError(t, err, name)
			require.Equal(t, http.StatusOK, code, name)
			require.Contains(t, string(answer), `"allowed":false`, name)
			require.Contains(t, string(answer), `"code":422`, name)
			require.Regexp(t, want, string(answer), name)
			answer, code, err = k.Mutate()(t.Context(), body)
			require.NoError(t, err, name)
			require.Equal(t, http.StatusOK, code, name)
			require.Contains(t, string(answer), `"allowed":true}`, name)
		}
	}
	// A stored one is no reason to refuse what is better.
	k := kinds()["CloneSet"]
	_, spec := hostile()["containers"](30_000)
	_, better := hostile()["containers with a name"](1)
	object := func(spec string) string {
		return `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web"},"spec":` + spec + `}`
	}
	require.True(t, admissiontest.Check(t, k, object(spec), object(better)).Allowed)
	_, spec = hostile()["what nobody knows"](30_000)
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		old, set := strings.Replace(object(spec), "v1beta1", version, 1), strings.Replace(object(better), "v1beta1", version, 1)
		require.Less(t, allocated(func() { require.True(t, admissiontest.Check(t, k, old, set).Allowed) }), uint64(2<<20))
	}
}

// TestLargeRealObjectsAreRead has the largest lists that people are known to write.
func TestLargeRealObjectsAreRead(t *testing.T) {
	list := func(n int, element string) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(element, 10_000+i))
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	const selector = `"selector":{"matchLabels":{"a":"b"}}`
	pods := func(spec string) string {
		return `{` + selector + `,"template":{"metadata":{"labels":{"a":"b"}},"spec":` + spec + `}}`
	}
	for name, spec := range map[string]string{
		"a range of ports":     pods(`{"containers":[{"name":"media","image":"i","ports":` + list(10_001, `{"containerPort":%d,"protocol":"UDP"}`) + `}]}`),
		"10,000 settings":      pods(`{"containers":[{"name":"a","image":"i","env":` + list(10_000, `{"name":"SETTING_%d","value":"some value of it"}`) + `}]}`),
		"1,000 settings":       pods(`{"containers":[{"name":"a","image":"i","env":` + list(1_000, `{"name":"S%d","valueFrom":{"configMapKeyRef":{"name":"settings","key":"s"}}}`) + `}]}`),
		"100 containers":       pods(`{"containers":` + list(100, `{"name":"c%d","image":"i","env":[{"name":"A","value":"b"}],"resources":{"limits":{"cpu":"1"}},"livenessProbe":{"httpGet":{"port":80}}}`) + `}`),
		"500 volumes":          pods(`{"volumes":` + list(500, `{"name":"v%d","configMap":{"name":"c"}}`) + `}`),
		"10,000 Pods to go":    `{"scaleStrategy":{"podsToDelete":` + list(10_000, `"web-%d"`) + `},` + pods(`{}`)[1:],
		"a long command":       pods(`{"containers":[{"name":"a","image":"i","args":` + list(10_000, `"--a=%d"`) + `}]}`),
		"a megabyte of a text": pods(`{"containers":[{"name":"a","image":"i","args":["` + strings.Repeat(`{\"a\":[{},{},1,2]},`, 50_000) + `"]}]}`),
	} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			k := kinds()["CloneSet"]
			answer, _, err := k.Check()(t.Context(), review(k, "UPDATE", version, spec))
			require.NoError(t, err, name)
			require.Contains(t, string(answer), `"allowed":true`, name)
		}
	}
	k, ordinals := kinds()["StatefulSet"], `{"podManagementPolicy":"Parallel","updateStrategy":{"type":"OnDelete"},"reserveOrdinals":`+list(10_000, `%d`)+`,`+pods(`{}`)[1:]
	answer, _, err := k.Check()(t.Context(), review(k, "CREATE", "v1beta1", ordinals))
	require.NoError(t, err)
	require.Contains(t, string(answer), `"allowed":true`)
}

// TestListsAreAsLongAsTheSchemaHasThem also where it does not see them: in what a v1alpha1 object carries, and in flat templates.
func TestListsAreAsLongAsTheSchemaHasThem(t *testing.T) {
	list := func(n int, element string) string { return strings.Repeat(element+",", n-1) + element }
	const selector, pods = `"selector":{"matchLabels":{"a":"b"}}`, `"template":{"metadata":{"labels":{"a":"b"}}}`
	for field, c := range map[string]struct {
		kind, version, object string
		most                  int
		element               string
	}{
		"spec.reserveOrdinals":                                              {"StatefulSet", "v1alpha1", `"metadata":{"name":"web","annotations":{"apps.kruise.io/statefulset-v1beta1-fields":"{\"spec\":{\"reserveOrdinals\":[%s]}}"}},"spec":{` + selector + `,"podManagementPolicy":"Parallel","updateStrategy":{"type":"OnDelete"},` + pods + `}`, 10_000, `1`},
		"spec.scaleStrategy.podsToDelete":                                   {"CloneSet", "v1beta1", `"metadata":{"name":"web"},"spec":{` + selector + `,"scaleStrategy":{"podsToDelete":[%s]},` + pods + `}`, 10_000, `"a"`},
		"spec.updateStrategy.scatterStrategy":                               {"CloneSet", "v1alpha1", `"metadata":{"name":"web"},"spec":{` + selector + `,"updateStrategy":{"scatterStrategy":[%s]},` + pods + `}`, 100, `{"key":"a"}`},
		"spec.updateStrategy.rollingUpdate.priorityStrategy.weightPriority": {"CloneSet", "v1beta1", `"metadata":{"name":"web"},"spec":{` + selector + `,"updateStrategy":{"rollingUpdate":{"priorityStrategy":{"weightPriority":[%s]}}},` + pods + `}`, 100, `{"weight":101}`},
		"spec.updateStrategy.priorityStrategy.orderPriority":                {"SidecarSet", "v1beta1", `"metadata":{"name":"web"},"spec":{` + selector + `,"containers":[{"name":"a"}],"updateStrategy":{"priorityStrategy":{"orderPriority":[%s]}}}`, 100, `{}`},
		"spec.containers":                                                   {"SidecarSet", "v1beta1", `"metadata":{"name":"web"},"spec":{` + selector + `,"containers":[%s]}`, 100, `{"name":"a"}`},
		"spec.initContainers":                                               {"SidecarSet", "v1beta1", `"metadata":{"name":"web"},"spec":{` + selector + `,"initContainers":[%s]}`, 100, `{"name":"a"}`},
		"spec.topology.subsets":                                             {"UnitedDeployment", "v1beta1", `"metadata":{"name":"web"},"spec":{` + selector + `,"template":{"cloneSetTemplate":{"metadata":{"labels":{"a":"b"}},"spec":{` + pods + `}}},"topology":{"subsets":[%s]}}`, 100, `{"name":"a"}`},
	} {
		k := kinds()[c.kind]
		check := func(n int) map[string]string {
			object := fmt.Sprintf(`{"apiVersion":"apps.kruise.io/%s","kind":%q,`+c.object+`}`, c.version, c.kind, list(n, c.element))
			return admissiontest.Fields(admissiontest.Check(t, k, "", object))
		}
		require.Equal(t, map[string]string{field: "FieldValueTooMany"}, check(c.most+1))
		require.NotEqual(t, "FieldValueTooMany", check(c.most)[field])
	}
}
