package certs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Keys of the Secrets.
const (
	KeyCurrentCert = "current.crt"
	KeyCurrentKey  = "current.key"
	KeyNextCert    = "next.crt"
	KeyNextKey     = "next.key"
	KeyPrevious    = "previous.crt"
	KeyBundle      = "bundle.crt"
	KeyState       = "state.json"

	KeyServingCert = "tls.crt"
	KeyServingKey  = "tls.key"
	KeyIssuer      = "ca.crt"
)

// Annotations of the authority's Secret by which somebody asks for something, each with a time in RFC 3339.
const (
	AnnotationRenewServingAfter = "certs.flotilla-k8s.io/renew-serving-after"
	AnnotationPromoteAfter      = "certs.flotilla-k8s.io/promote-after"
	AnnotationRevokeBefore      = "certs.flotilla-k8s.io/revoke-before"
)

const (
	maxBundle      = 6
	maxBundleBytes = 8 << 10
)

// Retired is an authority that does not sign any more. Its key is gone.
type Retired struct {
	Certificate
	// SignedUntil is when it stopped.
	SignedUntil time.Time
}

// Authorities is what the authority's Secret holds.
type Authorities struct {
	// Current signs; Next is trusted already and signs nothing. nil: not usable as it is stored.
	Current, Next *Pair
	// Previous are the ones before, newest first; behind them those that have signed nothing.
	Previous []Retired
	// SigningSince is since when Current signs.
	SigningSince time.Time
	// Revoked are fingerprints of authorities that are to leave the bundle as soon as that fails nobody.
	Revoked []string
}

// Requests are what somebody asked for; zero: nothing.
type Requests struct {
	RenewServingAfter, PromoteAfter, RevokeBefore time.Time
}

type stateFile struct {
	Version      int            `json:"version"`
	SigningSince time.Time      `json:"signingSince"`
	Previous     []stateRetired `json:"previous"`
	Revoked      []string       `json:"revoked"`
}

type stateRetired struct {
	SHA256      string    `json:"sha256"`
	SignedUntil time.Time `json:"signedUntil"`
}

// Bundle is what every target is to trust: the signer, its successor, and those of which serving certificates may still be
// in use. Nothing expired, and nothing twice.
func (a *Authorities) Bundle(now time.Time) []Certificate {
	var list []Certificate
	size := 0
	add := func(c Certificate) {
		if !c.isTrustworthy(now) || len(list) == maxBundle || slices.ContainsFunc(list, c.Is) {
			return
		}
		if size += len(c.PEM()); size > maxBundleBytes {
			return
		}
		list = append(list, c)
	}
	for _, p := range []*Pair{a.Current, a.Next} {
		if p != nil {
			add(p.Certificate)
		}
	}
	for _, r := range a.Previous {
		add(r.Certificate)
	}
	return list
}

// EncodeBundle is PEM without headers, with one newline at the end.
func EncodeBundle(list []Certificate) []byte {
	var out bytes.Buffer
	for _, c := range list {
		out.Write(c.PEM())
	}
	return out.Bytes()
}

// Encode is the data of the authority's Secret. Keys of the Secret that are not ours are not in it.
func (a *Authorities) Encode(now time.Time) (map[string][]byte, error) {
	state := stateFile{Version: 1, SigningSince: a.SigningSince.UTC(), Previous: []stateRetired{}, Revoked: slices.Clone(a.Revoked)}
	if state.Revoked == nil {
		state.Revoked = []string{}
	}
	var previous []Certificate
	for _, r := range a.Previous {
		previous = append(previous, r.Certificate)
		state.Previous = append(state.Previous, stateRetired{r.Fingerprint(), r.SignedUntil.UTC()})
	}
	raw, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", KeyState, err)
	}
	data := map[string][]byte{KeyPrevious: EncodeBundle(previous), KeyBundle: EncodeBundle(a.Bundle(now)), KeyState: raw}
	for _, p := range []struct {
		pair      *Pair
		cert, key string
	}{{a.Current, KeyCurrentCert, KeyCurrentKey}, {a.Next, KeyNextCert, KeyNextKey}} {
		if data[p.key], err = p.pair.KeyPEM(); err != nil {
			return nil, err
		}
		data[p.cert] = p.pair.PEM()
	}
	return data, nil
}

