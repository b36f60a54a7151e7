package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
)

const (
	probeEvery   = time.Minute
	probeTimeout = 5 * time.Second
	// probeFailures is how many failures in a row are told of.
	probeFailures = 5
)

// watchdog looks from time to time at what the webhook serves, as the API server would. Nothing is decided by it: it tells.
func (r *Rotator) watchdog(ctx context.Context) {
	tick := r.env.Clock.NewTicker(probeEvery)
	defer tick.Stop()
	for distrusted := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
			distrusted = r.probe(ctx, distrusted)
		}
	}
}

// probe connects once and returns how often in a row the webhook was distrusted.
func (r *Rotator) probe(ctx context.Context, distrusted int) int {
	ca := r.cachedSecret(r.options.CASecret)
	if ca == nil {
		return 0
	}
	key := KeyBundle
	if r.options.Mode == ModePublishOnly {
		key = r.options.CAKey
	}
	leaf, err := r.handshake(ctx, parseWhatCan(ca.Data[key]))
	if leaf != nil {
		r.metrics.probeNotAfter.Set(float64(leaf.NotAfter.Unix()))
	}
	if err == nil {
		r.metrics.probeSuccess.Set(1)
		return 0
	}
	if ctx.Err() != nil {
		return distrusted
	}
	r.metrics.probeSuccess.Set(0)
	logr.FromContextOrDiscard(ctx).V(2).Info("the webhook could not be probed", "error", err.Error())
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &unknown) && (!errors.As(err, &invalid) || invalid.Reason != x509.Expired) {
		return 0
	}
	if distrusted++; distrusted >= probeFailures {
		r.warn(EventProbeFailed, "", "the webhook serves what no caBundle trusts, %d times in a row: %v", distrusted, err)
	}
	return distrusted
}

// handshake makes a connection of its own and returns what is served, also if it is not trusted.
func (r *Rotator) handshake(ctx context.Context, bundle []Certificate) (leaf *x509.Certificate, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	host := r.options.Service + "." + r.options.Namespace + ".svc"
	conn, err := r.dial(ctx, "tcp", net.JoinHostPort(host, "443"))
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close() //nolint:errcheck // Nothing was sent.
	roots := x509.NewCertPool()
	for _, c := range bundle {
		roots.AddCert(c.Certificate)
	}
	now, _ := r.serverTime(r.env.Clock.Now())
	client := tls.Client(conn, &tls.Config{
		ServerName: host, MinVersion: tls.VersionTLS12,
		// It is verified here, so that what is served is known in any case.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			leaf = state.PeerCertificates[0]
			between := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: host, CurrentTime: now})
			return err //nolint:wrapcheck // The handshake wraps it.
		},
	})
	if err := client.HandshakeContext(ctx); err != nil {
		return leaf, fmt.Errorf("handshake: %w", err)
	}
	return leaf, nil
}
