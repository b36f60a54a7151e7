package webhook

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/admission/cloneset"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/conversion"
)

// sink takes an answer as a connection does.
type sink struct{ header http.Header }

func (s sink) Header() http.Header       { return s.header }
func (sink) WriteHeader(int)             {}
func (sink) Write(b []byte) (int, error) { return len(b), nil }

// cloneSet is a CloneSet of v1beta1. Like most large objects it is large by what its containers are told: a setting has about
// 110 bytes, a container 25 of them.
func cloneSet(name string, settings, replicas int) string {
	const perContainer = 25
	var list []string
	for first := 0; first < settings; first += perContainer {
		var env []string
		for i := first; i < min(settings, first+perContainer); i++ {
			env = append(env, fmt.Sprintf(`{"name":"SETTING_%04d","value":"https://service.namespace.svc.cluster.local:8443/some/path?of=usual&length=yes"}`, i))
		}
		list = append(list, fmt.Sprintf(`{"name":"c%d","image":"registry.example/app:v1","env":[%s],"resources":{"limits":{"cpu":"1","memory":"1Gi"}}}`, first, strings.Join(env, ",")))
	}
	const object = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"%s","namespace":"default","uid":"5c0b5c4e-6b0d-4d7c-9d0e-1b1f3c2d4e5f","labels":{"app":"web"}},` +
		`"spec":{"replicas":%d,"selector":{"matchLabels":{"app":"web"}},"scaleStrategy":{"enablePVCReuse":true},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[%s]}},` +
		`"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"InPlaceIfPossible","partition":1,"maxUnavailable":"20%%"}}},"status":{"replicas":3,"readyReplicas":3}}`
	return fmt.Sprintf(object, name, replicas, strings.Join(list, ","))
}

// conversionReview asks for the conversion of objects of about 8 KiB.
func conversionReview(objects int) []byte {
	list := make([]string, objects)
	for i := range list {
		list[i] = cloneSet(fmt.Sprint("web-", i), 70, 3)
	}
	return fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u1","desiredAPIVersion":"apps.kruise.io/v1alpha1","objects":[%s]}}`, strings.Join(list, ","))
}

// admissionReview is about an object of about 32 KiB that is created or scaled.
func admissionReview(operation string) []byte {
	old := "null"
	if operation == "UPDATE" {
		old = cloneSet("web", 280, 2)
	}
	return fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u1","kind":{"group":"apps.kruise.io","version":"v1beta1","kind":"CloneSet"},`+
		`"resource":{"group":"apps.kruise.io","version":"v1beta1","resource":"clonesets"},"name":"web","namespace":"default","operation":"%s","object":%s,"oldObject":%s}}`,
		operation, cloneSet("web", 280, 3), old)
}

// BenchmarkConversionReview is all that a review costs but the connection.
func BenchmarkConversionReview(b *testing.B) {
	for _, objects := range []int{1, 1000} {
		body := conversionReview(objects)
		b.Run(fmt.Sprintf("%d objects of %d bytes", objects, len(body)/objects), func(b *testing.B) {
			server := &Server{env: &app.Env{Log: logr.Discard(), Clock: clock.RealClock{}}, metrics: newMetrics(prometheus.NewRegistry())}
			serveAgain(b, 32<<20, body, func(ctx context.Context, body []byte) ([]byte, int, error) {
				return conversion.Handle(ctx, body, server)
			})
		})
	}
}

// BenchmarkAdmissionReview leaves out that the API server judges the template.
func BenchmarkAdmissionReview(b *testing.B) {
	kind := cloneset.Kind(nil)
	for _, operation := range []string{"CREATE", "UPDATE"} {
		body := admissionReview(operation)
		for does, handle := range map[string]Handle{"defaults": kind.Mutate(), "rules": kind.Check()} {
			b.Run(fmt.Sprintf("%s of %s, %d bytes", does, operation, len(body)), func(b *testing.B) { serveAgain(b, admission.MaxBody, body, handle) })
		}
	}
}

// serveAgain answers the same request again and again.
func serveAgain(b *testing.B, limit int64, body []byte, handle Handle) {
	b.Helper()
	g := &gatekeeper{log: logr.Discard(), clock: clock.RealClock{}, metrics: newMetrics(prometheus.NewRegistry()), budget: 1 << 30, bodyWithin: bodyWithin}
	serve := g.guard("/", Accept{Bytes: limit, Depth: maxDepth}, handle)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/?timeout=30s", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		serve(sink{http.Header{}}, r)
	}
}
