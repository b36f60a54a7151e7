package webhook

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/certs"
	"github.com/flotilla-k8s/flotilla/internal/conversion"
)

func newGate(budget int64) *gatekeeper {
	return &gatekeeper{log: logr.Discard(), clock: clock.RealClock{}, metrics: newMetrics(prometheus.NewRegistry()), budget: budget, bodyWithin: time.Minute}
}

func echo(_ context.Context, body []byte) ([]byte, int, error) { return body, http.StatusOK, nil }

func send(t *testing.T, g *gatekeeper, limit int64, handle Handle, edit func(*http.Request), body string) *httptest.ResponseRecorder {
	t.Helper()
	r, w := newRequest("/convert?timeout=10s", body)
	if edit != nil {
		edit(r)
	}
	g.guard("/convert", Accept{Bytes: limit, Depth: maxDepth}, handle)(w, r)
	return w
}

func newRequest(path, body string) (*http.Request, *httptest.ResponseRecorder) {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r, httptest.NewRecorder()
}

func TestScenario14WhatIsNoReview(t *testing.T) {
	g := newGate(1 << 20)
	contentType := func(v string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Content-Type", v) }
	}
	require.Equal(t, http.StatusMethodNotAllowed, send(t, g, 99, echo, func(r *http.Request) { r.Method = http.MethodGet }, "").Code)
	require.Equal(t, http.StatusUnsupportedMediaType, send(t, g, 99, echo, contentType("text/plain"), "{}").Code)
	require.Equal(t, http.StatusOK, send(t, g, 99, echo, contentType("application/json; charset=utf-8"), "{}").Code)
}

// endless is a body that says nothing about its size and counts what is read of it.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += int64(len(p))
	return len(p), nil
}

func TestScenario15BodiesAreBounded(t *testing.T) {
	g := newGate(1 << 20)
	require.Equal(t, http.StatusRequestEntityTooLarge, send(t, g, 10, echo, nil, `{"a":"too long"}`).Code)
	body := &endless{}
	response := send(t, g, 1000, echo, func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(body), -1 }, "")
	require.Equal(t, http.StatusRequestEntityTooLarge, response.Code)
	require.LessOrEqual(t, body.read, int64(2000))

	busy := newGate(10)
	entered, leave := make(chan struct{}), make(chan struct{})
	slow := func(ctx context.Context, body []byte) ([]byte, int, error) {
		close(entered)
		<-leave
		return body, http.StatusOK, nil
	}
	first := make(chan int)
	go func() { first <- send(t, busy, 100, slow, nil, `{"a":123}`).Code }()
	<-entered
	response = send(t, busy, 100, echo, nil, `{"a":123}`)
	require.Equal(t, http.StatusTooManyRequests, response.Code)
	require.Equal(t, "1", response.Header().Get("Retry-After"))
	close(leave)
	require.Equal(t, http.StatusOK, <-first)
	require.Equal(t, http.StatusOK, send(t, busy, 100, echo, nil, `{"a":123}`).Code, "the budget is given back")
}

// TestAnnouncingMuchTakesNothingFromOthers: only what has arrived is charged, and it has to arrive in time.
func TestAnnouncingMuchTakesNothingFromOthers(t *testing.T) {
	serve := func(g *gatekeeper) *httptest.Server {
		server := httptest.NewServer(g.guard("/convert", Accept{Bytes: 32 << 20, Depth: maxDepth}, echo))
		t.Cleanup(server.Close)
		return server
	}
	g := newGate(1 << 20)
	server := serve(g)
	begin := func(server *httptest.Server, announced int) net.Conn {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		_, err = fmt.Fprintf(conn, "POST /convert HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", announced)
		require.NoError(t, err)
		return conn
	}
	for n := range 20 {
		begin(server, 32<<20)
		require.Eventually(t, func() bool { return g.inFlight.Load() == int64(n+1)*firstRoom }, 10*time.Second, time.Millisecond)
	}
	body := `{"a":"` + strings.Repeat("x", 256<<10) + `"}`
	answer, err := http.Post(server.URL, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, body, string(got))

	g = newGate(1 << 20)
	g.bodyWithin = 50 * time.Millisecond
	text, err := bufio.NewReader(begin(serve(g), 10)).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, text, "408 Request Timeout")
	require.Eventually(t, func() bool { return g.inFlight.Load() == 0 }, 10*time.Second, time.Millisecond)
}

