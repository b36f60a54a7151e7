package workload

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
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

func TestAnOwnerThatCannotBeReadIsLeftAloneAndToldOfOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"uid":"x"},"spec":{"replicas":"two"}}`)
	}))
	defer server.Close()
	client, err := kube.NewFlotilla(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	unreadable, err := client.AppsV1beta1().CloneSets("d").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	owners := cache.NewStore(func(any) (string, error) { return "d/web", nil })
	events := record.NewFakeRecorder(9)
	worked := 0
	s := &Syncer[*v1beta1.CloneSet]{
		Store: owners, Gate: kube.NewGate(), Clock: clock.RealClock{}, Recorder: events,
		Metrics: NewMetrics(prometheus.NewRegistry(), "test"), Forget: func(types.UID) {},
		Work: func(context.Context, *v1beta1.CloneSet) (time.Duration, error) {
			worked++
			return 0, nil
		},
	}
	for _, owner := range []*v1beta1.CloneSet{unreadable, unreadable, {ObjectMeta: metav1.ObjectMeta{UID: "x"}}, unreadable} {
		require.NoError(t, owners.Add(owner))
		_, err := s.Sync(t.Context(), cache.NewObjectName("d", "web"))
		require.NoError(t, err)
	}
	require.Equal(t, 1, worked)
	require.Len(t, events.Events, 2)
	require.Contains(t, <-events.Events, "Warning InvalidSpec cannot be read, and is left alone until it is mended: ")
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(NewProgress("test", owners, func(any) (Rollout, bool) { panic("nothing is known of its progress") })))
	told, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, told, 1)
	require.Equal(t, "flotilla_test_unreadable", told[0].GetName())
}
