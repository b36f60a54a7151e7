package certs

import (
	"io"
	"slices"
	"time"
)

const (
	// bootstrapWait is how long targets are waited for where nothing works anyway.
	bootstrapWait = 10 * time.Second
	// lastChance is how long before the serving certificate expires it is replaced whoever trusts the new one.
	lastChance = 24 * time.Hour
	// migrationWait bounds how long a patch waits for a storage migration.
	migrationWait = 24 * time.Hour
	// skewSuspends is a difference of clocks at which nothing is known about ages.
	skewSuspends = 24 * time.Hour
	renewJitter  = 0.1
	maxMargin    = time.Hour
)

// Clocks are the times that decisions are made by.
type Clocks struct {
	// Now is the API server's time: it is the one that verifies certificates.
	Now time.Time
	// Local is the time here.
	Local time.Time
	// Steady is a clock that nobody sets. Short waits are measured by it; only differences between its readings count.
	Steady time.Time
}

// disagree says whether the clocks differ so much that nothing is done because of age.
func (c Clocks) disagree() bool { return c.Now.Sub(c.Local).Abs() > skewSuspends }

// earliest is the time by the clock that is behind: when what is made now begins to be valid.
func (c Clocks) earliest() time.Time { return earlier(c.Now, c.Local) }

// judged is when certificates are judged. If the clocks disagree, one has expired when both say so.
func (c Clocks) judged() time.Time {
	if c.disagree() {
		return c.earliest()
	}
	return c.Now
}

// Observed is all that Plan decides from.
type Observed struct {
	// SecretExists: the authority's Secret is there, if only empty.
	SecretExists bool
	// Immutable: the authority's Secret cannot be written.
	Immutable   bool
	Authorities *Authorities
	// Data is the authority's Secret as it is, for what can be saved from it.
	Data map[string][]byte
	Requests
	Serving *Serving
	// ServingSince is since when, by the steady clock, the serving pair was seen to be this one.
	ServingSince time.Time
	Targets      []Target
	Clocks
}

// Decision is what is to be done now.
type Decision struct {
	// CreateSecret: the authority's Secret is to be created, empty.
	CreateSecret bool
	// Authorities are to be written; nil: none. Obstructed is why they should be, where they cannot.
	Authorities *Authorities
	Obstructed  string
	// Serving is to be written; nil: none.
	Serving *Serving
	// Reason says why a Secret is written, and What is the reason in one word, for the metric.
	Reason, What string
	// Event is what a write of the authorities means; empty: it only mends what is derived from them.
	Event string
	// Patch are the indices of the targets whose bundles differ and may be patched now.
	Patch []int
	// Bundle is what they are to hold.
	Bundle []Certificate
	// LookAgain is when something is due next; zero: only an event can change anything.
	LookAgain time.Time
}

// Plan decides. It returns at most one write of a Secret, and the targets that are due. random is drawn from for new keys.
//
// The rules, the first that applies:
//
//  1. There is no Secret for the authorities: create it.
//  2. The signer cannot sign and its successor can: promote.
//  3. Neither can: make both anew, and keep trusting what still may be in use.
//  4. The successor cannot: make another.
//  5. A revocation or a promotion is due, and all targets trust the successor long enough: carry it out.
//  6. The serving certificate cannot be used, is not by the signer, is for other names, or is due: issue another.
//  7. Targets that hold other bundles are patched. This goes on beside 6.
//
// What holds at every moment: an authority is used only after all targets that trust its predecessor trust it as well
// (or nothing works anyway), and trust ends only when nothing signed by it can be in use. The key of an authority
// ends in the same write in which it stops signing. Nothing is written that means the same as what is there.
func Plan(o Observed, s Settings, random io.Reader) (Decision, error) {
	if !o.SecretExists {
		return Decision{CreateSecret: true, Reason: "there is none", What: "bootstrap"}, nil
	}
	p := planner{o, s, random, Decision{}}
	changed, err := p.authorities()
	if changed && o.Immutable && o.Authorities.Current.isUsable(p.judged()) {
		// As long as they can sign, all that needs no write of theirs goes on.
		changed, p.Decision = false, Decision{Obstructed: p.Reason}
	}
	if err != nil || changed {
		return p.Decision, err
	}
	p.Bundle = o.Authorities.Bundle(p.judged())
	p.targets()
	return p.Decision, p.serving()
}

