package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Modes of the rotator.
const (
	ModeManage      = "manage"
	ModePublishOnly = "publish-only"
)

// overlapAtMost bounds how long an authority stays published that the other party has dropped while its certificate serves.
const overlapAtMost = 24 * time.Hour

// TheirState is what PlanExternal decides from: certificates that somebody else maintains.
type TheirState struct {
	// Wanted is their bundle.
	Wanted []Certificate
	// Chain is the serving certificate, with those between it and its authority.
	Chain []Certificate
	// OverlapSince is since when, by the steady clock, Wanted lacks the authority of the chain; zero: it is new.
	OverlapSince time.Time
	Targets      []Target
	Clocks
}

// PlanExternal decides what is published of certificates that others issue: their bundle, and as long as what serves is not
// trusted by it, at most for a day, the authority by which the targets trust it now. overlap are the latter.
func PlanExternal(o TheirState) (d Decision, overlap []Certificate) {
	if len(o.Wanted) == 0 {
		return d, nil
	}
	d.Bundle = o.Wanted
	if since := o.Steady.Sub(o.OverlapSince); o.OverlapSince.IsZero() || since < overlapAtMost {
		overlap = o.dropped()
		d.Bundle = slices.Concat(o.Wanted, overlap)
	}
	p := planner{Observed: Observed{Targets: o.Targets, Clocks: o.Clocks, Authorities: &Authorities{}, Serving: &Serving{}}, Decision: d}
	p.targets()
	if len(overlap) > 0 {
		p.look(o.Now.Add(overlapAtMost))
	}
	return p.Decision, overlap
}

// dropped are authorities by which the targets trust the serving certificate, while the bundle does not.
func (o TheirState) dropped() (list []Certificate) {
	if len(o.Chain) == 0 || slices.ContainsFunc(o.Wanted, o.vouches) {
		return nil
	}
	for i := range o.Targets {
		for _, bundle := range o.Targets[i].Bundles {
			for _, c := range bundle {
				room := len(o.Wanted)+len(list) < maxBundle
				if room && c.isTrustworthy(o.judged()) && o.vouches(c) && !slices.ContainsFunc(list, c.Is) {
					list = append(list, c)
				}
			}
		}
	}
	return list
}

// vouches says whether the chain leads to the authority.
func (o TheirState) vouches(authority Certificate) bool {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(authority.Certificate)
	for _, c := range o.Chain[1:] {
		between.AddCert(c.Certificate)
	}
	_, err := o.Chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: o.judged(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err == nil
}

// externalBundle checks what somebody else wants to be published. Beside an error there may be a list: what remains of a bundle
// some of which has expired.
func externalBundle(data []byte, now time.Time) ([]Certificate, error) {
	list, err := ParseCertificates(data)
	switch {
	case err != nil:
		return nil, err
	case len(list) > maxBundle:
		return nil, fmt.Errorf("%d certificates: at most %d are published", len(list), maxBundle)
	case len(EncodeBundle(list)) > maxBundleBytes:
		return nil, fmt.Errorf("more than %d bytes", maxBundleBytes)
	}
	var wrong, expired []error
	for _, c := range list {
		if !c.IsCA {
			wrong = append(wrong, fmt.Errorf("%q is no authority", c.Subject))
		} else if !c.isTrustworthy(now) {
			expired = append(expired, fmt.Errorf("%q has expired", c.Subject))
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(append(wrong, expired...)...)
	}
	return unexpired(list, now), errors.Join(expired...)
}

func unexpired(list []Certificate, now time.Time) []Certificate {
	return slices.DeleteFunc(slices.Clone(list), func(c Certificate) bool { return !c.isTrustworthy(now) })
}

// seen is what is remembered of certificates that others issue.
type seen struct {
	// good is the last bundle that could be published.
	good []Certificate
	// leaf is the fingerprint of the serving certificate that the bundle does not trust, since when.
	leaf  string
	since time.Time
}

// planExternal is plan where somebody else issues.
func (r *Rotator) planExternal(p pass) pass {
	p.Observed = Observed{Clocks: p.Clocks, Authorities: &Authorities{}, Serving: &Serving{}}
	for i := range p.readings {
		p.Targets = append(p.Targets, p.readings[i].Target)
	}
	if p.ca != nil {
		list, err := externalBundle(p.ca.Data[r.options.CAKey], p.judged())
		if len(list) > 0 {
			r.external.good = list
		}
		if err != nil {
			r.complain(p.ca.Name, fmt.Sprintf("%s: %v", r.options.CAKey, err))
		}
	}
	r.external.good = unexpired(r.external.good, p.judged())
	o := TheirState{Wanted: r.external.good, Targets: p.Targets, Clocks: p.Clocks}
	leaf := ""
	if p.tls != nil {
		if o.Chain = parseWhatCan(p.tls.Data[KeyServingCert]); len(o.Chain) > 0 {
			leaf = o.Chain[0].Fingerprint()
			p.Observed.Serving = &Serving{Pair: &Pair{Certificate: o.Chain[0]}}
		}
	}
	if r.external.leaf == leaf && leaf != "" {
		o.OverlapSince = r.external.since
	}
	var overlap []Certificate
	if p.Decision, overlap = PlanExternal(o); len(overlap) == 0 {
		if slices.ContainsFunc(o.Wanted, func(c Certificate) bool { return len(o.Chain) > 0 && o.vouches(c) }) {
			// Should they take that back again, it is another overlap.
			r.external.leaf = ""
		}
		return p
	}
	if o.OverlapSince.IsZero() {
		r.external.leaf, r.external.since = leaf, p.Steady
		r.warn(EventExternalOverlap, leaf, "the bundle does not trust the certificate that serves; %s stays published until that changes, at most %s",
			overlap[0].Subject, overlapAtMost)
	}
	return p
}
