package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/internal/admission/cloneset"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/conversion"
)

// collected are the metrics that somebody registers.
type collected struct {
	prometheus.Registerer
	list []prometheus.Collector
}

func (c *collected) MustRegister(list ...prometheus.Collector) {
	c.list = append(c.list, list...)
	c.Registerer.MustRegister(list...)
}

// TestTheMetricsAreThoseOfTheDocument with the labels that they have there.
func TestTheMetricsAreThoseOfTheDocument(t *testing.T) {
	c := &collected{Registerer: prometheus.NewRegistry()}
	newMetrics(c)
	descriptions := make(chan *prometheus.Desc, 100)
	for _, m := range c.list {
		m.Describe(descriptions)
	}
	close(descriptions)
	got := map[string]string{}
	for d := range descriptions {
		parts := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(d.String())
		require.NotNil(t, parts, d)
		got[parts[1]] = parts[2]
	}
	require.Equal(t, map[string]string{
		"flotilla_webhook_requests_total":                            "path,operation,code,allowed",
		"flotilla_webhook_request_duration_seconds":                  "path",
		"flotilla_webhook_inflight_requests":                         "",
		"flotilla_webhook_inflight_bytes":                            "",
		"flotilla_webhook_rejected_total":                            "reason",
		"flotilla_webhook_patch_operations":                          "path",
		"flotilla_webhook_template_checks_total":                     "kind,result",
		"flotilla_webhook_template_check_duration_seconds":           "kind",
		"flotilla_conversion_objects_total":                          "kind,from,to,result",
		"flotilla_conversion_duration_seconds":                       "kind",
		"flotilla_conversion_carrier_too_large_total":                "kind",
		"flotilla_webhook_serving_cert_not_after_timestamp_seconds":  "serial",
		"flotilla_webhook_serving_cert_not_before_timestamp_seconds": "serial",
		"flotilla_webhook_cert_reloads_total":                        "result",
		"flotilla_webhook_tls_handshake_errors_total":                "reason",
		"flotilla_injection_pods_total":                              "result",
	}, got)
}

// witness is a server whose log and metrics are looked at.
type witness struct {
	*testing.T
	*Server
	registry *prometheus.Registry
	lines    []string
}

func newWitness(t *testing.T, verbosity int) *witness {
	t.Helper()
	w := &witness{T: t, registry: prometheus.NewRegistry()}
	log := funcr.NewJSON(func(line string) { w.lines = append(w.lines, line) }, funcr.Options{Verbosity: verbosity})
	m := newMetrics(w.registry)
	w.Server = &Server{env: &app.Env{Log: log, Clock: clock.RealClock{}}, metrics: m, gate: &gatekeeper{log: log, clock: clock.RealClock{}, metrics: m, budget: 1 << 30, bodyWithin: bodyWithin}}
	w.Admit(cloneset.Kind(nil))
	w.Handle("/convert", Accept{Bytes: 32 << 20, Depth: conversionDepth}, func(ctx context.Context, body []byte) ([]byte, int, error) {
		return conversion.Handle(ctx, body, w)
	})
	return w
}

// post sends a body to a path, and returns what is logged of it.
func (w *witness) post(path, body string) []string {
	w.Helper()
	at := slices.IndexFunc(w.routes, func(r route) bool { return r.path == path })
	require.GreaterOrEqual(w.T, at, 0)
	return w.ask(path, body, w.routes[at].handle)
}

func (w *witness) ask(path, body string, handle Handle) []string {
	w.Helper()
	w.lines = nil
	r, recorder := newRequest(path, body)
	w.gate.guard(path, Accept{Bytes: 32 << 20, Depth: maxDepth}, handle)(recorder, r)
	for _, line := range w.lines {
		require.Less(w.T, len(line), 8<<10)
	}
	return w.lines
}

// series are all of a metric, with their values; of a histogram how many and the sum.
func (w *witness) series(name string) []string {
	w.Helper()
	families, err := w.registry.Gather()
	require.NoError(w.T, err)
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name {
				continue
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := fmt.Sprint(m.GetCounter().GetValue())
			if h := m.GetHistogram(); h != nil {
				value = fmt.Sprint(h.GetSampleCount(), " ", h.GetSampleSum())
			}
			out = append(out, strings.Join(labels, ",")+" "+value)
		}
	}
	return out
}

