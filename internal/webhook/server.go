package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/app"
)

// route is a path with what works on it.
type route struct {
	path string
	// limit is the largest body.
	limit  int64
	handle Handle
}

// Times of the connection. The API server gives up an idle connection after 90 seconds: it must be the one that does, or a
// request meets a connection that is being closed.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 35 * time.Second
	idleTimeout   = 5 * time.Minute
	maxHeader     = 16 << 10
)

// Server serves webhooks with the pair of a Secret.
type Server struct {
	env      *app.Env
	options  Options
	keeper   *Keeper
	metrics  *metrics
	gate     *gatekeeper
	routes   []route
	secrets  cache.SharedIndexInformer
	classes  *StorageClasses
	sidecars *Sidecars
	start    func(context.Context)
	listener net.Listener
}

// New builds a server without any path.
func New(env *app.Env, o Options) (*Server, error) {
	s := &Server{env: env, options: o, metrics: newMetrics(env.Metrics)}
	s.gate = &gatekeeper{log: env.Log, clock: env.Clock, metrics: s.metrics, budget: o.inFlight()}
	s.keeper = NewKeeper(o.host(), env.Clock.Now, func(result string) { s.metrics.reloads.WithLabelValues(result).Inc() })
	namespace, name, _ := strings.Cut(o.TLSSecret, "/")
	factory := kubeinformers.NewSharedInformerFactoryWithOptions(env.Kube, 0, kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(l *metav1.ListOptions) {
			l.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	s.secrets, s.start = factory.Core().V1().Secrets().Informer(), factory.StartWithContext
	// A deletion changes nothing: what was loaded goes on being served.
	_, err := s.secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: s.load, UpdateFunc: func(_, o any) { s.load(o) }})
	if err = errors.Join(err, s.secrets.SetWatchErrorHandlerWithContext(env.WatchFailed)); err != nil {
		return nil, fmt.Errorf("setting up the informer: %w", err)
	}
	if s.classes, err = newStorageClasses(env); err != nil {
		return nil, err
	}
	if s.sidecars, err = newSidecars(env, o); err != nil {
		return nil, err
	}
	return s, nil
}

// Handle adds a path, before the server works. Bodies are at most as large as limit.
func (s *Server) Handle(path string, limit int64, handle Handle) {
	s.routes = append(s.routes, route{path, limit, handle})
}

// Observe counts a converted object.
func (s *Server) Observe(kind, from, to, result string) {
	s.metrics.converted.WithLabelValues(kind, from, to, result).Inc()
}

func (s *Server) load(o any) {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	err, news := s.keeper.Load(secret)
	switch {
	case err != nil && news:
		s.env.Log.Info("the Secret's pair is not taken into use", "secret", s.options.TLSSecret, "reason", err.Error())
	case err == nil && news:
		leaf := s.keeper.Leaf()
		s.metrics.notBefore.Set(float64(leaf.NotBefore.Unix()))
		s.metrics.notAfter.Set(float64(leaf.NotAfter.Unix()))
		s.env.Log.Info("serving with another pair", "serial", leaf.SerialNumber.Text(16), "notAfter", leaf.NotAfter)
	}
}

// Start listens. The Secret may come later: until then handshakes are refused.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.BindAddress)
	if err != nil {
		return fmt.Errorf("--bind-address: %w", err)
	}
	s.listener = listener
	s.start(ctx)
	s.classes.factory.StartWithContext(ctx)
	s.sidecars.start(ctx)
	return nil
}

// Ready says what keeps the server from being asked. The state of webhook configurations is no part of it.
func (s *Server) Ready() error {
	switch {
	case s.gate.draining.Load():
		return errors.New("shutting down")
	case !s.keeper.IsGood():
		return fmt.Errorf("there is no valid serving pair in Secret %s", s.options.TLSSecret)
	}
	if err := s.classes.Synced(); err != nil {
		return err
	}
	return s.sidecars.Ready()
}

// Work serves until the context ends, and then for a while longer, until nobody asks any more.
func (s *Server) Work(ctx context.Context, _ int) {
	mux := http.NewServeMux()
	for _, r := range s.routes {
		mux.HandleFunc(r.path, s.gate.guard(r.path, r.limit, r.handle))
	}
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: log.New(handshakes{s}, "", 0),
		// HTTP/1.1 only: the API server uses no other here.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		BaseContext:  func(net.Listener) context.Context { return logr.NewContext(context.WithoutCancel(ctx), s.env.Log) },
	}
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(tls.NewListener(s.listener, &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: s.keeper.Get, NextProtos: []string{"http/1.1"},
			// A resumed session would not look at the certificate again.
			SessionTicketsDisabled: true,
		}))
	}()
	select {
	case err := <-served:
		s.env.Log.Error(err, "serving ended")
		return
	case <-ctx.Done():
	}
	s.drain(server, served)
}

// drain goes on serving while endpoints are being updated, asking every client not to come back, and then waits for what is
// under way. Connections that were closed at once would lose the requests that are just being sent on them.
func (s *Server) drain(server *http.Server, served <-chan error) {
	s.gate.draining.Store(true)
	s.env.Log.Info("shutting down", "after", s.options.ShutdownDelay)
	timer := time.NewTimer(s.options.ShutdownDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case err := <-served:
		s.env.Log.Error(err, "serving ended")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.options.ShutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		s.env.Log.Error(err, "some requests were cut off")
	}
}

// handshakes counts what the TLS library logs.
type handshakes struct{ *Server }

func (h handshakes) Write(line []byte) (int, error) {
	reason := "other"
	switch {
	case bytes.Contains(line, []byte(errNoCertificate.Error())):
		reason = "no_certificate"
	case bytes.Contains(line, []byte("bad certificate")), bytes.Contains(line, []byte("unknown certificate")):
		// The client does not trust us: the first sign of a wrong caBundle.
		reason = "bad_certificate"
	case bytes.Contains(line, []byte("TLS handshake error")):
		reason = "protocol"
	}
	h.metrics.handshakes.WithLabelValues(reason).Inc()
	h.env.Log.V(4).Info("connection", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}
