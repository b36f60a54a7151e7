package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests, rejected, reloads, handshakes, converted, tooLarge, templates, pods *prometheus.CounterVec
	duration, conversionTime, templateTime, patches                               *prometheus.HistogramVec
	inFlight, busy                                                                prometheus.Gauge
	notBefore, notAfter                                                           *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "flotilla_" + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "flotilla_" + name, Help: help})
	}
	ofPair := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "flotilla_webhook_serving_cert_" + name + "_timestamp_seconds", Help: help}, []string{"serial"})
	}
	times := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "flotilla_" + name, Help: help, Buckets: durations()}, labels)
	}
	m := &metrics{
		requests:       counters("webhook_requests_total", "Requests by path, by what was to be done, HTTP code and answer: operation and allowed are empty where there is none.", "path", "operation", "code", "allowed"),
		rejected:       counters("webhook_rejected_total", "Requests that were not worked on, by reason.", "reason"),
		reloads:        counters("webhook_cert_reloads_total", "Pairs that the Secret offered, by what became of them.", "result"),
		handshakes:     counters("webhook_tls_handshake_errors_total", "Handshakes that failed, by reason.", "reason"),
		converted:      counters("conversion_objects_total", "Objects of conversion reviews.", "kind", "from", "to", "result"),
		tooLarge:       counters("conversion_carrier_too_large_total", "Objects that were converted to v1alpha1 without what it lacks: an annotation has no room for it.", "kind"),
		templates:      counters("webhook_template_checks_total", "Pod templates that the API server was asked about, by its verdict.", "kind", "result"),
		pods:           counters("injection_pods_total", "Pods that were created, by what became of them: unselected (no SidecarSet selects it) or error (this could not be known).", "result"),
		duration:       times("webhook_request_duration_seconds", "How long requests took.", "path"),
		conversionTime: times("conversion_duration_seconds", "How long the conversion of an object took.", "kind"),
		patches: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "flotilla_webhook_patch_operations", Help: "Operations of the patches that were answered; none: the object was left as it came.", Buckets: operations(),
		}, []string{"path"}),
		templateTime: times("webhook_template_check_duration_seconds", "How long the API server took to judge a Pod template.", "kind"),
		inFlight:     gauge("webhook_inflight_bytes", "Bytes of bodies that are being worked on."),
		busy:         gauge("webhook_inflight_requests", "Requests that are being worked on."),
		notBefore:    ofPair("not_before", "When the pair in use begins to be valid."),
		notAfter:     ofPair("not_after", "When the pair in use ends to be valid."),
	}
	r.MustRegister(m.requests, m.rejected, m.reloads, m.handshakes, m.converted, m.tooLarge, m.templates, m.pods, m.duration, m.conversionTime, m.templateTime, m.patches, m.inFlight, m.busy, m.notBefore, m.notAfter)
	return m
}

// durations are the bounds of what is timed, in seconds; what is promised of conversion and admission is among them.
func durations() []float64 {
	return []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
}

// operations are the bounds of how many operations patches have.
func operations() []float64 { return []float64{0, 1, 5, 10, 25, 50, 100, 250, 1000, 10_000} }

// serving tells of the pair in use.
func (m *metrics) serving(serial string, notBefore, notAfter time.Time) {
	for gauge, at := range map[*prometheus.GaugeVec]time.Time{m.notBefore: notBefore, m.notAfter: notAfter} {
		gauge.Reset()
		gauge.WithLabelValues(serial).Set(float64(at.Unix()))
	}
}
