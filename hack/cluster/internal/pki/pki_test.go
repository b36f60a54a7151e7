package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"
)

func TestServerAndClientTrustEachOther(t *testing.T) {
	now := time.Now()
	authority, _, err := New(now)
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Serving(now)
	if err != nil {
		t.Fatal(err)
	}
	client, err := authority.Client("jane", []string{"system:masters"}, now)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM)
	pair := func(p Pair) []tls.Certificate {
		c, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{c}
	}
	a, b := net.Pipe()
	server := tls.Server(a, &tls.Config{Certificates: pair(serving), ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	user := tls.Client(b, &tls.Config{Certificates: pair(client), RootCAs: pool, ServerName: "127.0.0.1"})
	done := make(chan error, 1)
	go func() { done <- server.HandshakeContext(t.Context()) }()
	if err := user.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	subject := server.ConnectionState().PeerCertificates[0].Subject
	if subject.CommonName != "jane" || len(subject.Organization) != 1 || subject.Organization[0] != "system:masters" {
		t.Errorf("the server sees %v", subject)
	}
}
