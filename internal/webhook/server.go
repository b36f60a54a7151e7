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

	"github.com/flotilla-k8s/flotilla/internal/app"
)

// route is a path with what works on it.
type route struct {
	path   string
	accept Accept
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
	classes  *StorageClasses
	sidecars *Sidecars
	start    func(context.Context)
	listener net.Listener
}

// New builds a server without any path.
func New(env *app.Env, o Options) (*Server, error) {
	s := &Server{env: env, options: o, metrics: newMetrics(env.Metrics)}
	s.gate = &gatekeeper{log: env.Log, clock: env.Clock, metrics: s.metrics, budget: o.inFlight(), bodyWithin: bodyWithin}
	s.keeper = NewKeeper(o.host(), env.Clock.Now, func(result string) { s.metrics.reloads.WithLabelValues(result).Inc() })
	var err error
	if s.classes, err = newStorageClasses(env); err != nil {
		return nil, err
	}
	namespaces, err := newNamespaces(env)
	if err != nil {
		return nil, err
	}
	if s.sidecars, err = newSidecars(env, o, namespaces); err != nil {
		return nil, err
	}
	if o.TLSCertFile != "" {
		s.start = func(ctx context.Context) { go fromFiles(ctx, env.Clock, o.TLSCertFile, o.TLSKeyFile, s.take) }
		return s, nil
	}
	s.start, err = fromSecret(env, o.TLSSecret, s.take)
	return s, err
}

// Handle adds a path, before the server works.
func (s *Server) Handle(path string, accept Accept, handle Handle) {
	s.routes = append(s.routes, route{path, accept, handle})
}

// take takes a pair into use if it is good.
func (s *Server) take(o offered) bool {
	err, news := s.keeper.Load(o)
	switch {
	case err != nil && news:
		s.env.Log.Info("the pair is not taken into use", "from", s.options.pair(), "reason", err.Error())
	case err == nil && news:
		leaf := s.keeper.Leaf()
		serial := leaf.SerialNumber.Text(16)
		s.metrics.serving(serial, leaf.NotBefore, leaf.NotAfter)
		s.env.Log.Info("serving with another pair", "serial", serial, "notAfter", leaf.NotAfter)
	}
	return err == nil
}

// Start listens. The Secret may come later: until then handshakes are refused.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.BindAddress)
	if err != nil {
		return app.Usage(fmt.Errorf("--bind-address: %w (choose another address)", err))
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
		return fmt.Errorf("there is no valid serving pair in %s", s.options.pair())
	}
	for _, check := range []func() error{s.classes.Synced, s.sidecars.Ready, s.greet} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// greetWithin is how long a handshake with ourselves may take.
const greetWithin = time.Second

// greet makes sure that whoever calls is answered, with the pair that is loaded.
func (s *Server) greet() error {
	ctx, cancel := context.WithTimeout(context.Background(), greetWithin)
	defer cancel()
	loaded := s.keeper.Leaf()
	dialer := tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Whether others trust it is not the question here.
		InsecureSkipVerify: true, //nolint:gosec // The certificate is compared below.
		VerifyConnection: func(c tls.ConnectionState) error {
			if !c.PeerCertificates[0].Equal(loaded) && !c.PeerCertificates[0].Equal(s.keeper.Leaf()) {
				return errors.New("another certificate is served than the one that is loaded")
			}
			return nil
		},
	}}
	connection, err := dialer.DialContext(ctx, "tcp", reachable(s.listener.Addr()))
	if err != nil {
		return fmt.Errorf("a handshake with ourselves: %w", err)
	}
	return connection.Close() //nolint:wrapcheck // Nothing was sent.
}

// reachable is where a listener on all addresses can be called on this machine.
func reachable(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return address.String()
	}
	return net.JoinHostPort("localhost", port)
}

// Work serves until the context ends, and then for a while longer, until nobody asks any more.
func (s *Server) Work(ctx context.Context, _ int) {
	mux := http.NewServeMux()
	for _, r := range s.routes {
		mux.HandleFunc(r.path, s.gate.guard(r.path, r.accept, r.handle))
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
