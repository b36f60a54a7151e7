package workload

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/kube"
)

const metricsNamespace = "flotilla"

// Results of a sync.
const (
	resultOK        = "ok"
	resultWaiting   = "waiting"
	resultStalled   = "stalled"
	resultOvertaken = "overtaken"
	resultError     = "error"
)

// Metrics are what a controller counts.
type Metrics struct {
	// Created, Deleted and UpdatedInPlace count Pods.
	Created, Deleted, UpdatedInPlace prometheus.Counter

	syncs, writes *prometheus.CounterVec
	duration      prometheus.Histogram
}

// NewMetrics registers the metrics of a kind; subsystem is part of their names.
func NewMetrics(r prometheus.Registerer, subsystem string) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: metricsNamespace, Subsystem: subsystem, Name: name, Help: help})
	}
	m := &Metrics{
		Created:        counter("pods_created_total", "Pods created."),
		Deleted:        counter("pods_deleted_total", "Pods deleted."),
		UpdatedInPlace: counter("pods_updated_in_place_total", "Pods whose in-place update was begun."),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: metricsNamespace, Subsystem: subsystem, Name: "syncs_total",
			Help: "Syncs by result: ok, waiting (for caches that are behind the controller's own writes), stalled, overtaken (by another writer), error.",
		}, []string{"result"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: metricsNamespace, Subsystem: subsystem, Name: "writes_total",
			Help: "Writes that succeeded, by kind and verb.",
		}, []string{"kind", "verb"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: metricsNamespace, Subsystem: subsystem, Name: "sync_duration_seconds",
			Help:    "How long a sync took, its writes included. Syncs that only waited for caches are left out.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
	}
	// A result that has not occurred yet is 0, and not missing.
	for _, result := range []string{resultOK, resultWaiting, resultStalled, resultOvertaken, resultError} {
		m.syncs.WithLabelValues(result)
	}
	r.MustRegister(m.Created, m.Deleted, m.UpdatedInPlace, m.syncs, m.writes, m.duration)
	return m
}

// Wrote counts a write that succeeded.
func (m *Metrics) Wrote(kind, verb string) { m.writes.WithLabelValues(kind, verb).Inc() }

// Rollout is how far an owner is.
type Rollout struct {
	Namespace, Name string
	// Wanted are the Pods that it is to have, Available those of them that are available.
	Wanted, Available int32
	// UpdatedAvailable are available Pods at the update revision, UpdatedWanted how many there are to be.
	UpdatedAvailable, UpdatedWanted int32
}

// progress exports how far every owner is, from the caches: it costs nothing but when it is asked for.
type progress struct {
	owners                                                  cache.Store
	of                                                      func(any) (Rollout, bool)
	wanted, unavailable, updated, wantedUpdated, unreadable *prometheus.Desc
}

// NewProgress exports the progress of the owners in a store; of reads one of them.
func NewProgress(subsystem string, owners cache.Store, of func(any) (Rollout, bool)) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(metricsNamespace, subsystem, name), help, []string{"namespace", "name"}, nil)
	}
	return &progress{
		owners: owners, of: of,
		wanted:        desc("replicas", "Pods that the set is to have."),
		unavailable:   desc("replicas_unavailable", "How many of them are missing or not available."),
		updated:       desc("replicas_updated_available", "Available Pods at the update revision."),
		wantedUpdated: desc("replicas_updated_wanted", "Pods that the set is to have at the update revision: the rollout is done when as many are available."),
		unreadable:    desc("unreadable", "1 for a set that cannot be read: it is left alone until it is mended."),
	}
}

// Describe names the metrics.
func (p *progress) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.wanted, p.unavailable, p.updated, p.wantedUpdated, p.unreadable} {
		out <- d
	}
}

// Collect reads them.
func (p *progress) Collect(out chan<- prometheus.Metric) {
	for _, item := range p.owners.List() {
		if o, isObject := item.(metav1.Object); isObject && kube.Unreadable(o) != "" {
			out <- prometheus.MustNewConstMetric(p.unreadable, prometheus.GaugeValue, 1, o.GetNamespace(), o.GetName())
			continue
		}
		r, ok := p.of(item)
		if !ok {
			continue
		}
		for d, value := range map[*prometheus.Desc]int32{
			p.wanted: r.Wanted, p.unavailable: max(0, r.Wanted-r.Available), p.updated: r.UpdatedAvailable, p.wantedUpdated: r.UpdatedWanted,
		} {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), r.Namespace, r.Name)
		}
	}
}
