package cloneset

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	created, deleted, updatedInPlace prometheus.Counter
	syncs                            *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "flotilla", Subsystem: "cloneset", Name: name, Help: help})
	}
	m := &metrics{
		created:        counter("pods_created_total", "Pods created."),
		deleted:        counter("pods_deleted_total", "Pods deleted."),
		updatedInPlace: counter("pods_updated_in_place_total", "Pods whose in-place update was begun."),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "flotilla", Subsystem: "cloneset", Name: "syncs_total",
			Help: "Syncs by result: ok, waiting (for the caches), stalled, overtaken (by another writer), error.",
		}, []string{"result"}),
	}
	r.MustRegister(m.created, m.deleted, m.updatedInPlace, m.syncs)
	return m
}
