package webhook

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests, rejected, reloads, handshakes, converted, templates *prometheus.CounterVec
	duration, templateTime                                        *prometheus.HistogramVec
	inFlight, notBefore, notAfter                                 prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "flotilla_" + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "flotilla_" + name, Help: help})
	}
	times := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "flotilla_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 3, 10)}, labels)
	}
	m := &metrics{
		requests:     counters("webhook_requests_total", "Requests by path and HTTP code.", "path", "code"),
		rejected:     counters("webhook_rejected_total", "Requests that were not worked on, by reason.", "reason"),
		reloads:      counters("webhook_cert_reloads_total", "Pairs that the Secret offered, by what became of them.", "result"),
		handshakes:   counters("webhook_tls_handshake_errors_total", "Handshakes that failed, by reason.", "reason"),
		converted:    counters("conversion_objects_total", "Objects of conversion reviews.", "kind", "from", "to", "result"),
		templates:    counters("webhook_template_checks_total", "Pod templates that the API server was asked about, by its verdict.", "kind", "result"),
		duration:     times("webhook_request_duration_seconds", "How long requests took.", "path"),
		templateTime: times("webhook_template_check_duration_seconds", "How long the API server took to judge a Pod template.", "kind"),
		inFlight:     gauge("webhook_inflight_bytes", "Bytes of bodies that are being worked on."),
		notBefore:    gauge("webhook_serving_cert_not_before_timestamp_seconds", "When the pair in use begins to be valid."),
		notAfter:     gauge("webhook_serving_cert_not_after_timestamp_seconds", "When the pair in use ends to be valid."),
	}
	r.MustRegister(m.requests, m.rejected, m.reloads, m.handshakes, m.converted, m.templates, m.duration, m.templateTime, m.inFlight, m.notBefore, m.notAfter)
	return m
}
