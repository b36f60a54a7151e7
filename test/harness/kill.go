package harness

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// KillUntil starts a controller for one namespace and kills it after a random time, over and over, until done holds.
// Each life is a little longer than the one before, so that the work ends.
func (c *Cluster) KillUntil(t testing.TB, component, namespace, what string, done func(context.Context) error) {
	t.Helper()
	const mostKills = 200
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kills := 0
	for life := 200 * time.Millisecond; ; life += 40 * time.Millisecond {
		p := c.StartController(t, component, namespace)
		err := localcluster.Await(t.Context(), life+time.Duration(random.Int64N(int64(300*time.Millisecond))), done)
		p.Kill()
		if err == nil {
			break
		}
		if kills++; kills > mostKills {
			t.Fatalf("%s did not happen within %d lives: %v", what, kills, err)
		}
	}
	t.Logf("killed %d times", kills)
	if kills == 0 {
		t.Fatalf("%s ended before it could be killed", component)
	}
}