type planner struct {
	Observed
	Settings
	random io.Reader
	Decision
}

func (p *planner) look(at time.Time) {
	if p.LookAgain.IsZero() || at.Before(p.LookAgain) {
		p.LookAgain = at
	}
}

func (p *planner) newAuthority() (*Pair, error) {
	return NewAuthority(p.random, p.earliest(), p.Now.Add(p.CAValidity))
}

// authorities carries out rules 2 to 5 and returns whether one applied.
func (p *planner) authorities() (bool, error) {
	a := p.Observed.Authorities
	current, next := a.Current.isUsable(p.judged()), a.Next.isUsable(p.judged())
	switch {
	case !current && next:
		return true, p.promote("the signer cannot be used", "invalid")
	case !current:
		return true, p.startOver()
	case !next:
		return true, p.replaceNext()
	}
	if p.revocationDue() {
		return true, p.revoke()
	}
	if changed := p.finishRevocation(); changed {
		return true, nil
	}
	if p.isSpoiled() {
		p.Decision = Decision{Authorities: a, Reason: "what is derived from the authorities was changed", What: "invalid"}
		return true, nil
	}
	reason, what := p.promotionDue()
	if reason == "" || !p.mayPromote() {
		return false, nil
	}
	return true, p.promote(reason, what)
}

// isSpoiled says whether what the Secret derives from the authorities is not what it should be.
func (p *planner) isSpoiled() bool {
	a := p.Observed.Authorities
	bundle, err := ParseCertificates(p.Data[KeyBundle])
	if err != nil || !SameBundle(bundle, a.Bundle(p.judged())) {
		return true
	}
	state, err := decodeState(p.Data)
	unknown := func(r Retired) bool { return state.find(r.Certificate) < 0 }
	return err != nil || slices.ContainsFunc(a.Previous, unknown) || !isListOf(p.Data[KeyPrevious], len(a.Previous))
}

// isListOf says whether the data is n certificates and nothing else.
func isListOf(data []byte, n int) bool {
	if len(data) == 0 {
		return n == 0
	}
	list, err := ParseCertificates(data)
	return err == nil && len(list) == n
}

// clone is a copy that can be changed.
func (a *Authorities) clone() *Authorities {
	out := *a
	out.Previous, out.Revoked = slices.Clone(a.Previous), slices.Clone(a.Revoked)
	return &out
}

// mayPromote says whether a promotion that is due may be carried out: a serving certificate by the successor may be used,
// and no authority would have to leave the bundle that may still be needed.
func (p *planner) mayPromote() bool {
	a := p.Observed.Authorities.clone()
	if p.isLastChanceOf(a.Current.Certificate) {
		return true
	}
	a.dropPrevious(p.judged(), p.Settings)
	if len(a.Previous) >= maxBundle-3 {
		for _, r := range a.Previous {
			p.look(p.endOf(r))
		}
		return false
	}
	return p.mayBeUsed(a.Next.Certificate, a.Current.Certificate)
}

// promote makes the successor the signer. The old signer stays trusted, and its key is gone with this write.
func (p *planner) promote(reason, what string) error {
	a := p.Observed.Authorities.clone()
	a.dropPrevious(p.judged(), p.Settings)
	if a.Current != nil {
		a.retire(a.Current.Certificate, p.Clocks)
	} else {
		p.retireStrays(a)
	}
	a.Current, a.SigningSince = a.Next, p.Now
	next, err := p.newAuthority()
	if err != nil {
		return err
	}
	a.Next = next
	p.Decision = Decision{Authorities: a, Reason: "promoting: " + reason, What: what, Event: EventAuthorityPromoted}
	return nil
}

// retire puts an authority in front of the previous ones.
func (a *Authorities) retire(c Certificate, now Clocks) { a.retireAt(0, c, now) }

// retireUnused puts an authority that has signed nothing behind the previous ones, which is where room is made.
func (a *Authorities) retireUnused(c Certificate, now Clocks) {
	a.retireAt(len(a.Previous), c, now)
}

func (a *Authorities) retireAt(i int, c Certificate, now Clocks) {
	if !c.isTrustworthy(now.judged()) || slices.ContainsFunc(a.Previous, func(r Retired) bool { return r.Is(c) }) {
		return
	}
	a.Previous = slices.Insert(a.Previous, i, Retired{c, now.Now})
}