const (
	mutate   = "/mutate-apps-kruise-io-cloneset"
	validate = "/validate-apps-kruise-io-cloneset"
	secret1  = "hunter2"
)

// reviewOfSet is about a set whose replicas are what they are said to be, and who has a secret.
func reviewOfSet(operation, replicas string) string {
	object := `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web"},"spec":{"replicas":` + replicas + `,"selector":{"matchLabels":{"app":"web"}},` +
		`"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"i","env":[{"name":"A","value":"` + secret1 + `"}]}]}}}}`
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u1","kind":{"group":"apps.kruise.io","version":"v1beta1","kind":"CloneSet"},` +
		`"resource":{"group":"apps.kruise.io","version":"v1beta1","resource":"clonesets"},"namespace":"shop","name":"web","operation":"` + operation + `","dryRun":true,"object":` + object + `}}`
}

func TestRequestsAreCountedByWhatBecomesOfThem(t *testing.T) {
	w := newWitness(t, 0)
	w.post(mutate, reviewOfSet("CREATE", "1"))
	w.post(mutate, reviewOfSet("DELETE", "1"))
	w.post(validate, reviewOfSet("CREATE", "1"))
	w.post(validate, reviewOfSet("CREATE", "-1"))
	w.post(validate, strings.Replace(reviewOfSet("CREATE", "1"), "clonesets", "others", 1))
	for i := range 100 {
		w.post(validate, reviewOfSet(fmt.Sprint("DESTROY", i), "1"))
		w.post(validate, fmt.Sprintf(`{"apiVersion":"v%d","kind":"k%d"}`, i, i))
		w.post("/convert", fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u%d","desiredAPIVersion":"v%d","objects":[{"apiVersion":"w%d","kind":"k%d"}]}}`, i, i, i, i))
	}
	require.ElementsMatch(t, []string{
		"allowed=true,code=200,operation=CREATE,path=" + mutate + " 1", "allowed=true,code=200,operation=DELETE,path=" + mutate + " 1",
		"allowed=true,code=200,operation=CREATE,path=" + validate + " 1", "allowed=false,code=200,operation=CREATE,path=" + validate + " 1",
		"allowed=true,code=200,operation=unknown,path=" + validate + " 100", "allowed=,code=400,operation=,path=" + validate + " 101",
		"allowed=,code=200,operation=,path=/convert 100",
	}, w.series("flotilla_webhook_requests_total"))
	patches := w.series("flotilla_webhook_patch_operations")
	require.Len(t, patches, 1)
	require.Regexp(t, `^path=`+mutate+` 2 [1-9][0-9]*$`, patches[0])
	require.Equal(t, []string{"from=unknown,kind=unknown,result=failed,to=unknown 100"}, w.series("flotilla_conversion_objects_total"))
}

func TestConversionsAreTimedAndWhatDoesNotFitIsCounted(t *testing.T) {
	w := newWitness(t, 0)
	const object = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"AdvancedCronJob","metadata":{"name":"a"},"spec":{"template":{"imageListPullJobTemplate":{"spec":{"images":["%s"]}}}}}`
	small, large := fmt.Sprintf(object, "i"), fmt.Sprintf(object, strings.Repeat("x", 300<<10))
	w.post("/convert", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1alpha1","objects":[`+small+`,`+large+`]}}`)
	require.Equal(t, []string{"kind=AdvancedCronJob 1"}, w.series("flotilla_conversion_carrier_too_large_total"))
	require.Regexp(t, `^kind=AdvancedCronJob 2 `, w.series("flotilla_conversion_duration_seconds")[0])
	require.Empty(t, w.lines)
}

func TestARefusalIsOneLine(t *testing.T) {
	w := newWitness(t, 0)
	require.Empty(t, w.post(validate, reviewOfSet("CREATE", "1")))
	require.Empty(t, w.post(mutate, reviewOfSet("CREATE", "1")))
	lines := w.post(validate, reviewOfSet("CREATE", "-1"))
	require.Len(t, lines, 1)
	require.JSONEq(t, `{"logger":"","level":0,"msg":"an object is refused","path":"`+validate+`","uid":"u1","kind":"CloneSet","object":"shop/web","operation":"CREATE","dryRun":true,
		"reason":"spec.replicas: FieldValueInvalid"}`, lines[0])
}

