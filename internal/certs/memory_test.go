package certs

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Somebody takes an authority out of a bundle and somebody else puts it back, between two passes.
func TestTrustBeginsAnewWhereAStateWasNotSeen(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	a, err := NewAuthority(rand.Reader, start, start.Add(day))
	require.NoError(t, err)
	bundles, id := [][]Certificate{{a.Certificate}}, a.Fingerprint()
	at := func(uid types.UID, generation int64) metav1.Object {
		return &metav1.ObjectMeta{UID: uid, Generation: generation}
	}
	for name, c := range map[string]struct {
		next metav1.Object
		anew bool
	}{
		"the same state":     {at("x", 3), false},
		"the next one":       {at("x", 4), false},
		"one was not seen":   {at("x", 5), true},
		"it is a new object": {at("y", 3), true},
		"it was made anew":   {at("y", 1), true},
		"an older cache":     {at("x", 2), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &remembered{}
			m.see(at("x", 3), bundles, start)
			m.see(c.next, bundles, start.Add(time.Minute))
			want := start
			if c.anew {
				want = start.Add(time.Minute)
			}
			require.Equal(t, want, m.trusted[id])
		})
	}
}