// endOf is when no certificate by a previous authority can be valid any more.
func (s Settings) endOf(r Retired) time.Time {
	return r.SignedUntil.Add(s.ServingValidity + min(maxMargin, s.ServingValidity/10))
}

// dropPrevious forgets authorities of which no certificate can be valid any more.
func (a *Authorities) dropPrevious(now time.Time, s Settings) {
	a.Previous = slices.DeleteFunc(a.Previous, func(r Retired) bool { return !r.isTrustworthy(now) || !now.Before(s.endOf(r)) })
}

// startOver makes both authorities anew. What is trustworthy in the Secrets stays trusted: a certificate of it may be in
// service, most of all one by the issuer that the serving Secret names.
func (p *planner) startOver() error {
	a := p.Observed.Authorities.clone()
	p.retireStrays(a)
	var err error
	if a.Current, err = p.newAuthority(); err != nil {
		return err
	}
	if a.Next, err = p.newAuthority(); err != nil {
		return err
	}
	a.SigningSince = p.Now
	what, reason := "invalid", "neither authority can be used"
	if len(p.Data) == 0 {
		what, reason = "bootstrap", "there are no authorities yet"
	}
	p.Decision = Decision{Authorities: a, Reason: reason, What: what, Event: EventAuthorityCreated}
	return nil
}

// retireStrays keeps the trust in what may have signed before the signer was lost. The successor has signed nothing.
func (p *planner) retireStrays(a *Authorities) {
	keep := func(c Certificate) {
		if a.Next == nil || !a.Next.isUsable(p.judged()) || !a.Next.Is(c) {
			a.retire(c, p.Clocks)
		}
	}
	for _, c := range slices.Backward(strays(p.Data, p.judged())) {
		keep(c)
	}
	if i := p.Observed.Serving.Issuer; i != nil {
		a.Previous = slices.DeleteFunc(a.Previous, func(r Retired) bool { return r.Is(*i) })
		keep(*i)
	}
}

func (p *planner) replaceNext() error {
	a := p.Observed.Authorities.clone()
	next, err := p.newAuthority()
	if err != nil {
		return err
	}
	a.Next = next
	p.Decision = Decision{Authorities: a, Reason: "the successor cannot be used", What: "invalid", Event: EventAuthorityCreated}
	return nil
}

// promotionDue says why the successor is to sign; "" if it is not.
func (p *planner) promotionDue() (reason, what string) {
	a := p.Observed.Authorities
	if asked := p.PromoteAfter; p.isDue(asked) && a.SigningSince.Before(asked) {
		return "it was asked for", "requested"
	}
	if p.disagree() {
		return "", ""
	}
	byAge := a.SigningSince.Add(p.SigningPeriod)
	byExpiry := a.Current.NotAfter.Add(-p.ServingValidity - p.RenewAfter)
	switch {
	case !p.Now.Before(byAge):
		return "the signer has signed for its period", "age"
	case !p.Now.Before(byExpiry):
		return "the signer expires", "age"
	}
	p.look(earlier(byAge, byExpiry))
	return "", ""
}

// targets carries out rule 7.
func (p *planner) targets() {
	for i := range p.Targets {
		t := &p.Targets[i]
		if !t.Managed || t.isPublished(p.Bundle) {
			continue
		}
		if wait := t.NotBefore.Sub(p.Steady); wait > 0 {
			p.look(p.Now.Add(wait))
			continue
		}
		if until := t.MigratingSince.Add(migrationWait); !t.MigratingSince.IsZero() && p.Now.Before(until) && p.isTrustedBy(t) {
			p.look(until)
			continue
		}
		p.Patch = append(p.Patch, i)
	}
}

func (t *Target) isPublished(bundle []Certificate) bool {
	return !slices.ContainsFunc(t.Bundles, func(b []Certificate) bool { return !SameBundle(b, bundle) })
}

// isTrustedBy says whether the target trusts what is in service and what will be signed next.
func (p *planner) isTrustedBy(t *Target) bool {
	issuer := &p.Observed.Authorities.Current.Certificate
	if s := p.Observed.Serving; s.Pair != nil {
		if i := p.issuerOf(s); i != nil {
			issuer = i
		}
	}
	return t.holds(p.Observed.Authorities.Current.Certificate) && t.holds(*issuer)
}
