package certs

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Settings are what the rotator is told.
type Settings struct {
	// Names that the serving certificate is for.
	Names []string
	// CAValidity is how long an authority is valid. It is trusted for one signing period before it signs, signs for one,
	// and stays trusted for one more.
	CAValidity, SigningPeriod   time.Duration
	ServingValidity, RenewAfter time.Duration
	// PropagationDelay is how long all targets must have trusted an authority before it is used.
	PropagationDelay time.Duration
	// RevokeOverlap is how long revoked authorities stay trusted after the last certificate of theirs was replaced.
	RevokeOverlap time.Duration
}

const (
	// bootstrapWait is how long targets are waited for where nothing works anyway.
	bootstrapWait = 10 * time.Second
	// lastChance is how long before the serving certificate expires it is replaced whoever trusts the new one.
	lastChance = 24 * time.Hour
	// migrationWait bounds how long a patch waits for a storage migration.
	migrationWait = 24 * time.Hour
	renewJitter   = 0.1
	maxMargin     = time.Hour
)

// TargetState says how an object that carries caBundles stands.
type TargetState string

// States of targets.
const (
	Published TargetState = "published"
	Pending   TargetState = "pending"
	Absent    TargetState = "absent"
	Foreign   TargetState = "foreign"
	Unmanaged TargetState = "unmanaged"
	External  TargetState = "external"
	Failed    TargetState = "failed"
)

// Target is an object that carries caBundles, as it was last read.
type Target struct {
	Kind, Name string
	// Managed: some entries of it are ours.
	Managed bool
	// Bundles are what its managed entries hold, one each; nil where nothing can be read.
	Bundles [][]Certificate
	// TrustedSince is since when, without a break, all entries were seen to hold the certificate with that fingerprint.
	TrustedSince map[string]time.Time
	// MigratingSince is since when a storage migration runs; zero: none does.
	MigratingSince time.Time
	// NotBefore is when it may be patched again; it was patched too often, or that failed.
	NotBefore time.Time
}

// holds says whether all managed entries trust the certificate.
func (t *Target) holds(c Certificate) bool {
	for _, bundle := range t.Bundles {
		if !slices.ContainsFunc(bundle, c.Is) {
			return false
		}
	}
	return len(t.Bundles) > 0
}

// holdsAny says whether some managed entry trusts the certificate.
func (t *Target) holdsAny(c Certificate) bool {
	return slices.ContainsFunc(t.Bundles, func(bundle []Certificate) bool { return slices.ContainsFunc(bundle, c.Is) })
}

// SameBundle compares sets of certificates: order and text around them mean nothing.
func SameBundle(a, b []Certificate) bool {
	subset := func(a, b []Certificate) bool {
		return !slices.ContainsFunc(a, func(c Certificate) bool { return !slices.ContainsFunc(b, c.Is) })
	}
	return subset(a, b) && subset(b, a)
}

// Observed is all that Plan decides from.
type Observed struct {
	// SecretExists: the authority's Secret is there, if only empty.
	SecretExists bool
	Authorities  *Authorities
	// Data is the authority's Secret as it is, for what can be saved from it.
	Data map[string][]byte
	Requests
	Serving *Serving
	Targets []Target
	Now     time.Time
	// AgeUnknown: the clocks differ so much that nothing is done because of age.
	AgeUnknown bool
}

