package certs

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
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

// issuedAt is when a certificate was made, by the API server's clock. Its beginning is by the clock that was behind.
func (s Settings) issuedAt(c Certificate) time.Time {
	byStart, byEnd := c.issuedAt(), s.issuedByEnd(c)
	if ahead := byEnd.Sub(byStart); ahead > 0 && ahead <= skewSuspends {
		return byEnd
	}
	return byStart
}

// issuedByEnd is when a certificate of the present validity was made that ends when this one does.
func (s Settings) issuedByEnd(c Certificate) time.Time {
	if c.IsCA {
		return c.NotAfter.Add(-s.CAValidity)
	}
	return c.NotAfter.Add(-s.ServingValidity)
}

// RenewalOf is when a serving certificate is to be replaced. The moment is spread by the certificate itself, so that all
// rotators agree on it.
func RenewalOf(c Certificate, s Settings) time.Time {
	sum := sha256.Sum256(c.SerialNumber.Bytes())
	fraction := float64(binary.BigEndian.Uint64(sum[:8])) / math.MaxUint64
	factor := 1 - renewJitter + 2*renewJitter*fraction
	return s.issuedAt(c).Add(time.Duration(float64(s.RenewAfter) * factor))
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