// DecodeAuthorities reads the Secret. What cannot be read is left out; derived values are not trusted. problem says what was
// wrong, for people.
func DecodeAuthorities(data map[string][]byte, now time.Time) (a *Authorities, problem string) {
	a = &Authorities{}
	note := func(key string, err error) {
		if err != nil && problem == "" && len(data[key]) > 0 {
			problem = fmt.Sprintf("%s: %v", key, err)
		}
	}
	var err error
	a.Current, err = ParsePair(data[KeyCurrentCert], data[KeyCurrentKey])
	note(KeyCurrentCert, err)
	a.Next, err = ParsePair(data[KeyNextCert], data[KeyNextKey])
	note(KeyNextCert, err)
	_, err = ParseCertificates(data[KeyPrevious])
	note(KeyPrevious, err)
	state, err := decodeState(data)
	note(KeyState, err)
	a.Revoked = state.Revoked
	switch {
	case !state.SigningSince.IsZero():
		// The clock may have been set back since; it has begun all the same.
		a.SigningSince = earlier(state.SigningSince, now)
	case a.Current != nil:
		a.SigningSince = a.Current.issuedAt()
	default:
		a.SigningSince = now
	}
	a.Previous = previousIn(data, state, now)
	return a, problem
}

// decodeState is empty if the state cannot be read.
func decodeState(data map[string][]byte) (state stateFile, err error) {
	if err = json.Unmarshal(data[KeyState], &state); err == nil && state.Version != 1 {
		err = fmt.Errorf("version %d is not known", state.Version)
	}
	if err != nil {
		state = stateFile{}
	}
	return state, err
}

// previousIn are the authorities that do not sign any more. One that the state vouches for is found in the bundle too, if it
// is missing where it should be.
func previousIn(data map[string][]byte, state stateFile, now time.Time) (previous []Retired) {
	add := func(c Certificate, until time.Time) {
		if !slices.ContainsFunc(previous, func(r Retired) bool { return r.Is(c) }) {
			previous = append(previous, Retired{c, until})
		}
	}
	for _, c := range parseWhatCan(data[KeyPrevious]) {
		// Unknown: it may have signed until now. That keeps trust longer.
		until := now
		if i := state.find(c); i >= 0 {
			until = state.Previous[i].SignedUntil
		}
		add(c, until)
	}
	for _, c := range parseWhatCan(data[KeyBundle]) {
		if i := state.find(c); i >= 0 {
			add(c, state.Previous[i].SignedUntil)
		}
	}
	return previous
}

// find is the index of an authority in the state; -1 if it is not there.
func (s *stateFile) find(c Certificate) int {
	fingerprint := c.Fingerprint()
	return slices.IndexFunc(s.Previous, func(r stateRetired) bool { return r.SHA256 == fingerprint })
}

// strays are authorities that the Secret mentions somewhere and that are trustworthy still, such as one whose key is lost.
func strays(data map[string][]byte, now time.Time) []Certificate {
	var out []Certificate
	for _, key := range []string{KeyCurrentCert, KeyNextCert, KeyPrevious, KeyBundle} {
		for _, c := range parseWhatCan(data[key]) {
			if c.isTrustworthy(now) && !slices.ContainsFunc(out, c.Is) {
				out = append(out, c)
			}
		}
	}
	return out
}

// Serving is what the serving Secret holds.
type Serving struct {
	// Pair is nil if it cannot be used.
	Pair *Pair
	// Issuer is the authority that signed it, as far as the Secret says so.
	Issuer *Certificate
}

// Encode is the data of the serving Secret.
func (s *Serving) Encode() (map[string][]byte, error) {
	key, err := s.Pair.KeyPEM()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{KeyServingCert: s.Pair.PEM(), KeyServingKey: key, KeyIssuer: s.Issuer.PEM()}, nil
}

// DecodeServing reads the Secret.
func DecodeServing(data map[string][]byte) (s *Serving, problem string) {
	s = &Serving{}
	var err error
	if s.Pair, err = ParsePair(data[KeyServingCert], data[KeyServingKey]); err != nil && len(data[KeyServingCert]) > 0 {
		problem = fmt.Sprintf("%s: %v", KeyServingCert, err)
	}
	if list, err := ParseCertificates(data[KeyIssuer]); err == nil && len(list) == 1 {
		s.Issuer = &list[0]
	}
	return s, problem
}

// isBy says whether the pair was signed by the authority.
func (s *Serving) isBy(issuer *Pair) bool {
	return s.Pair != nil && issuer != nil && s.Pair.issuedBy(issuer.Certificate)
}
