package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/apis/client/informers/externalversions"
)

func storedSet(name, version, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":{"namespace":"d","name":%q,"uid":%q,"resourceVersion":%q,"annotations":{"a":"b"}},"spec":%s}`,
		name, name, version, spec)
}

const (
	good = `{"replicas":2,"selector":{"matchLabels":{"a":"b"}}}`
	bad  = `{"replicas":2,"reserveOrdinals":"nope"}`
)

// api is an API server that has what it is given. It lists first; where it is asked to list by a watch, it refuses or does so.
type api struct {
	listed  []string
	events  []string
	streams bool
}

func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	items, err := json.Marshal(raw(a.listed))
	if err != nil {
		panic(err)
	}
	q := r.URL.Query()
	switch {
	case q.Get("watch") == "":
		_, _ = fmt.Fprintf(w, `{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSetList","metadata":{"resourceVersion":"10"},"items":%s}`, items)
		return
	case q.Get("sendInitialEvents") == "true" && !a.streams:
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","code":422}`)
		return
	case q.Get("sendInitialEvents") == "true":
		for _, o := range a.listed {
			_, _ = fmt.Fprintf(w, "{\"type\":\"ADDED\",\"object\":%s}\n", o)
		}
		_, _ = fmt.Fprint(w, `{"type":"BOOKMARK","object":{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
	}
	for _, o := range a.events {
		_, _ = fmt.Fprintf(w, "{\"type\":\"MODIFIED\",\"object\":%s}\n", o)
	}
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func raw(texts []string) []json.RawMessage {
	out := make([]json.RawMessage, len(texts))
	for i, t := range texts {
		out[i] = json.RawMessage(t)
	}
	return out
}

func TestAnObjectThatCannotBeReadHidesNoOther(t *testing.T) {
	for name, server := range map[string]api{
		"listed":              {listed: []string{storedSet("x", "1", good), storedSet("poison", "2", bad), storedSet("y", "3", good)}},
		"streamed":            {listed: []string{storedSet("x", "1", good), storedSet("poison", "2", bad), storedSet("y", "3", good)}, streams: true},
		"watched":             {listed: []string{storedSet("poison", "2", good)}, events: []string{storedSet("poison", "11", bad), storedSet("x", "12", good), storedSet("y", "13", good)}},
		"of a status that is": {listed: []string{storedSet("x", "1", good), storedSet("poison", "2", good+`,"status":{"volumeClaims":"garbage"}`), storedSet("y", "3", good)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(server)
			defer s.CloseClientConnections()
			client, err := NewFlotilla(&rest.Config{Host: s.URL, QPS: -1})
			require.NoError(t, err)
			factory := externalversions.NewSharedInformerFactory(client, 0)
			informer := factory.Apps().V1beta1().StatefulSets().Informer()
			factory.Start(t.Context().Done())
			require.Eventually(t, func() bool {
				return len(informer.GetStore().ListKeys()) == 3 && !isWhole(t, informer.GetStore(), "poison")
			}, 10*time.Second, 5*time.Millisecond)
			for _, set := range []string{"x", "y"} {
				require.True(t, isWhole(t, informer.GetStore(), set))
				require.EqualValues(t, 2, *stored(t, informer.GetStore(), set).Spec.Replicas)
			}
			poison := stored(t, informer.GetStore(), "poison")
			require.Contains(t, Unreadable(poison), "cannot unmarshal string")
			require.Equal(t, "poison", string(poison.UID))
			require.Equal(t, "b", poison.Annotations["a"])
			require.Equal(t, v1beta1.StatefulSetSpec{}, poison.Spec)
			require.Empty(t, poison.Status.VolumeClaims)
		})
	}
}

func stored(t *testing.T, s cache.Store, name string) *v1beta1.StatefulSet {
	t.Helper()
	o, there, err := s.GetByKey("d/" + name)
	require.NoError(t, err)
	require.True(t, there)
	return o.(*v1beta1.StatefulSet)
}

func isWhole(t *testing.T, s cache.Store, name string) bool {
	t.Helper()
	return Unreadable(stored(t, s, name)) == ""
}

func TestWhatIsNoObjectIsStillAnError(t *testing.T) {
	for _, body := range []string{`garbage`, `{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":5}`} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, body)
		}))
		client, err := NewFlotilla(&rest.Config{Host: s.URL, QPS: -1})
		require.NoError(t, err)
		_, err = client.AppsV1beta1().StatefulSets("d").Get(t.Context(), "x", metav1.GetOptions{})
		require.Error(t, err, body)
		s.Close()
	}
}
