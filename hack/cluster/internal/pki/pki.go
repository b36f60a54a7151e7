// Package pki makes the certificates and keys of a local cluster.
//
// One authority signs the API server's certificate and a client certificate for every user. A user is whoever the
// certificate names: common name and organisations are user name and groups. That makes it cheap to give each
// component its own name in the audit log, and its own rights. The authority lives as long as the cluster.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const lifetime = 10 * 365 * 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	// PEM is the authority's certificate.
	PEM []byte
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// New makes an authority.
func New(now time.Time) (*Authority, Pair, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "flotilla-local-cluster"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	pair, err := sign(template, nil, nil, now)
	if err != nil {
		return nil, Pair{}, err
	}
	a, err := parse(pair)
	return a, pair, err
}

// Serving makes the certificate of a server on this machine.
func (a *Authority) Serving(now time.Time) (Pair, error) {
	return sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 96, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, a.key, now)
}

// Client makes the certificate of a user.
func (a *Authority) Client(user string, groups []string, now time.Time) (Pair, error) {
	return sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key, now)
}

// NewKey makes a key, in PEM: private and public.
func NewKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if private, err = encodeKey(key); err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, err
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// sign makes a certificate; without a parent it signs itself.
func sign(template, parent *x509.Certificate, signer crypto.Signer, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	if parent == nil {
		parent, signer = template, key
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return Pair{}, err
	}
	template.SerialNumber = serial
	// Clocks of containers on one machine may differ a little.
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	encoded, err := encodeKey(key)
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: encoded}, err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func parse(pair Pair) (*Authority, error) {
	certBlock, _ := pem.Decode(pair.Cert)
	keyBlock, _ := pem.Decode(pair.Key)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("the authority's certificate or key is not PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, PEM: pair.Cert}, nil
}
