package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/legacyregistry"
)

// servers are the HTTP servers of a process.
type servers struct {
	log       logr.Logger
	component Runnable
	ready     atomic.Bool
	running   []*http.Server
}

// start listens on all addresses that are not off.
func (s *servers) start(o *Options, registry *prometheus.Registry) error {
	health := http.NewServeMux()
	health.HandleFunc("GET /livez", s.live)
	health.HandleFunc("GET /healthz", s.live)
	health.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if !s.ready.Load() {
			http.Error(w, "the caches are not full yet", http.StatusServiceUnavailable)
			return
		}
		if c, ok := s.component.(Readier); ok {
			if err := c.Ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		answer(w, r)
	})
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", promhttp.HandlerFor(
		prometheus.Gatherers{legacyregistry.DefaultGatherer, registry}, promhttp.HandlerOpts{}))
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	for _, e := range []struct {
		flag, address string
		handler       http.Handler
	}{
		{"health-probe-bind-address", o.HealthAddress, health},
		{"metrics-bind-address", o.MetricsAddress, metrics},
		{"pprof-bind-address", o.ProfileAddress, profiles},
	} {
		if e.address == off {
			continue
		}
		if err := s.listen(e.address, e.handler); err != nil {
			return fmt.Errorf("--%s: %w (choose another address, or 0 for none)", e.flag, err)
		}
	}
	return nil
}

// live answers that the process need not be ended.
func (s *servers) live(w http.ResponseWriter, r *http.Request) {
	if c, ok := s.component.(Liver); ok {
		if err := c.Alive(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	answer(w, r)
}

func answer(w http.ResponseWriter, _ *http.Request) {
	// A client that has gone misses nothing.
	_, _ = w.Write([]byte("ok"))
}

func (s *servers) listen(address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	s.running = append(s.running, server)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error(err, "a server ended", "address", address)
		}
	}()
	return nil
}

func (s *servers) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	for _, server := range s.running {
		if err := server.Shutdown(ctx); err != nil {
			s.log.V(2).Info("a server did not close in order", "error", err.Error())
		}
	}
}
