package cloneset

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

const (
	metricsNamespace = "flotilla"
	metricsSubsystem = "cloneset"
)

// Results of a sync.
const (
	resultOK        = "ok"
	resultWaiting   = "waiting"
	resultStalled   = "stalled"
	resultOvertaken = "overtaken"
	resultError     = "error"
)

type metrics struct {
	created, deleted, updatedInPlace prometheus.Counter
	syncs, writes                    *prometheus.CounterVec
	duration                         prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help})
	}
	m := &metrics{
		created:        counter("pods_created_total", "Pods created."),
		deleted:        counter("pods_deleted_total", "Pods deleted."),
		updatedInPlace: counter("pods_updated_in_place_total", "Pods whose in-place update was begun."),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "syncs_total",
			Help: "Syncs by result: ok, waiting (for caches that are behind the controller's own writes), stalled, overtaken (by another writer), error.",
		}, []string{"result"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "writes_total",
			Help: "Writes that succeeded, by kind and verb.",
		}, []string{"kind", "verb"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "sync_duration_seconds",
			Help:    "How long a sync took, its writes included. Syncs that only waited for caches are left out.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
	}
	// A result that has not occurred yet is 0, and not missing.
	for _, result := range []string{resultOK, resultWaiting, resultStalled, resultOvertaken, resultError} {
		m.syncs.WithLabelValues(result)
	}
	r.MustRegister(m.created, m.deleted, m.updatedInPlace, m.syncs, m.writes, m.duration)
	return m
}

func (m *metrics) wrote(kind, verb string) { m.writes.WithLabelValues(kind, verb).Inc() }

// progress exports how far every set is, from the caches: it costs nothing but when it is asked for.
type progress struct {
	sets                                        cache.Store
	wanted, unavailable, updated, wantedUpdated *prometheus.Desc
}

func newProgress(sets cache.Store) *progress {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(metricsNamespace, metricsSubsystem, name), help, []string{"namespace", "name"}, nil)
	}
	return &progress{
		sets:          sets,
		wanted:        desc("replicas", "Pods that the set is to have."),
		unavailable:   desc("replicas_unavailable", "How many of them are missing or not available."),
		updated:       desc("replicas_updated_available", "Available Pods at the update revision."),
		wantedUpdated: desc("replicas_updated_wanted", "Pods that the set is to have at the update revision: the rollout is done when as many are available."),
	}
}

// Describe names the metrics.
func (p *progress) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.wanted, p.unavailable, p.updated, p.wantedUpdated} {
		out <- d
	}
}

// Collect reads them.
func (p *progress) Collect(out chan<- prometheus.Metric) {
	for _, item := range p.sets.List() {
		set, ok := item.(*v1beta1.CloneSet)
		if !ok {
			continue
		}
		replicas := ptr.Deref(set.Spec.Replicas, 1)
		for d, value := range map[*prometheus.Desc]int32{
			p.wanted: replicas, p.unavailable: max(0, replicas-set.Status.AvailableReplicas),
			p.updated: set.Status.UpdatedAvailableReplicas, p.wantedUpdated: set.Status.ExpectedUpdatedReplicas,
		} {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), set.Namespace, set.Name)
		}
	}
}
