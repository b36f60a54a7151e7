package certs

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	firstPatchRetry   = time.Second
	longestPatchRetry = time.Minute
	// firstOvertakenRetry is short: the event of the other's write is under way.
	firstOvertakenRetry = 20 * time.Millisecond
	// patchJitter spreads retries, as a fraction.
	patchJitter = 0.2
)

// remembered is what is known of a target from one pass to the next. Losing it costs time only. Its times are of the steady
// clock.
type remembered struct {
	contest contest
	// patched is our last write, as the API server answered it, until the cache shows as much.
	patched metav1.Object
	// uid and generation are those of the object when it was last seen.
	uid        types.UID
	generation int64
	// trusted is since when each certificate was seen in all entries.
	trusted map[string]time.Time
	// held are the certificates in some entry when it was last seen, and lost is when others were first seen to be missing.
	held map[string]bool
	lost map[string]time.Time
	// published is the bundle that it was last seen to hold in full.
	published []Certificate
	// resetSince is since when it was seen to hold another one.
	resetSince time.Time
	// overtaken and failures count attempts since the last patch that went through.
	overtaken, failures int
	notBefore           time.Time
	failed              bool
	// told is the state that was last told of, toldStrangers who else was called then.
	told          TargetState
	toldStrangers string
}

// see notes what the target holds, beside what it should hold. Passes do not see every state of an object: where one is
// missing between this one and the last, nobody knows what it held, and trust begins anew.
func (m *remembered) see(object metav1.Object, bundles [][]Certificate, now time.Time) {
	if object.GetUID() != m.uid || object.GetGeneration() > m.generation+1 {
		m.trusted = nil
	}
	m.uid, m.generation = object.GetUID(), object.GetGeneration()
	m.trusted = stillTrusted(bundles, m.trusted, now)
	m.seeHeld(bundles, now)
	reset := m.published != nil && slices.ContainsFunc(bundles, func(b []Certificate) bool { return !SameBundle(b, m.published) })
	switch {
	case !reset:
		m.resetSince = time.Time{}
	case m.resetSince.IsZero():
		m.resetSince = now
	}
}

// vanish notes that the object is gone.
func (m *remembered) vanish(now time.Time) {
	m.patched, m.trusted = nil, nil
	m.seeHeld(nil, now)
}

// why says what a patch is for.
func (m *remembered) why(list []Certificate) string {
	switch {
	case m.published == nil:
		return becauseNew
	case SameBundle(m.published, list):
		return becauseRepair
	default:
		return becauseRotation
	}
}

// acknowledge notes a patch that went through. It returns how long a reset lasted, and whether somebody is at odds with us.
func (m *remembered) acknowledge(kind, why string, answer metav1.Object, list []Certificate, now time.Time) (lasted time.Duration, contested bool) {
	if why == becauseRepair && !m.resetSince.IsZero() {
		lasted = now.Sub(m.resetSince)
	}
	m.patched, m.published, m.resetSince = answer, list, time.Time{}
	m.overtaken, m.failures, m.failed, m.notBefore = 0, 0, false, time.Time{}
	if why == becauseRepair {
		m.notBefore, contested = m.contest.repaired(kind, now)
	}
	return lasted, contested
}

// overtake notes a patch that did not apply, because the object is another by now.
func (m *remembered) overtake(now time.Time) {
	m.notBefore = now.Add(min(firstOvertakenRetry<<min(m.overtaken, 12), longestPatchRetry))
	m.overtaken++
}

// fail notes a patch that was refused or got no answer. spread is between 0 and 1.
func (m *remembered) fail(now time.Time, spread float64) {
	wait := min(firstPatchRetry<<min(m.failures, 6), longestPatchRetry)
	m.failures++
	m.failed = true
	m.notBefore = now.Add(time.Duration(float64(wait) * (1 - patchJitter*spread)))
}

// stillTrusted notes since when each certificate is in all of the bundles.
func stillTrusted(bundles [][]Certificate, before map[string]time.Time, now time.Time) map[string]time.Time {
	trusted := map[string]time.Time{}
	if len(bundles) == 0 {
		return trusted
	}
	for _, c := range bundles[0] {
		if slices.ContainsFunc(bundles, func(b []Certificate) bool { return !slices.ContainsFunc(b, c.Is) }) {
			continue
		}
		id := c.Fingerprint()
		trusted[id] = now
		if at, ok := before[id]; ok {
			trusted[id] = at
		}
	}
	return trusted
}

// lostFor bounds what is remembered of certificates that a target does not hold any more.
const lostFor = 10 * time.Minute

// seeHeld notes which certificates have gone from all of the bundles.
func (m *remembered) seeHeld(bundles [][]Certificate, now time.Time) {
	held, lost := map[string]bool{}, map[string]time.Time{}
	for _, bundle := range bundles {
		for _, c := range bundle {
			held[c.Fingerprint()] = true
		}
	}
	for id, at := range m.lost {
		if now.Sub(at) < lostFor && !held[id] {
			lost[id] = at
		}
	}
	for id := range m.held {
		if !held[id] {
			lost[id] = now
		}
	}
	m.held, m.lost = held, lost
}
