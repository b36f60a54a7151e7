package certs

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// gate stands between a rotator and the API server. It can end the rotator at a write, be closed, and tell another time.
type gate struct {
	*httptest.Server

	mu sync.Mutex
	// ahead is by how much the API server's clock seems to be ahead.
	ahead time.Duration
	// killBefore and killAfter end the rotator at its next write.
	killBefore, killAfter bool
	rotator               *localcluster.Process
	closed                bool
	// collections are the reads of collections: path and query.
	collections []*url.URL
}

func newGate(t *testing.T) *gate {
	t.Helper()
	target, err := url.Parse(cluster.Config.Host)
	require.NoError(t, err)
	// Whoever asks brings their own token.
	transport, err := rest.TransportFor(&rest.Config{Host: cluster.Config.Host, TLSClientConfig: rest.TLSClientConfig{
		CAFile: cluster.Config.CAFile, CAData: cluster.Config.CAData, Insecure: cluster.Config.Insecure,
	}})
	require.NoError(t, err)
	g := &gate{}
	forward := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: g.answered,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.asked(r)
		forward.ServeHTTP(w, r)
	}))
	g.EnableHTTP2 = true
	g.StartTLS()
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

func isWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "/events")
}

func (g *gate) asked(r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		panic(http.ErrAbortHandler)
	}
	// An object that is read by its name has no query.
	if r.Method == http.MethodGet && r.URL.RawQuery != "" {
		g.collections = append(g.collections, r.URL)
	}
	if isWrite(r) && g.killBefore {
		g.killBefore = false
		g.rotator.Kill()
		panic(http.ErrAbortHandler)
	}
}

func (g *gate) answered(response *http.Response) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if isWrite(response.Request) && g.killAfter {
		g.killAfter = false
		g.rotator.Kill()
	}
	response.Header.Set("Date", time.Now().Add(g.ahead).UTC().Format(http.TimeFormat))
	return nil
}

// shut closes or opens the gate. Closing it breaks all connections.
func (g *gate) shut(closed bool) {
	g.mu.Lock()
	g.closed = closed
	g.mu.Unlock()
	if closed {
		g.CloseClientConnections()
	}
}

func (g *gate) setClock(ahead time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ahead = ahead
}

// start runs a rotator behind the gate.
func (g *gate) start(l *lab, flags ...string) *localcluster.Process {
	l.Helper()
	dir := l.TempDir()
	path, err := cluster.KubeconfigFor(l.Context(), "cert-manager", dir)
	require.NoError(l, err)
	config, err := clientcmd.LoadFromFile(path)
	require.NoError(l, err)
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthority = g.URL, ""
		c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})
	}
	require.NoError(l, clientcmd.WriteToFile(*config, path))
	p := l.start(append([]string{"--kubeconfig", path}, flags...)...)
	g.mu.Lock()
	g.rotator = p
	g.mu.Unlock()
	return p
}

// kill arms the gate.
func (g *gate) kill(before bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.killBefore, g.killAfter = before, !before
}
