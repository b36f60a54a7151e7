package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"time"
)

// backdate is how long before now certificates begin to be valid: clocks may differ by as much.
const backdate = time.Hour

const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
	authorityName    = "flotilla-webhook-ca"
	servingName      = "flotilla-webhook"
	serialBits       = 128
)

// Certificate is a parsed certificate with its PEM form.
type Certificate struct {
	*x509.Certificate
}

// PEM is the certificate as one block without headers.
func (c Certificate) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: c.Raw})
}

// Fingerprint is the SHA-256 of the certificate in hexadecimal.
func (c Certificate) Fingerprint() string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// Is says whether two certificates are the same one.
func (c Certificate) Is(other Certificate) bool { return bytes.Equal(c.Raw, other.Raw) }

// issuedBy says whether an authority signed the certificate. Most are ruled out by their key identifiers, which is cheap.
func (c Certificate) issuedBy(issuer Certificate) bool {
	if len(c.AuthorityKeyId) > 0 && len(issuer.SubjectKeyId) > 0 && !bytes.Equal(c.AuthorityKeyId, issuer.SubjectKeyId) {
		return false
	}
	return c.CheckSignatureFrom(issuer.Certificate) == nil
}

// issuedAt is when the certificate was made.
func (c Certificate) issuedAt() time.Time { return c.NotBefore.Add(backdate) }

// isTrustworthy says whether the certificate may be in a bundle.
func (c Certificate) isTrustworthy(now time.Time) bool {
	return c.Certificate != nil && c.IsCA && c.BasicConstraintsValid && now.Before(c.NotAfter)
}

// Pair is a certificate with its private key.
type Pair struct {
	Certificate
	Key crypto.Signer
}

// KeyPEM is the key in PKCS#8.
func (p Pair) KeyPEM() ([]byte, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return nil, fmt.Errorf("encoding the private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: raw}), nil
}

// isUsable says whether the pair can sign what clients accept: it is an authority that may sign, and valid. Clocks are set back:
// that it begins a little later says nothing.
func (p *Pair) isUsable(now time.Time) bool {
	return p != nil && p.isTrustworthy(now) && (p.KeyUsage == 0 || p.KeyUsage&x509.KeyUsageCertSign != 0) &&
		p.NotBefore.Before(now.Add(skewSuspends))
}

// ParsePair reads exactly one certificate and the key that belongs to it.
func ParsePair(certificate, key []byte) (*Pair, error) {
	list, err := ParseCertificates(certificate)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("%d certificates where one is expected", len(list))
	}
	block, rest := pem.Decode(key)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("the key is not one PEM block")
	}
	parsed, err := parseKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	public, ok := parsed.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(list[0].PublicKey) {
		return nil, errors.New("certificate and key do not belong together")
	}
	return &Pair{list[0], parsed}, nil
}

func parseKey(der []byte) (crypto.Signer, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, fmt.Errorf("a key of type %T cannot sign", key)
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	return nil, errors.New("the key is in no known form")
}

// ParseCertificates reads a list of PEM blocks. Text between the blocks is allowed, other blocks are not.
func ParseCertificates(data []byte) ([]Certificate, error) {
	var list []Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != blockCertificate {
			return nil, fmt.Errorf("a PEM block %q where certificates are expected", block.Type)
		}
		parsed, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing certificate: %w", err)
		}
		list = append(list, Certificate{parsed})
	}
	if len(list) == 0 {
		return nil, errors.New("no certificate")
	}
	return list, nil
}

// NewAuthority makes an authority that signs serving certificates and nothing else.
func NewAuthority(random io.Reader, made, until time.Time) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	id, err := keyID(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		// Every generation has a name of its own, so that tools and logs can tell them apart.
		Subject:               pkix.Name{CommonName: authorityName + " " + hex.EncodeToString(id)[:16]},
		SubjectKeyId:          id,
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		NotBefore:             made.Add(-backdate),
		NotAfter:              until,
	}
	return sign(random, template, template, key, key)
}

// parseWhatCan reads the certificates among whatever else there is.
func parseWhatCan(data []byte) (list []Certificate) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return list
		}
		if parsed, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == blockCertificate {
			list = append(list, Certificate{parsed})
		}
	}
}

// Issue makes a serving certificate for the names, DNS names and IP addresses alike. It never outlives its issuer.
func Issue(random io.Reader, issuer *Pair, names []string, made, until time.Time) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	id, err := keyID(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		// Host names may be longer than a common name can be; they are among the alternative names.
		Subject:               pkix.Name{CommonName: servingName},
		SubjectKeyId:          id,
		AuthorityKeyId:        issuer.SubjectKeyId,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		NotBefore:             made.Add(-backdate),
		NotAfter:              earlier(until, issuer.NotAfter),
	}
	template.DNSNames, template.IPAddresses = splitNames(names)
	return sign(random, template, issuer.Certificate.Certificate, key, issuer.Key)
}

func sign(random io.Reader, template, parent *x509.Certificate, key *ecdsa.PrivateKey, signer crypto.Signer) (*Pair, error) {
	serial, err := newSerial(random)
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	raw, err := x509.CreateCertificate(random, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("parsing what was signed: %w", err)
	}
	return &Pair{Certificate{parsed}, key}, nil
}

func newSerial(random io.Reader) (*big.Int, error) {
	for {
		raw := make([]byte, serialBits/8)
		if _, err := io.ReadFull(random, raw); err != nil {
			return nil, fmt.Errorf("drawing a serial number: %w", err)
		}
		// The first bit would make it negative in encodings that are not careful.
		raw[0] &= 0x7f
		if serial := new(big.Int).SetBytes(raw); serial.Sign() > 0 {
			return serial, nil
		}
	}
}

// keyID is the first 160 bits of the SHA-256 of the public key.
func keyID(public *ecdsa.PublicKey) ([]byte, error) {
	raw, err := public.Bytes()
	if err != nil {
		return nil, fmt.Errorf("encoding the public key: %w", err)
	}
	sum := sha256.Sum256(raw)
	return sum[:20], nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// splitNames sorts names into DNS names and addresses.
func splitNames(names []string) (dns []string, ips []net.IP) {
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			ips = append(ips, ip)
		} else {
			dns = append(dns, name)
		}
	}
	return dns, ips
}

// hasNames says whether a certificate is for exactly these names, in whatever order and spelling.
func hasNames(c Certificate, names []string) bool {
	dns, ips := splitNames(names)
	return slices.Equal(canonical(dns, ips), canonical(c.DNSNames, c.IPAddresses))
}

func canonical(dns []string, ips []net.IP) []string {
	var out []string
	for _, name := range dns {
		out = append(out, strings.ToLower(name))
	}
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}
