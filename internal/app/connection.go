package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// connection says once that the API server is away, and once that it is back. client-go tries again by itself; what it
// would say about every attempt is left out.
type connection struct {
	log logr.Logger

	mu   sync.Mutex
	away bool
	// told are the failures other than a lost connection that have been logged, by what they are about.
	told map[string]bool
}

func newConnection(log logr.Logger) *connection {
	return &connection{log: log, told: map[string]bool{}}
}

// wrap observes every request.
func (c *connection) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		switch {
		case err == nil:
			c.back()
		case r.Context().Err() == nil:
			// Whatever went wrong, it was no answer.
			c.lost(r.URL.Host, err)
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (c *connection) lost(host string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.away {
		c.away = true
		c.log.Info("the API server cannot be reached; waiting for it", "host", host, "error", err.Error())
	}
}

func (c *connection) back() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		c.away = false
		c.log.Info("the API server answers again")
	}
}

// watchFailed is what informers call when a list or watch ends with an error. They try again by themselves.
func (c *connection) watchFailed(_ context.Context, r *cache.Reflector, err error) {
	switch {
	case apierrors.IsForbidden(err):
		c.once(err.Error(), "a permission is missing; grant it to the ServiceAccount (deploy/ has the role)", err)
	case apierrors.IsNotFound(err):
		c.once(err.Error(), "the API server does not know the resource; are the CRDs installed (deploy/crds)?", err)
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), errors.Is(err, io.EOF), kube.IsLost(err):
		c.log.V(4).Info("a watch ended and is begun anew", "error", err.Error())
	default:
		c.once(err.Error(), "watching failed; trying again", err)
	}
}

func (c *connection) once(about, message string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.told[about] {
		c.told[about] = true
		c.log.Error(err, message)
	}
}

// quiet is a sink for the log of client-go that leaves out what connection and lease say already.
type quiet struct {
	logr.LogSink
}

func (q quiet) Error(err error, message string, keysAndValues ...any) {
	if err != nil && (kube.IsLost(err) || isLostText(err.Error())) || isLostText(message) || message == notCreated {
		return
	}
	q.LogSink.Error(err, message, keysAndValues...)
}

// isLostText is for errors that were formatted on their way.
func isLostText(s string) bool {
	for _, part := range []string{"connection refused", "connection reset", "EOF", "context deadline exceeded", "client connection lost", "i/o timeout"} {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

func (q quiet) WithValues(keysAndValues ...any) logr.LogSink {
	return quiet{q.LogSink.WithValues(keysAndValues...)}
}

func (q quiet) WithName(name string) logr.LogSink { return quiet{q.LogSink.WithName(name)} }

// shutdownGrace bounds how long the servers wait for requests that are under way.
const shutdownGrace = 5 * time.Second
