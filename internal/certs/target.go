package certs

import (
	"slices"
	"time"
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
	// TrustedSince is since when, without a break and by the steady clock, all entries were seen to hold the certificate with
	// that fingerprint.
	TrustedSince map[string]time.Time
	// Lost is when, by the steady clock, no entry was first seen to hold the certificate with that fingerprint any more.
	Lost map[string]time.Time
	// MigratingSince is since when a storage migration runs; zero: none does.
	MigratingSince time.Time
	// NotBefore is when, by the steady clock, it may be patched again; it was patched too often, or that failed.
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
