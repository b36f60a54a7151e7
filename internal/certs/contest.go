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
	repairs []time.Time
}

// repaired notes a repair and returns when the next one may be, and whether somebody is at odds with us.
func (c *contest) repaired(kind string, now time.Time) (notBefore time.Time, contested bool) {
	c.repairs = append(c.repairs, now)
	c.forget(now)
	recent := 0
	for _, at := range c.repairs {
		if now.Sub(at) < contestWindow {
			recent++
		}
	}
	contested = recent >= contestedFrom
	if kind != KindCRD {
		return now.Add(configurationPace), contested
	}
	switch n := len(c.repairs); {
	case n < contestedFrom:
		return time.Time{}, contested
	case n == contestedFrom:
		return now.Add(10 * time.Second), contested
	case n == contestedFrom+1:
		return now.Add(30 * time.Second), contested
	default:
		return now.Add(time.Minute), contested
	}
}

// forget begins anew when there was no repair for half an hour.
func (c *contest) forget(now time.Time) {
	for i := len(c.repairs) - 1; i > 0; i-- {
		if c.repairs[i].Sub(c.repairs[i-1]) >= contestQuiet {
			c.repairs = slices.Delete(c.repairs, 0, i)
			return
		}
	}
	if n := len(c.repairs); n > 0 && now.Sub(c.repairs[n-1]) >= contestQuiet {
		c.repairs = nil
	}
}

// isContested says whether somebody was at odds with us within the last half hour.
func (c *contest) isContested(now time.Time) bool {
	c.forget(now)
	return len(c.repairs) >= contestedFrom
}
