package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keeper holds the pair that is served. A handshake reads it without a lock; a pair that is no good never replaces one that
// is.
type Keeper struct {
	// Host is what the pair must be for.
	host string
	now  func() time.Time

	current atomic.Pointer[served]
	// mu guards what was last refused, so that it is told once.
	mu      sync.Mutex
	refused string
	count   func(result string)
}

// served is a pair with its parsed leaf.
type served struct {
	pair *tls.Certificate
	leaf *x509.Certificate
}

// Results of a reload.
const (
	reloadLoaded    = "loaded"
	reloadUnchanged = "unchanged"
	reloadRejected  = "rejected"
)

// errNoCertificate ends handshakes before there is a pair.
var errNoCertificate = errors.New("no serving certificate yet")

// issuerKey holds the certificate of the leaf's issuer.
const issuerKey = "ca.crt"

// backdate is by how much a clock may be behind.
const backdate = time.Hour

// NewKeeper makes a keeper of pairs for the host. count is told of every reload.
func NewKeeper(host string, now func() time.Time, count func(result string)) *Keeper {
	return &Keeper{host: host, now: now, count: count}
}

// Load takes an offered pair into use if it is good, and says why if it is not. told is whether that is news.
func (k *Keeper) Load(o offered) (err error, told bool) { //nolint:revive // The error is a finding, not a failure.
	fresh, err := k.check(o)
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if told = k.refused != o.version; told {
			k.count(reloadRejected)
		}
		k.refused = o.version
		return err, told
	}
	// What is sent beside the certificate may change without it.
	if old := k.current.Load(); old != nil && slices.EqualFunc(old.pair.Certificate, fresh.pair.Certificate, bytes.Equal) {
		k.count(reloadUnchanged)
		return nil, false
	}
	k.current.Store(fresh)
	k.count(reloadLoaded)
	return nil, true
}

// check judges a pair: its parts belong together, it is valid now and for the host, it may serve, and its issuer is the one
// that is said to be.
func (k *Keeper) check(o offered) (*served, error) {
	if o.err != nil {
		return nil, o.err
	}
	data := o.data
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the pair: %w", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("parsing the certificate: %w", err)
	}
	now := k.now()
	if now.Before(leaf.NotBefore.Add(-backdate)) || !now.Before(leaf.NotAfter) {
		return nil, fmt.Errorf("the certificate is valid from %s to %s", leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if err := leaf.VerifyHostname(k.host); err != nil {
		return nil, fmt.Errorf("the certificate is for others: %w", err)
	}
	if err := verify(leaf, pair.Certificate[1:], data[issuerKey], now); err != nil {
		return nil, err
	}
	pair.Leaf = leaf
	return &served{&pair, leaf}, nil
}

// verify makes sure that the certificate may serve and, if its issuer is named, is by it.
func verify(leaf *x509.Certificate, chain [][]byte, issuer []byte, now time.Time) error {
	options := x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
	all := []*x509.Certificate{leaf}
	for _, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("parsing what is beside the certificate: %w", err)
		}
		options.Intermediates.AddCert(c)
		all = append(all, c)
	}
	if len(issuer) > 0 {
		roots := certificatesIn(issuer)
		if len(roots) == 0 {
			return fmt.Errorf("%s holds no certificate", issuerKey)
		}
		for _, c := range roots {
			options.Roots.AddCert(c)
		}
		all = append(all, roots...)
	} else {
		// Without an issuer only the certificate's own words count.
		options.Roots.AddCert(leaf)
	}
	var err error
	for _, options.CurrentTime = range soon(all, now) {
		if _, err = leaf.Verify(options); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the certificate is not what it is said to be: %w", err)
}

// certificatesIn are those that can be read.
func certificatesIn(data []byte) (list []*x509.Certificate) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			list = append(list, c)
		}
	}
	return list
}

// soon are the times at which certificates are verified: where the clock is behind, those at which one of them begins to be
// valid, and now, whose error is the one to tell.
func soon(all []*x509.Certificate, now time.Time) (times []time.Time) {
	for _, c := range all {
		if ahead := c.NotBefore.Sub(now); ahead > 0 && ahead <= backdate {
			times = append(times, c.NotBefore)
		}
	}
	return append(times, now)
}

// Get is the pair of a handshake.
func (k *Keeper) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s := k.current.Load(); s != nil {
		return s.pair, nil
	}
	return nil, errNoCertificate
}

// Leaf is the certificate in use; nil without any.
func (k *Keeper) Leaf() *x509.Certificate {
	if s := k.current.Load(); s != nil {
		return s.leaf
	}
	return nil
}

// IsGood says whether there is a pair that has not expired.
func (k *Keeper) IsGood() bool {
	leaf := k.Leaf()
	return leaf != nil && k.now().Before(leaf.NotAfter)
}
