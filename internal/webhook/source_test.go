package webhook

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/certs"
)

// A machine starts with a clock that is hours behind, and is told the time a minute later: nobody writes the Secret for a month.
func TestAPairIsTakenWhenTheClockIsSet(t *testing.T) {
	now := time.Now()
	issuer, err := certs.NewAuthority(rand.Reader, now, now.Add(time.Hour))
	require.NoError(t, err)
	pair := secret(t, issuer, testHost, now, time.Hour, "1")
	pair.Name, pair.Namespace = "pair", "flotilla-system"
	kube := fake.NewClientset(pair)
	clock := clocktesting.NewFakeClock(now.Add(-3 * time.Hour))
	var counted, offers atomic.Int64
	k := NewKeeper(testHost, clock.Now, func(string) { counted.Add(1) })
	start, err := fromSecret(&app.Env{Kube: kube, Clock: clock, WatchFailed: func(context.Context, *cache.Reflector, error) {}}, "flotilla-system/pair", func(o offered) bool {
		offers.Add(1)
		err, _ := k.Load(o)
		return err == nil
	})
	require.NoError(t, err)
	start(t.Context())
	steps := func(until func() bool, what string) {
		t.Helper()
		require.Eventually(t, func() bool {
			clock.Step(time.Second)
			return until()
		}, time.Minute, 10*time.Millisecond, what)
	}
	steps(func() bool { return offers.Load() > 3 }, "it is offered again")
	require.False(t, k.IsGood())
	require.EqualValues(t, 1, counted.Load(), "and refused once")
	clock.Step(3 * time.Hour)
	steps(k.IsGood, "the pair is valid now")
	before := offers.Load()
	for range 5 {
		clock.Step(time.Second)
	}
	// What is in use is not offered again, but when it is written.
	pair.Annotations = map[string]string{"written": "again"}
	_, err = kube.CoreV1().Secrets(pair.Namespace).Update(t.Context(), pair, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return offers.Load() > before }, time.Minute, 10*time.Millisecond)
	require.Equal(t, before+1, offers.Load())
}