// Decision is what is to be done now.
type Decision struct {
	// CreateSecret: the authority's Secret is to be created, empty.
	CreateSecret bool
	// Authorities are to be written; nil: none.
	Authorities *Authorities
	// Serving is to be written; nil: none.
	Serving *Serving
	// Reason says why a Secret is written, and What is the reason in one word, for the metric.
	Reason, What string
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
	if err != nil || changed {
		return p.Decision, err
	}
	p.Bundle = o.Authorities.Bundle(o.Now)
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

func (p *planner) newAuthority() (*Pair, error) { return NewAuthority(p.random, p.Now, p.CAValidity) }

// authorities carries out rules 2 to 5 and returns whether one applied.
func (p *planner) authorities() (bool, error) {
	a := p.Observed.Authorities
	current, next := a.Current.isUsable(p.Now), a.Next.isUsable(p.Now)
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
	if reason == "" {
		return false, nil
	}
	if !p.mayBeUsed(a.Next.Certificate, &a.Current.Certificate) && !p.isLastChanceOf(a.Current) {
		p.look(p.Now.Add(p.PropagationDelay))
		return false, nil
	}
	return true, p.promote(reason, what)
}

// isSpoiled says whether what the Secret derives from the authorities is not what it should be.
func (p *planner) isSpoiled() bool {
	bundle, err := ParseCertificates(p.Data[KeyBundle])
	if err != nil || !SameBundle(bundle, p.Observed.Authorities.Bundle(p.Now)) {
		return true
	}
	var state stateFile
	return json.Unmarshal(p.Data[KeyState], &state) != nil || state.Version != 1
}

// clone is a copy that can be changed.
func (a *Authorities) clone() *Authorities {
	out := *a
	out.Previous, out.Revoked = slices.Clone(a.Previous), slices.Clone(a.Revoked)
	return &out
}

// promote makes the successor the signer. The old signer stays trusted, and its key is gone with this write.
func (p *planner) promote(reason, what string) error {
	a := p.Observed.Authorities.clone()
	a.retire(p.lostCurrent(), p.Now)
	a.dropPrevious(p.Now, p.Settings)
	a.Current, a.SigningSince = a.Next, p.Now
	next, err := p.newAuthority()
	if err != nil {
		return err
	}
	a.Next = next
	p.Decision = Decision{Authorities: a, Reason: "promoting: " + reason, What: what}
	return nil
}

// lostCurrent is the signer's certificate, also if its key cannot be read any more.
func (p *planner) lostCurrent() *Certificate {
	if c := p.Observed.Authorities.Current; c != nil {
		return &c.Certificate
	}
	if list, err := ParseCertificates(p.Data[KeyCurrentCert]); err == nil && len(list) == 1 {
		return &list[0]
	}
	return nil
}

// retire puts an authority in front of the previous ones.
func (a *Authorities) retire(c *Certificate, now time.Time) {
	if c == nil || !c.isTrustworthy(now) || slices.ContainsFunc(a.Previous, func(r Retired) bool { return r.Is(*c) }) {
		return
	}
	a.Previous = slices.Insert(a.Previous, 0, Retired{*c, now})
}

// dropPrevious forgets authorities of which no certificate can be valid any more.
func (a *Authorities) dropPrevious(now time.Time, s Settings) {
	margin := min(maxMargin, s.ServingValidity/10)
	a.Previous = slices.DeleteFunc(a.Previous, func(r Retired) bool {
		return !r.isTrustworthy(now) || !now.Before(r.SignedUntil.Add(s.ServingValidity+margin))
	})
}

// startOver makes both authorities anew. What is trustworthy in the Secrets stays trusted: a certificate of it may be in
// service.
func (p *planner) startOver() error {
	a := p.Observed.Authorities.clone()
	kept := strays(p.Data, p.Now)
	if i := p.Observed.Serving.Issuer; i != nil && i.isTrustworthy(p.Now) {
		kept = append(kept, *i)
	}
	for _, c := range slices.Backward(kept) {
		a.retire(&c, p.Now)
	}
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
	p.Decision = Decision{Authorities: a, Reason: reason, What: what}
	return nil
}

func (p *planner) replaceNext() error {
	a := p.Observed.Authorities.clone()
	next, err := p.newAuthority()
	if err != nil {
		return err
	}
	a.Next = next
	p.Decision = Decision{Authorities: a, Reason: "the successor cannot be used", What: "invalid"}
	return nil
}

// promotionDue says why the successor is to sign; "" if it is not.
func (p *planner) promotionDue() (reason, what string) {
	a := p.Observed.Authorities
	if asked := p.PromoteAfter; !asked.IsZero() && !asked.After(p.Now) && a.SigningSince.Before(asked) {
		return "it was asked for", "requested"
	}
	if p.AgeUnknown {
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

// mayBeUsed says whether a serving certificate of that authority may replace one of the other: every managed target that
// trusts the other has trusted this one for the propagation delay.
func (p *planner) mayBeUsed(authority Certificate, instead *Certificate) bool {
	if instead == nil || instead.Is(authority) {
		return true
	}
	for i := range p.Targets {
		t := &p.Targets[i]
		if !t.Managed || !t.holdsAny(*instead) {
			continue
		}
		since, ok := t.TrustedSince[authority.Fingerprint()]
		if !ok || !t.holds(authority) {
			return false
		}
		if due := since.Add(p.PropagationDelay); p.Now.Before(due) {
			p.look(due)
			return false
		}
	}
	return true
}

// isLastChanceOf says whether the last certificate that the authority can sign is about to expire.
func (p *planner) isLastChanceOf(c *Pair) bool {
	at := c.NotAfter.Add(-p.lastChance())
	if p.Now.Before(at) {
		p.look(at)
		return false
	}
	return true
}

// lastChance scales with the lifetimes, so that short ones leave room too.
func (p *planner) lastChance() time.Duration { return min(lastChance, p.ServingValidity/4) }

// serving carries out rule 6.
func (p *planner) serving() error {
	reason, what := p.servingDue()
	if reason == "" {
		return nil
	}
	a, s := p.Observed.Authorities, p.Observed.Serving
	if !p.mayIssue(a, s) {
		return nil
	}
	pair, err := Issue(p.random, a.Current, p.Names, p.Now, p.ServingValidity)
	if err != nil {
		return err
	}
	p.Decision.Serving = &Serving{Pair: pair, Issuer: &a.Current.Certificate}
	p.Reason, p.What = reason, what
	return nil
}

func (p *planner) servingDue() (reason, what string) {
	a, s := p.Observed.Authorities, p.Observed.Serving
	switch {
	case s.Pair == nil:
		return "there is no pair that can be used", "missing"
	case !p.Now.Before(s.Pair.NotAfter):
		return "it has expired", "expired"
	case !s.isBy(a.Current):
		return "it is by another authority", "invalid"
	case !hasNames(s.Pair.Certificate, p.Names):
		return "it is for other names", "san_changed"
	}
	if asked := p.RenewServingAfter; !asked.IsZero() && !asked.After(p.Now) && s.Pair.issuedAt().Before(asked) {
		return "it was asked for", "requested"
	} else if asked.After(p.Now) {
		p.look(asked)
	}
	if p.AgeUnknown {
		return "", ""
	}
	due := RenewalOf(s.Pair.Certificate, p.Settings)
	if !p.Now.Before(due) {
		return "it is due for renewal", "age"
	}
	p.look(due)
	return "", ""
}

// mayIssue says whether the new pair may be put into service.
func (p *planner) mayIssue(a *Authorities, s *Serving) bool {
	usable := s.Pair != nil && p.Now.Before(s.Pair.NotAfter)
	if !usable {
		return p.mayBootstrap(a)
	}
	if s.isBy(a.Current) {
		return true
	}
	issuer := p.issuerOf(s)
	if issuer == nil {
		// Nobody trusts it.
		return p.mayBootstrap(a)
	}
	if p.mayBeUsed(a.Current.Certificate, issuer) {
		return true
	}
	at := s.Pair.NotAfter.Add(-p.lastChance())
	p.look(at)
	return !p.Now.Before(at)
}

// issuerOf is the authority that signed the pair in service, among those that are known.
func (p *planner) issuerOf(s *Serving) *Certificate {
	for _, c := range append(p.Observed.Authorities.Bundle(p.Now), strays(p.Data, p.Now)...) {
		if s.Pair.CheckSignatureFrom(c.Certificate) == nil {
			return &c
		}
	}
	if s.Issuer != nil && s.Pair.CheckSignatureFrom(s.Issuer.Certificate) == nil {
		return s.Issuer
	}
	return nil
}

// mayBootstrap: nothing works anyway. The targets come first, but they are not waited for long.
func (p *planner) mayBootstrap(a *Authorities) bool {
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

// targets carries out rule 7.
func (p *planner) targets() {
	for i := range p.Targets {
		t := &p.Targets[i]
		if !t.Managed || t.isPublished(p.Bundle) {
			continue
		}
		if t.NotBefore.After(p.Now) {
			p.look(t.NotBefore)
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

// RenewalOf is when a serving certificate is to be replaced. The moment is spread by the certificate itself, so that all
// rotators agree on it.
func RenewalOf(c Certificate, s Settings) time.Time {
	sum := sha256.Sum256(c.SerialNumber.Bytes())
	fraction := float64(binary.BigEndian.Uint64(sum[:8])) / math.MaxUint64
	factor := 1 - renewJitter + 2*renewJitter*fraction
	return c.issuedAt().Add(time.Duration(float64(s.RenewAfter) * factor))
}

// Check says which setting does not go together with the others, by the name of its flag.
func (s Settings) Check() error {
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"ca-validity", s.CAValidity}, {"ca-signing-period", s.SigningPeriod}, {"serving-validity", s.ServingValidity}, {"serving-renew-after", s.RenewAfter}} {
		if d.value < time.Minute {
			return fmt.Errorf("--%s must be at least 1m: %s", d.flag, d.value)
		}
	}
	switch {
	case s.RenewAfter > s.ServingValidity*2/3:
		return fmt.Errorf("--serving-renew-after must be at most two thirds of --serving-validity (%s): %s", s.ServingValidity, s.RenewAfter)
	case s.SigningPeriod < s.ServingValidity+s.ServingValidity/10:
		return fmt.Errorf("--ca-signing-period must be at least 1.1 times --serving-validity (%s): %s", s.ServingValidity, s.SigningPeriod)
	case s.CAValidity < 3*s.SigningPeriod+s.ServingValidity+s.RenewAfter:
		return fmt.Errorf("--ca-validity must be at least three times --ca-signing-period, plus --serving-validity and --serving-renew-after (%s): %s",
			3*s.SigningPeriod+s.ServingValidity+s.RenewAfter, s.CAValidity)
	case s.PropagationDelay < 0:
		return fmt.Errorf("--propagation-delay must not be negative: %s", s.PropagationDelay)
	case s.RevokeOverlap < 0:
		return fmt.Errorf("--revoke-overlap must not be negative: %s", s.RevokeOverlap)
	}
	return nil
}
