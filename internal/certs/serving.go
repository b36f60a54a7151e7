package certs

import (
	"slices"
	"time"
)

// serving carries out rule 6.
func (p *planner) serving() error {
	reason, what := p.servingDue()
	if reason == "" || !p.mayIssue() {
		return nil
	}
	issuer := p.Observed.Authorities.Current
	pair, err := Issue(p.random, issuer, p.Names, p.earliest(), p.Now.Add(p.ServingValidity))
	if err != nil {
		return err
	}
	p.Decision.Serving = &Serving{Pair: pair, Issuer: &issuer.Certificate}
	p.Reason, p.What = reason, what
	return nil
}

func (p *planner) servingDue() (reason, what string) {
	a, s := p.Observed.Authorities, p.Observed.Serving
	switch {
	case s.Pair == nil:
		return "there is no pair that can be used", "missing"
	case p.hasExpired(s.Pair.Certificate):
		return "it has expired", "expired"
	case !s.isBy(a.Current):
		return "it is by another authority", "invalid"
	case s.Issuer == nil || !s.Issuer.Is(a.Current.Certificate):
		return "its issuer is not beside it", "invalid"
	case !hasNames(s.Pair.Certificate, p.Names):
		return "it is for other names", "san_changed"
	}
	if p.isRenewalAskedFor(s.Pair.Certificate) {
		return "it was asked for", "requested"
	}
	if p.disagree() {
		return "", ""
	}
	due := RenewalOf(s.Pair.Certificate, p.Settings)
	if !p.Now.Before(due) {
		return "it is due for renewal", "age"
	}
	p.look(due)
	return "", ""
}

// isRenewalAskedFor says whether somebody asked for a certificate that is younger than this one. One that ends with its
// issuer does not tell when it was made but by its beginning, which is by the clock that is behind.
func (p *planner) isRenewalAskedFor(leaf Certificate) bool {
	asked := p.RenewServingAfter
	if leaf.NotAfter.Equal(p.Observed.Authorities.Current.NotAfter) && p.earliest().Before(asked) {
		p.look(p.Now.Add(asked.Sub(p.earliest())))
		return false
	}
	return p.isDue(asked) && p.issuedAt(leaf).Before(asked)
}

// issuedAt also knows of what is made while the clocks are so far apart that its beginning says nothing.
func (p *planner) issuedAt(c Certificate) time.Time {
	if at := p.issuedByEnd(c); p.disagree() && at.After(c.issuedAt()) {
		return at
	}
	return p.Settings.issuedAt(c)
}

// hasExpired says whether a certificate cannot be valid any more.
func (p *planner) hasExpired(c Certificate) bool { return !p.judged().Before(c.NotAfter) }

// mayIssue says whether a new pair may be put into service.
func (p *planner) mayIssue() bool {
	a, s := p.Observed.Authorities, p.Observed.Serving
	if s.Pair == nil || p.hasExpired(s.Pair.Certificate) {
		return p.mayBootstrap()
	}
	if s.isBy(a.Current) {
		return true
	}
	issuer := p.issuerOf(s)
	if issuer == nil {
		// Nobody trusts it.
		return p.mayBootstrap()
	}
	if p.isLastChanceOf(s.Pair.Certificate) {
		return true
	}
	// A pair that nobody is seen to trust may not have been loaded by anybody yet either.
	return p.mayBeUsed(a.Current.Certificate, *issuer) && (p.isTrustedAnywhere(*issuer) || p.mayBootstrap())
}

// isTrustedAnywhere says whether any target trusts an authority.
func (p *planner) isTrustedAnywhere(authority Certificate) bool {
	return slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Managed && t.holdsAny(authority) })
}

// issuerOf is the authority that signed the pair in service, among those that are known.
func (p *planner) issuerOf(s *Serving) *Certificate {
	known := append(p.Observed.Authorities.Bundle(p.judged()), strays(p.Data, p.judged())...)
	if s.Issuer != nil {
		known = append(known, *s.Issuer)
	}
	for i := range known {
		if s.Pair.issuedBy(known[i]) {
			return &known[i]
		}
	}
	return nil
}

// mayBootstrap: nothing works anyway. The targets come first, but they are not waited for long.
func (p *planner) mayBootstrap() bool {
	a := p.Observed.Authorities
	waits := false
	for i := range p.Targets {
		if t := &p.Targets[i]; t.Managed && !t.holds(a.Current.Certificate) {
			waits = true
		}
	}
	until := a.SigningSince.Add(bootstrapWait)
	if waits && p.Now.Before(until) {
		p.look(until)
		return false
	}
	return true
}

// mayBeUsed says whether a serving certificate of an authority may replace one of another: every managed target that trusts
// the other has trusted this one for the propagation delay.
func (p *planner) mayBeUsed(authority, instead Certificate) bool {
	if instead.Is(authority) {
		return true
	}
	id := authority.Fingerprint()
	for i := range p.Targets {
		t := &p.Targets[i]
		// An API server that lags may still see what the target has ceased to trust.
		since, known := t.Lost[instead.Fingerprint()]
		if t.Managed && t.holdsAny(instead) {
			if since, known = t.TrustedSince[id]; !known || !t.holds(authority) {
				return false
			}
		}
		if wait := p.PropagationDelay - p.Steady.Sub(since); known && wait > 0 {
			p.look(p.Now.Add(wait))
			return false
		}
	}
	return true
}

// isLastChanceOf says whether a certificate is about to expire: then it is replaced whoever trusts the next one.
func (p *planner) isLastChanceOf(c Certificate) bool {
	// It scales with the lifetimes, so that short ones leave room too.
	at := c.NotAfter.Add(-min(lastChance, p.ServingValidity/4))
	if p.judged().Before(at) {
		p.look(at)
		return false
	}
	return true
}

// isDue says whether the time that somebody asked for has come.
func (p *planner) isDue(asked time.Time) bool {
	if asked.IsZero() {
		return false
	}
	if p.Now.Before(asked) {
		p.look(asked)
		return false
	}
	return true
}
