package certs

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serve answers handshakes with the pair that get returns, until the test ends.
func serve(t *testing.T, get func() *Pair) string {
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		p := get()
		return &tls.Certificate{Certificate: [][]byte{p.Raw}, PrivateKey: p.Key}, nil
	}})
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake() // The client says what it thinks of it.
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestTheWatchdogTellsWhatTheWebhookServes(t *testing.T) {
	s := published(t)
	r := s.rotators[0]
	served := s.pair().Pair
	address := serve(t, func() *Pair { return served })
	asked := ""
	r.dial = func(ctx context.Context, network, wanted string) (net.Conn, error) {
		asked = wanted
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	require.Zero(t, r.probe(t.Context(), 3))
	require.Equal(t, "flotilla-webhook.flotilla-system.svc:443", asked)
	require.Equal(t, 1.0, s.gauge("probe_success"))
	require.Equal(t, float64(served.NotAfter.Unix()), s.gauge("probe_not_after_timestamp_seconds"))

	other, err := Issue(s.bytes, s.foreignAuthority(), []string{"flotilla-webhook.flotilla-system.svc"}, s.now, s.now.Add(day))
	require.NoError(t, err)
	served = other
	for i := range probeFailures {
		require.Empty(t, s.events[EventProbeFailed])
		require.Equal(t, i+1, r.probe(t.Context(), i))
	}
	require.Len(t, s.events[EventProbeFailed], 1)
	require.Zero(t, s.gauge("probe_success"))
	require.Equal(t, float64(other.NotAfter.Unix()), s.gauge("probe_not_after_timestamp_seconds"))

	served = s.pair().Pair
	s.now = s.now.Add(100 * day)
	require.Equal(t, 1, r.probe(t.Context(), 0), "expired")

	r.dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
	}
	require.Zero(t, r.probe(t.Context(), 4), "that nobody answers says nothing about certificates")
	require.Less(t, probeTimeout, time.Minute)
}

// gauge is what the acting rotator exports under that name.
func (s *scene) gauge(name string) float64 {
	families, err := s.registry.Gather()
	require.NoError(s, err)
	for _, f := range families {
		if f.GetName() == "flotilla_certs_"+name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(s, "no metric "+name)
	return 0
}