func TestScenario16HostileJSON(t *testing.T) {
	g := newGate(1 << 24)
	for name, body := range map[string]string{
		"nested too deep":  strings.Repeat(`{"a":`, 10000) + "1" + strings.Repeat("}", 10000),
		"lists too deep":   strings.Repeat("[", 10000) + strings.Repeat("]", 10000),
		"a member twice":   `{"spec":{},"spec":{}}`,
		"twice below":      `{"a":[{"b":{"c":1,"d":2,"c":3}}]}`,
		"not a number":     `{"a":NaN}`,
		"cut off":          `{"a":`,
		"nothing closed":   `}`,
		"the wrong braces": `{"a":[}`,
	} {
		require.Equal(t, http.StatusBadRequest, send(t, g, 1<<20, echo, nil, body).Code, name)
	}
	for name, body := range map[string]string{
		"a name as a value":     `{"a":"a","b":["a","a"],"c":{"a":"a"}}`,
		"as deep as is allowed": strings.Repeat(`[`, 1000) + strings.Repeat("]", 1000),
	} {
		require.Equal(t, http.StatusOK, send(t, g, 1<<20, echo, nil, body).Code, name)
	}
}

// TestAnObjectOfAMillionKeysIsNotRead names them all differently: it is not one that is there twice.
func TestAnObjectOfAMillionKeysIsNotRead(t *testing.T) {
	object := func(keys int) string {
		var b strings.Builder
		for i := range keys {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		return `{"a":{` + strings.TrimSuffix(b.String(), ",") + `}}`
	}
	g := newGate(1 << 26)
	require.Equal(t, http.StatusOK, send(t, g, 1<<25, echo, nil, object(maxMembers-1)).Code)
	response := send(t, g, 1<<25, echo, nil, object(1_000_000))
	require.Equal(t, http.StatusBadRequest, response.Code)
	require.Contains(t, response.Body.String(), "more than 262144 members")
}

func TestScenario17APanicEndsNothing(t *testing.T) {
	g := newGate(1 << 20)
	boom := func(context.Context, []byte) ([]byte, int, error) { panic("boom") }
	response := send(t, g, 99, boom, nil, "{}")
	require.Equal(t, http.StatusInternalServerError, response.Code)
	require.NotContains(t, response.Body.String(), "boom")
	require.Equal(t, http.StatusOK, send(t, g, 99, echo, nil, "{}").Code)
	require.Zero(t, g.inFlight.Load())
}

func TestScenario61AnAnswerThatComesTooLateIsNone(t *testing.T) {
	g := newGate(1 << 20)
	slow := func(ctx context.Context, _ []byte) ([]byte, int, error) {
		<-ctx.Done()
		return nil, http.StatusOK, ctx.Err()
	}
	short := func(r *http.Request) { r.URL.RawQuery = "timeout=250ms" }
	require.Equal(t, http.StatusServiceUnavailable, send(t, g, 99, slow, short, "{}").Code)
	second, _ := newRequest("/convert?timeout=1s", "{}")
	require.LessOrEqual(t, patience(second), 800*time.Millisecond)
	failing := func(context.Context, []byte) ([]byte, int, error) {
		return nil, http.StatusInternalServerError, errors.New("could not decide")
	}
	require.Equal(t, http.StatusInternalServerError, send(t, g, 99, failing, nil, "{}").Code)
}

// TestWorkThatIsTooSlowIsNotWaitedFor has a handler that looks at no deadline: it is charged until it ends.
func TestWorkThatIsTooSlowIsNotWaitedFor(t *testing.T) {
	g := newGate(1 << 20)
	server, end := &Server{}, make(chan struct{})
	deaf := func(ctx context.Context, _ []byte) ([]byte, int, error) {
		if err := server.Afford(ctx, 1<<19); err != nil {
			return nil, http.StatusServiceUnavailable, err
		}
		<-end
		return nil, http.StatusOK, nil
	}
	short := func(r *http.Request) { r.URL.RawQuery = "timeout=250ms" }
	require.Equal(t, http.StatusServiceUnavailable, send(t, g, 99, deaf, short, "{}").Code)
	require.Greater(t, g.inFlight.Load(), int64(1<<19))
	close(end)
	require.Eventually(t, func() bool { return g.inFlight.Load() == 0 }, testPatience, time.Millisecond)
}

// TestWhatUnderstandingTakesIsCharged: some bytes of text can become kilobytes of memory.
func TestWhatUnderstandingTakesIsCharged(t *testing.T) {
	g := newGate(1 << 20)
	server := &Server{env: &app.Env{Log: logr.Discard(), Clock: clock.RealClock{}}, metrics: g.metrics}
	convert := func(ctx context.Context, body []byte) ([]byte, int, error) {
		return conversion.Handle(ctx, body, server)
	}
	// An object has as many members as that, of which each takes 600 bytes.
	body := func(members ...int) string {
		var objects []string
		for _, n := range members {
			objects = append(objects, `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"StatefulSet","metadata":{"name":"a"},"spec":{"lifecycle":{"preDelete":{`+
				numbered(n, `"l%d":{}`)+`}}}}`)
		}
		return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[` + strings.Join(objects, ",") + `]}}`
	}
	require.Equal(t, http.StatusOK, send(t, g, 32<<20, convert, nil, body(500)).Code)
	require.Equal(t, http.StatusOK, send(t, g, 32<<20, convert, nil, body(500, 500, 500, 500)).Code, "one after the other")
	require.Zero(t, g.inFlight.Load())

	// What there is never room for is readable all the same.
	bare := send(t, g, 32<<20, convert, nil, body(1000))
	require.Equal(t, http.StatusOK, bare.Code)
	require.Contains(t, bare.Body.String(), `"apiVersion":"apps.kruise.io/v1beta1"`)
	require.Contains(t, bare.Body.String(), `"l999":{}`)
	require.Zero(t, g.inFlight.Load())

	g.inFlight.Add(1 << 19)
	later := send(t, g, 32<<20, convert, nil, body(500))
	require.Equal(t, http.StatusTooManyRequests, later.Code)
	require.Equal(t, "1", later.Header().Get("Retry-After"))
	require.EqualValues(t, 1<<19, g.inFlight.Load())
}

func TestWhatCarriersOfObjectsTakeIsCharged(t *testing.T) {
	g := newGate(1 << 20)
	server := &Server{env: &app.Env{Log: logr.Discard(), Clock: clock.RealClock{}}, metrics: g.metrics}
	held := int64(0)
	admit := server.weighed(func(ctx context.Context, body []byte) ([]byte, int, error) {
		held = g.inFlight.Load()
		return echo(ctx, body)
	})
	body := func(members int) string {
		return `{"request":{"object":{"metadata":{"annotations":{"a":"{` + strings.ReplaceAll(numbered(members, `"l%d":{}`), `"`, `\"`) + `}"}}}}}`
	}
	require.Equal(t, http.StatusOK, send(t, g, 7<<20, admit, nil, body(500)).Code)
	require.Greater(t, held, int64(500*600))
	require.Zero(t, g.inFlight.Load())
	require.Equal(t, http.StatusRequestEntityTooLarge, send(t, g, 7<<20, admit, nil, body(5000)).Code)
	g.inFlight.Add(1 << 19)
	require.Equal(t, http.StatusTooManyRequests, send(t, g, 7<<20, admit, nil, body(500)).Code)
}

// numbered repeats a member.
func numbered(n int, member string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(member, i)
	}
	return strings.Join(all, ",")
}

func secret(t *testing.T, issuer *certs.Pair, host string, now time.Time, validity time.Duration, version string) *corev1.Secret {
	t.Helper()
	pair, err := certs.Issue(rand.Reader, issuer, []string{host}, now, now.Add(validity))
	require.NoError(t, err)
	data, err := (&certs.Serving{Pair: pair, Issuer: &issuer.Certificate}).Encode()
	require.NoError(t, err)
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Data: data}
}

func offerOf(s *corev1.Secret) offered { return offered{data: s.Data, version: s.ResourceVersion} }

func TestScenarios1To8WhichPairIsServed(t *testing.T) {
	const host = testHost
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	results := map[string]int{}
	k := NewKeeper(host, func() time.Time { return now }, func(result string) { results[result]++ })
	_, err := k.Get(nil)
	require.ErrorIs(t, err, errNoCertificate)
	require.False(t, k.IsGood())

	issuer, err := certs.NewAuthority(rand.Reader, now, now.Add(1000*time.Hour))
	require.NoError(t, err)
	good := secret(t, issuer, host, now, 10*time.Hour, "1")
	err, news := k.Load(offerOf(good))
	require.NoError(t, err)
	require.True(t, news)
	serial := k.Leaf().SerialNumber
	_, news = k.Load(offerOf(good))
	require.False(t, news)

	other, err := certs.NewAuthority(rand.Reader, now, now.Add(1000*time.Hour))
	require.NoError(t, err)
	garbage := good.DeepCopy()
	garbage.ResourceVersion, garbage.Data["tls.crt"] = "2", []byte("0123456789")
	mixed := secret(t, issuer, host, now, time.Hour, "3")
	mixed.Data["tls.key"] = good.Data["tls.key"]
	foreign := secret(t, issuer, host, now, time.Hour, "4")
	foreign.Data["ca.crt"] = other.PEM()
	for name, bad := range map[string]*corev1.Secret{
		"4 garbage": garbage, "5 a key of another pair": mixed, "5 another host": secret(t, issuer, "other.ns.svc", now, time.Hour, "5"),
		"5 expired": secret(t, issuer, host, now.Add(-3*time.Hour), time.Hour, "6"), "by another issuer than it says": foreign,
		"nothing": {ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}},
	} {
		err, news := k.Load(offerOf(bad))
		require.Error(t, err, name)
		require.True(t, news, name)
		_, news = k.Load(offerOf(bad))
		require.False(t, news, "it is told once")
		require.Equal(t, serial, k.Leaf().SerialNumber, name)
		require.True(t, k.IsGood())
	}
	now = now.Add(-70 * time.Minute)
	err, _ = k.Load(offerOf(secret(t, issuer, host, now.Add(70*time.Minute), time.Hour, "8")))
	require.NoError(t, err, "8 the clock is behind")
	now = now.Add(100 * time.Hour)
	require.False(t, k.IsGood(), "7 expired")
	pair, err := k.Get(nil)
	require.NoError(t, err, "and served all the same")
	require.NotNil(t, pair)
	err, _ = k.Load(offerOf(secret(t, issuer, host, now, time.Hour, "9")))
	require.NoError(t, err)
	require.True(t, k.IsGood())
	require.Equal(t, 3, results[reloadLoaded])
}

// TestScenario8AClockMayBeAnHourBehind, and no more.
func TestScenario8AClockMayBeAnHourBehind(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	issuer, err := certs.NewAuthority(rand.Reader, now, now.Add(1000*time.Hour))
	require.NoError(t, err)
	s := secret(t, issuer, testHost, now, 10*time.Hour, "1")
	block, _ := pem.Decode(s.Data[corev1.TLSCertKey])
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	for behind, isGood := range map[time.Duration]bool{0: true, time.Hour: true, time.Hour + time.Second: false, 90 * time.Minute: false} {
		k := NewKeeper(testHost, func() time.Time { return leaf.NotBefore.Add(-behind) }, func(string) {})
		err, _ := k.Load(offerOf(s))
		require.Equal(t, isGood, err == nil, "%s behind: %v", behind, err)
	}
	for before, isGood := range map[time.Duration]bool{time.Second: true, 0: false} {
		k := NewKeeper(testHost, func() time.Time { return leaf.NotAfter.Add(-before) }, func(string) {})
		err, _ := k.Load(offerOf(s))
		require.Equal(t, isGood, err == nil, "%s before its end: %v", before, err)
	}
}

// TestAnAnswerIsReadyBeforeTheCallerGivesUp leaves time to send it.
func TestAnAnswerIsReadyBeforeTheCallerGivesUp(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"timeout=10s": 9800 * time.Millisecond, "timeout=5s": 4800 * time.Millisecond, "timeout=25200ms": 25 * time.Second, "timeout=25100ms": 24900 * time.Millisecond,
		"timeout=30s": 25 * time.Second, "timeout=1h": 25 * time.Second, "": 25 * time.Second, "timeout=soon": 25 * time.Second, "timeout=-5s": 25 * time.Second,
		"timeout=200ms": time.Millisecond, "timeout=1ns": time.Millisecond,
	} {
		r, _ := newRequest("/convert?"+query, "{}")
		require.Equal(t, want, patience(r), query)
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	require.NoError(t, DefaultOptions().Check())
	for flag, spoil := range map[string]func(*Options){
		"bind-address":        func(o *Options) { o.BindAddress = "here" },
		"tls-secret":          func(o *Options) { o.TLSSecret = "only-a-name" },
		"service-name":        func(o *Options) { o.ServiceName = "No" },
		"history-namespace":   func(o *Options) { o.HistoryNamespace = "" },
		"max-conversion-body": func(o *Options) { o.MaxConversionBody = "much" },
		"max-inflight-bytes":  func(o *Options) { o.MaxInFlight = "-1" },
		"tls-cert-file":       func(o *Options) { o.TLSCertFile = "tls.crt" },
		"tls-key-file":        func(o *Options) { o.TLSKeyFile = "tls.key" },
		"shutdown-delay":      func(o *Options) { o.ShutdownDelay = -1 },
	} {
		o := DefaultOptions()
		spoil(o)
		require.ErrorContains(t, o.Check(), "--"+flag)
	}
}
