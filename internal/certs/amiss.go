package certs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// overdueAfter is how long what is due may take: there is a pass every minute, and another leader takes over in less.
const overdueAfter = 5 * time.Minute

// amiss says what is wrong: what cannot be used, every target that is not published although it calls us or should, and what has been due for
// so long that nobody seems to do it.
func (r *Rotator) amiss(p pass) error {
	errs := r.unusable(p)
	served := TheirState{Clocks: p.Clocks}
	if p.tls != nil {
		served.Chain = parseWhatCan(p.tls.Data[KeyServingCert])
	}
	for i := range p.readings {
		if problem := r.problemOf(&p.readings[i], p.wanted(), served); problem != "" {
			errs = append(errs, fmt.Errorf("%s %s %s", p.readings[i].Kind, p.readings[i].Name, problem))
		}
	}
	if p.isDue() && !p.isUnderWay(secretOf(p.ca), secretOf(p.tls)) {
		overdue, err := r.isOverdue(p)
		if errs = append(errs, err); overdue {
			errs = append(errs, fmt.Errorf("overdue: %s", p.Reason))
		}
	}
	return errors.Join(errs...)
}

// problemOf is why a target is not published, and what to do; "" if it is.
func (r *Rotator) problemOf(t *observedTarget, bundle []Certificate, served TheirState) string {
	const leaveOut = ", or name only the others by the flags for the objects"
	distrusts := func(b []Certificate) bool { return !slices.ContainsFunc(b, served.vouches) }
	if t.reading.needsNone {
		return ""
	}
	switch t.stateOf(bundle) {
	case Published:
		return ""
	case Foreign:
		return fmt.Sprintf("calls %s and not Service %s/%s: apply its manifest again%s", strings.Join(t.reading.calls, ", "), r.ours.Namespace, r.ours.Service, leaveOut)
	case Absent:
		return "is not there: apply its manifest" + leaveOut
	case Unmanaged:
		return "calls no webhook: apply its manifest again" + leaveOut
	case External:
		return "has an annotation by which somebody else fills in its caBundle: remove it" + leaveOut
	}
	if len(served.Chain) > 0 && slices.ContainsFunc(t.Bundles, distrusts) {
		return "does not trust the serving certificate"
	}
	if !t.MigratingSince.IsZero() {
		return "does not hold the bundle yet: that waits for the end of its storage migration"
	}
	return "does not hold the bundle"
}

// unusable says what of the Secrets cannot be used.
func (r *Rotator) unusable(p pass) (errs []error) {
	if r.options.Mode == ModePublishOnly {
		if len(p.Bundle) == 0 {
			errs = append(errs, fmt.Errorf("Secret %s holds no bundle that can be published", r.options.CASecret)) //nolint:staticcheck // It begins with a kind.
		}
		return append(errs, p.servingProblem())
	}
	if p.Obstructed != "" {
		errs = append(errs, fmt.Errorf("Secret %s is to be written (%s) and is immutable: delete it, so that it can be made anew", r.options.CASecret, p.Obstructed)) //nolint:staticcheck // It begins with a kind.
	}
	a := p.Observed.Authorities
	if !a.Current.isUsable(p.judged()) {
		errs = append(errs, errors.New("the authority that signs cannot be used"))
	}
	if !a.Next.isUsable(p.judged()) {
		errs = append(errs, errors.New("the next authority cannot be used"))
	}
	return append(errs, p.servingProblem())
}

// servingProblem is why the serving certificate cannot be used.
func (p *pass) servingProblem() error {
	s := p.Observed.Serving
	if s == nil || s.Pair == nil || !s.Pair.NotAfter.After(p.judged()) {
		return errors.New("the serving certificate cannot be used")
	}
	return nil
}

// isDue says whether a Secret is to be written now.
func (p *pass) isDue() bool {
	return p.CreateSecret || p.Decision.Authorities != nil || p.Decision.Serving != nil
}

// isOverdue says whether something would be due even if it were earlier.
func (r *Rotator) isOverdue(p pass) (bool, error) {
	before := Clocks{p.Now.Add(-overdueAfter), p.Local.Add(-overdueAfter), p.Steady.Add(-overdueAfter)}
	then, err := r.plan(p.ca, p.tls, p.readings, before)
	return err == nil && then.isDue(), err
}

// isUnderWay says whether one of the objects was written so lately that what follows from it may still be under way.
func (p *pass) isUnderWay(objects ...metav1.Object) bool {
	for _, o := range objects {
		if o == nil {
			continue
		}
		for _, m := range o.GetManagedFields() {
			if m.Time != nil && m.Time.Add(overdueAfter).After(p.Now) {
				return true
			}
		}
	}
	return false
}

// secretOf is nil for none.
func secretOf(s *corev1.Secret) metav1.Object {
	if s == nil {
		return nil
	}
	return s
}
