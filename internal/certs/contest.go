package certs

import (
	"slices"
	"time"
)

const (
	contestWindow = 10 * time.Minute
	contestedFrom = 3
	contestQuiet  = 30 * time.Minute
	// configurationPace bounds the repairs of a configuration: two a second.
	configurationPace = 500 * time.Millisecond
)

// contest counts how often somebody else resets a target. Repairs of configurations cost nothing and are never put off for
// long; those of CRDs close every watch of the kind.
type contest struct {
	// repairs are those of the last window, or all since somebody is at odds with us.
	repairs []time.Time
	active  bool
}

// repaired notes a repair and returns when the next one may be, and whether somebody is at odds with us.
func (c *contest) repaired(kind string, now time.Time) (notBefore time.Time, contested bool) {
	c.forget(now)
	c.repairs = append(c.repairs, now)
	c.active = c.active || len(c.repairs) >= contestedFrom
	if kind != KindCRD {
		return now.Add(configurationPace), c.active
	}
	switch n := len(c.repairs); {
	case n < contestedFrom:
		return time.Time{}, c.active
	case n == contestedFrom:
		return now.Add(10 * time.Second), c.active
	case n == contestedFrom+1:
		return now.Add(30 * time.Second), c.active
	default:
		return now.Add(time.Minute), c.active
	}
}

// forget drops what is past: repairs that are far between, and a contest when there was no repair for half an hour.
func (c *contest) forget(now time.Time) {
	n := len(c.repairs)
	if c.active && n > 0 && now.Sub(c.repairs[n-1]) >= contestQuiet {
		c.active, c.repairs = false, nil
	}
	if !c.active {
		c.repairs = slices.DeleteFunc(c.repairs, func(at time.Time) bool { return now.Sub(at) >= contestWindow })
	}
}

// isContested says whether somebody was at odds with us within the last half hour.
func (c *contest) isContested(now time.Time) bool {
	c.forget(now)
	return c.active
}
