package certs

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	notBefore, notAfter, nextAction, state, contested *prometheus.GaugeVec
	rotations, secretWrites, patches                  *prometheus.CounterVec
	repairs                                           *prometheus.HistogramVec
	skew, leader, probeSuccess, probeNotAfter         prometheus.Gauge
	planned                                           prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	name := func(n string) string { return "flotilla_certs_" + n }
	gauges := func(n, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name(n), Help: help}, labels)
	}
	counters := func(n, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name(n), Help: help}, labels)
	}
	m := &metrics{
		notBefore:    gauges("not_before_timestamp_seconds", "When the certificate begins to be valid.", "cert"),
		notAfter:     gauges("not_after_timestamp_seconds", "When the certificate ends to be valid.", "cert"),
		nextAction:   gauges("next_action_timestamp_seconds", "When that is due by age.", "action"),
		state:        gauges("target_state", "1 for the state that the object is in.", "kind", "name", "state"),
		contested:    gauges("contested", "1 while somebody resets the object's caBundle again and again.", "kind", "name"),
		rotations:    counters("rotations_total", "What was made anew, and why.", "what", "reason"),
		secretWrites: counters("secret_writes_total", "Writes of Secrets by result.", "secret", "result"),
		patches:      counters("target_patches_total", "Patches of caBundles by result and reason.", "kind", "name", "result", "reason"),
		repairs: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name("repair_seconds"), Help: "From the event that shows a reset to the acknowledged patch.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}, []string{"kind"}),
		skew:          prometheus.NewGauge(prometheus.GaugeOpts{Name: name("clock_skew_seconds"), Help: "By how much the API server's clock is ahead."}),
		probeSuccess:  prometheus.NewGauge(prometheus.GaugeOpts{Name: name("probe_success"), Help: "1 if the webhook served last what the bundle trusts."}),
		probeNotAfter: prometheus.NewGauge(prometheus.GaugeOpts{Name: name("probe_not_after_timestamp_seconds"), Help: "When what the webhook served last ends to be valid."}),
		leader:        prometheus.NewGauge(prometheus.GaugeOpts{Name: name("leader"), Help: "1 while this process rotates."}),
		planned:       prometheus.NewHistogram(prometheus.HistogramOpts{Name: name("plan_duration_seconds"), Help: "How long a decision took.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8)}),
	}
	r.MustRegister(m.notBefore, m.notAfter, m.nextAction, m.state, m.contested, m.rotations, m.secretWrites, m.patches, m.repairs, m.skew, m.leader, m.probeSuccess, m.probeNotAfter, m.planned)
	return m
}

// states are all that a target can be in.
func states() []TargetState {
	return []TargetState{Published, Pending, Absent, Foreign, Unmanaged, External, Failed}
}

// export shows what a pass has seen, and tells once of targets that are not ours.
func (r *Rotator) export(p pass) {
	m, o := r.metrics, p.Observed
	m.notAfter.Reset()
	m.notBefore.Reset()
	certificate := func(name string, p *Pair) {
		if p != nil {
			m.notBefore.WithLabelValues(name).Set(float64(p.NotBefore.Unix()))
			m.notAfter.WithLabelValues(name).Set(float64(p.NotAfter.Unix()))
		}
	}
	certificate("serving", o.Serving.Pair)
	certificate("ca_current", o.Authorities.Current)
	certificate("ca_next", o.Authorities.Next)
	for _, previous := range o.Authorities.Previous {
		m.notBefore.WithLabelValues("ca_previous").Set(float64(previous.NotBefore.Unix()))
		m.notAfter.WithLabelValues("ca_previous").Set(float64(previous.NotAfter.Unix()))
	}
	if o.Authorities.Current != nil && o.Serving.Pair != nil {
		m.nextAction.WithLabelValues("renew_serving").Set(float64(RenewalOf(o.Serving.Pair.Certificate, r.settings).Unix()))
	}
	if o.Authorities.Current != nil {
		m.nextAction.WithLabelValues("promote").Set(float64(o.Authorities.SigningSince.Add(r.settings.SigningPeriod).Unix()))
	}
	bundle := p.wanted()
	for i := range p.readings {
		t := &p.readings[i]
		r.exportTarget(t, t.stateOf(bundle), o.Steady)
	}
}

// wanted is what targets are to hold, or are to go on holding while the authorities are about to change.
func (p *pass) wanted() []Certificate {
	if p.Bundle != nil {
		return p.Bundle
	}
	return p.Observed.Authorities.Bundle(p.judged())
}

// stateOf is the state of a target that is to hold the bundle.
func (t *observedTarget) stateOf(bundle []Certificate) TargetState {
	switch {
	case !t.Managed:
		return t.reading.state
	case t.isPublished(bundle):
		t.memory.published = bundle
		return Published
	case t.memory.failed:
		return Failed
	default:
		return Pending
	}
}

func (r *Rotator) exportTarget(t *observedTarget, state TargetState, now time.Time) {
	for _, s := range states() {
		value := 0.0
		if s == state {
			value = 1
		}
		r.metrics.state.WithLabelValues(t.Kind, t.Name, string(s)).Set(value)
	}
	contested := 0.0
	if t.memory.contest.isContested(now) {
		contested = 1
	}
	r.metrics.contested.WithLabelValues(t.Kind, t.Name).Set(contested)
	strangers := strings.Join(t.reading.strangers, ", ")
	if state == t.memory.told && strangers == t.memory.toldStrangers {
		return
	}
	told, changed := t.memory.told, strangers != t.memory.toldStrangers
	t.memory.told, t.memory.toldStrangers = state, strangers
	switch {
	case state != told && state == External:
		r.warn(EventExternallyManaged, t.Kind+" "+t.Name, "%s %s: its annotations say that somebody else fills in its caBundle", t.Kind, t.Name)
	case state != told && (state == Foreign || state == Unmanaged && !t.reading.needsNone):
		r.warn(EventTargetForeign, t.Kind+" "+t.Name, "%s %s calls no webhook of ours; its caBundle is left alone", t.Kind, t.Name)
	case t.Managed && changed && strangers != "":
		r.warn(EventTargetForeign, t.Kind+" "+t.Name, "%s %s calls others, too, whose caBundles are left alone: %s", t.Kind, t.Name, strangers)
	}
}
