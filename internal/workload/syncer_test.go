package workload

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// moving is a cache that shows the next state of an owner as soon as it was looked at.
type moving struct {
	cache.Store
	states []*metav1.ObjectMeta
}

func (m *moving) GetByKey(string) (any, bool, error) {
	now := m.states[0]
	if len(m.states) > 1 {
		m.states = m.states[1:]
	}
	return now, now != nil, nil
}

func TestAnOwnerIsWorkedOnAsItIsOnceTheCachesAreCurrent(t *testing.T) {
	state := func(uid, version string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}
	}
	for name, c := range map[string]struct {
		next *metav1.ObjectMeta
		work string
	}{
		"a newer state": {state("x", "2"), "2"},
		"another owner": {state("y", "3"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			worked := ""
			s := &Syncer[*metav1.ObjectMeta]{
				Store: &moving{states: []*metav1.ObjectMeta{state("x", "1"), c.next}}, Gate: kube.NewGate(), Clock: clock.RealClock{},
				Metrics: NewMetrics(prometheus.NewRegistry(), "test"), Forget: func(types.UID) {},
				Work: func(_ context.Context, owner *metav1.ObjectMeta) (time.Duration, error) {
					worked = owner.ResourceVersion
					return 0, nil
				},
			}
			_, err := s.Sync(t.Context(), cache.NewObjectName("d", "web"))
			require.NoError(t, err)
			require.Equal(t, c.work, worked)
		})
	}
}