func TestAnErrorIsOneLineOfBoundedLength(t *testing.T) {
	w := newWitness(t, 0)
	long := strings.Repeat("x", 1<<20)
	for what, line := range map[string][]string{
		"another resource": w.post(validate, strings.Replace(reviewOfSet("CREATE", "1"), "clonesets", long, 1)),
		"another version":  w.post(validate, strings.Replace(reviewOfSet("CREATE", "1"), "admission.k8s.io/v1", long, 1)),
		"a long name":      w.post(validate, strings.Replace(strings.Replace(reviewOfSet(long, "1"), `"name":"web","op`, `"name":"`+long+`","op`, 1), `"kind":"CloneSet","meta`, `"kind":"Other","meta`, 1)),
		"a long uid":       w.post(validate, strings.Replace(strings.Replace(reviewOfSet("CREATE", "1"), `"u1"`, `"`+long+`"`, 1), `"kind":"CloneSet","meta`, `"kind":"Other","meta`, 1)),
		"no conversion":    w.post("/convert", `{"apiVersion":"`+long+`","kind":"ConversionReview","request":{"uid":"u1"}}`),
		"a kind":           w.post("/convert", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u1","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[{"apiVersion":"apps.kruise.io/v1alpha1","kind":"`+long+`"}]}}`),
		"no JSON":          w.post("/convert", `{"request":{"uid":"u1"}`),
		"none":             w.post("/convert", ``),
		"many mistakes":    w.post(validate, strings.Replace(reviewOfSet("CREATE", "1"), `"replicas":1`, `"volumeClaimTemplates":[`+strings.Repeat(`{},`, 99)+`{}]`, 1)),
	} {
		if what == "a long name" {
			require.Empty(t, line, "another operation is nobody's business")
			continue
		}
		require.Len(t, line, 1, what)
		require.NotContains(t, line[0], secret1)
		require.Contains(t, line[0], `"path":"`)
		require.Contains(t, line[0], `"uid":"`)
	}
	slow := func(ctx context.Context, body []byte) ([]byte, int, error) {
		answer, code, err := cloneset.Kind(nil).Check()(ctx, body)
		<-ctx.Done()
		return answer, code, err
	}
	lines := w.ask(validate+"?timeout=250ms", reviewOfSet("CREATE", "-1"), slow)
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "no answer in time")
	require.Contains(t, lines[0], "shop/web")
	require.Contains(t, w.series("flotilla_webhook_requests_total"), "allowed=,code=503,operation=CREATE,path="+validate+"?timeout=250ms 1", "what comes too late is no answer")
	lines = w.ask(validate, reviewOfSet("CREATE", "1"), func(context.Context, []byte) ([]byte, int, error) {
		return nil, http.StatusInternalServerError, errors.New(long)
	})
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], `"uid":"u1"`)
}

func TestAPanicIsOneLineWithTheRequest(t *testing.T) {
	w := newWitness(t, 0)
	lines := w.ask(validate, reviewOfSet("CREATE", "1"), func(context.Context, []byte) ([]byte, int, error) { panic("boom") })
	require.Len(t, lines, 1)
	for _, text := range []string{"boom", `"uid":"u1"`, "report_test.go", `"path":"` + validate + `"`} {
		require.Contains(t, lines[0], text)
	}
	require.Equal(t, []string{"reason=panic 1"}, w.series("flotilla_webhook_rejected_total"))
}

func TestChangesAndRequestsAreLinesForWhoAsksForThem(t *testing.T) {
	lines := newWitness(t, 2).post(mutate, reviewOfSet("CREATE", "1"))
	require.Len(t, lines, 1)
	require.Regexp(t, `"msg":"an object is changed".*"uid":"u1".*"object":"shop/web".*"operations":[1-9]`, lines[0])
	require.NotContains(t, lines[0], secret1)
	lines = newWitness(t, 4).post(mutate, reviewOfSet("CREATE", "1"))
	require.Len(t, lines, 2)
	require.Regexp(t, `"msg":"a request".*"path":"`+mutate+`".*"uid":"u1".*"kind":"CloneSet".*"object":"shop/web".*"operation":"CREATE","dryRun":true.*"code":200.*"duration":.*"patchBytes":[1-9]`, lines[1])
	require.NotContains(t, strings.Join(lines, ""), secret1)
}
