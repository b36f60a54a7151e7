package certs

import "slices"

// revocationDue says whether an authority is to be distrusted that is not yet on its way out.
func (p *planner) revocationDue() bool {
	if !p.isDue(p.RevokeBefore) {
		return false
	}
	a := p.Observed.Authorities
	for _, c := range []*Pair{a.Current, a.Next} {
		if p.issuedAt(c.Certificate).Before(p.RevokeBefore) {
			return true
		}
	}
	return slices.ContainsFunc(a.Previous, func(r Retired) bool {
		return p.issuedAt(r.Certificate).Before(p.RevokeBefore) && !slices.Contains(a.Revoked, r.Fingerprint())
	})
}

// revoke makes new authorities. The old ones stay trusted until nothing of theirs is in service; their keys are gone.
func (p *planner) revoke() error {
	a := p.Observed.Authorities.clone()
	for _, c := range []**Pair{&a.Next, &a.Current} {
		if !p.issuedAt((*c).Certificate).Before(p.RevokeBefore) {
			continue
		}
		// A successor has signed nothing: where there is no room, now or later, it is the first to go.
		if c == &a.Current {
			a.retire((*c).Certificate, p.Clocks)
		} else if len(a.Previous)+4 <= maxBundle {
			a.retireUnused((*c).Certificate, p.Clocks)
		}
		fresh, err := p.newAuthority()
		if err != nil {
			return err
		}
		if c == &a.Current {
			a.SigningSince = p.Now
		}
		*c = fresh
	}
	for _, r := range a.Previous {
		if f := r.Fingerprint(); p.issuedAt(r.Certificate).Before(p.RevokeBefore) && !slices.Contains(a.Revoked, f) {
			a.Revoked = append(a.Revoked, f)
		}
	}
	p.Decision = Decision{Authorities: a, Reason: "authorities are revoked", What: "revoked", Event: EventRevocationStarted}
	return nil
}

// finishRevocation ends the trust in revoked authorities when the pair in service has been by another one for long enough.
func (p *planner) finishRevocation() bool {
	a, s := p.Observed.Authorities, p.Observed.Serving
	if len(a.Revoked) == 0 || !slices.ContainsFunc(a.Previous, a.isRevoked) {
		return false
	}
	if !s.isBy(a.Current) {
		return false
	}
	if wait := p.RevokeOverlap - p.Steady.Sub(p.ServingSince); wait > 0 {
		p.look(p.Now.Add(wait))
		return false
	}
	a = a.clone()
	a.Previous = slices.DeleteFunc(a.Previous, a.isRevoked)
	a.Revoked = nil
	p.Decision = Decision{Authorities: a, Reason: "nothing of the revoked authorities is in service", What: "revoked", Event: EventRevocationFinished}
	return true
}

func (a *Authorities) isRevoked(r Retired) bool { return slices.Contains(a.Revoked, r.Fingerprint()) }
