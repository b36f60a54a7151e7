package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// signer is a certificate with its key, as others issue them.
type signer struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

// sign makes a certificate; by is nil for one by itself, key for a new one.
func sign(t *testing.T, by *signer, key *ecdsa.PrivateKey, isCA bool, from, until time.Time) *signer {
	t.Helper()
	var err error
	if key == nil {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "server"}, NotBefore: from, NotAfter: until, BasicConstraintsValid: true, IsCA: isCA,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{testHost},
	}
	if isCA {
		template.Subject.CommonName, template.KeyUsage, template.ExtKeyUsage, template.DNSNames = "authority", x509.KeyUsageCertSign, nil, nil
		if by != nil {
			template.Subject.CommonName = "intermediate"
		}
	}
	parent, with := template, key
	if by != nil {
		parent, with = by.Certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), with)
	require.NoError(t, err)
	c, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &signer{c, key}
}

func (s *signer) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Raw})
}

// offer is what a Secret of others has.
func offer(t *testing.T, version string, issuer []byte, leaf *signer, beside ...*signer) offered {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(leaf.key)
	require.NoError(t, err)
	chain := leaf.pem()
	for _, c := range beside {
		chain = slices.Concat(chain, c.pem())
	}
	return offered{version: version, data: map[string][]byte{
		corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), issuerKey: issuer,
	}}
}

func keeperAt(now *time.Time) (*Keeper, map[string]int) {
	results := map[string]int{}
	return NewKeeper(testHost, func() time.Time { return *now }, func(result string) { results[result]++ }), results
}

func TestWhatIsSentBesideTheCertificateIsReplacedToo(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	k, results := keeperAt(&now)
	until := now.Add(1000 * time.Hour)
	root := sign(t, nil, nil, true, now, until)
	old := sign(t, root, nil, true, now, until)
	renewed := sign(t, root, old.key, true, now, until)
	leaf := sign(t, old, nil, false, now, until)
	for i, beside := range [][]*signer{{old}, {old}, {renewed}, {renewed, old}} {
		err, _ := k.Load(offer(t, string(rune('a'+i)), root.pem(), leaf, beside...))
		require.NoError(t, err)
		pair, err := k.Get(nil)
		require.NoError(t, err)
		require.Len(t, pair.Certificate, 1+len(beside))
		require.Equal(t, beside[0].Raw, pair.Certificate[1])
	}
	require.Equal(t, map[string]int{reloadLoaded: 3, reloadUnchanged: 1}, results)
}

// TestAChainIsVerifiedAsOfNow: whoever calls does so now, too.
func TestAChainIsVerifiedAsOfNow(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	leafOf := func(issuer *signer) *signer { return sign(t, issuer, nil, false, now.Add(-30*day), now.Add(90*day)) }
	ends := sign(t, nil, nil, true, now.Add(-300*day), now.Add(30*day))
	ended := sign(t, nil, nil, true, now.Add(-300*day), now.Add(-day))
	root := sign(t, nil, nil, true, now.Add(-300*day), now.Add(300*day))
	endedBetween := sign(t, root, nil, true, now.Add(-300*day), now.Add(-day))
	for name, c := range map[string]struct {
		offer offered
		good  bool
	}{
		"the issuer ends before the certificate": {offer(t, "1", ends.pem(), leafOf(ends)), true},
		"the issuer has ended":                   {offer(t, "2", ended.pem(), leafOf(ended)), false},
		"what is between has ended":              {offer(t, "3", root.pem(), leafOf(endedBetween), endedBetween), false},
		"nobody says who the issuer is":          {offer(t, "4", nil, leafOf(ended)), true},
		"one of two issuers has ended":           {offer(t, "5", slices.Concat(ended.pem(), ends.pem()), leafOf(ends)), true},
		"the issuer is garbage":                  {offer(t, "6", []byte("garbage"), leafOf(ends)), false},
	} {
		k, _ := keeperAt(&now)
		err, _ := k.Load(c.offer)
		require.Equal(t, c.good, err == nil, "%s: %v", name, err)
	}
}

// TestScenario8TheIssuerMayBeNewToo has a clock that is behind both.
func TestScenario8TheIssuerMayBeNewToo(t *testing.T) {
	made := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	issuer := sign(t, nil, nil, true, made, made.Add(1000*time.Hour))
	for name, c := range map[string]struct {
		behind time.Duration
		leaf   time.Time
		good   bool
	}{
		"both at once":           {10 * time.Minute, made, true},
		"the certificate before": {10 * time.Minute, made.Add(-time.Hour), true},
		"the certificate after":  {30 * time.Minute, made.Add(20 * time.Minute), true},
		"too new an issuer":      {61 * time.Minute, made.Add(-2 * time.Hour), false},
	} {
		now := made.Add(-c.behind)
		k, _ := keeperAt(&now)
		err, _ := k.Load(offer(t, "1", issuer.pem(), sign(t, issuer, nil, false, c.leaf, made.Add(10*time.Hour))))
		require.Equal(t, c.good, err == nil, "%s: %v", name, err)
	}
}
