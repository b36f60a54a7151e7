package kube

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

func inAPI(name, version string) *metav1.PartialObjectMetadata {
	p := &metav1.PartialObjectMetadata{ObjectMeta: storedPod(name, name, version).ObjectMeta}
	p.Labels = map[string]string{"ours": ""}
	p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return p
}

// TestCatchUpWaitsForWritesAndDeletionsOfAnotherLeader: the cache misses a new Pod and shows one that is gone.
func TestCatchUpWaitsForWritesAndDeletionsOfAnotherLeader(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	client := metadatafake.NewSimpleMetadataClient(scheme)
	var refused atomic.Bool
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if refused.CompareAndSwap(false, true) {
			return true, nil, errors.New("away")
		}
		return true, &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "20"}, Items: []runtime.RawExtension{
			{Object: inAPI("stays", "9")}, {Object: inAPI("new", "15")},
		}}, nil
	})
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	foreign := storedPod("foreign", "f", "3")
	for _, p := range []*corev1.Pod{storedPod("stays", "stays", "9"), storedPod("gone", "gone", "8"), foreign} {
		if p != foreign {
			p.Labels = map[string]string{"ours": ""}
		}
		require.NoError(t, store.Add(p))
	}
	selector, err := labels.Parse("ours")
	require.NoError(t, err)
	source := Source{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Store: store, Selector: selector}

	short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	require.Error(t, CatchUp(short, client, "d", []Source{source}))

	caughtUp := make(chan error, 1)
	go func() { caughtUp <- CatchUp(t.Context(), client, "d", []Source{source}) }()
	require.NoError(t, store.Add(storedPod("new", "new", "15")))
	select {
	case <-caughtUp:
		t.Fatal("the deletion was not awaited")
	case <-time.After(10 * catchUpPoll):
	}
	require.NoError(t, store.Delete(storedPod("gone", "gone", "19")))
	select {
	case err := <-caughtUp:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the cache has caught up")
	}
}

// TestCatchUpOfOneNamespaceListsWhatIsInNone: such a list under a namespace is one of nothing, which the API server refuses.
func TestCatchUpOfOneNamespaceListsWhatIsInNone(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	client := metadatafake.NewSimpleMetadataClient(scheme)
	listed := map[string]string{}
	client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		listed[a.GetResource().Resource] = a.GetNamespace()
		return true, &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "20"}}, nil
	})
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	require.NoError(t, CatchUp(t.Context(), client, "d", []Source{
		{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Store: store},
		{Resource: storagev1.SchemeGroupVersion.WithResource("storageclasses"), Store: store, ClusterScoped: true},
	}))
	require.Equal(t, map[string]string{"pods": "d", "storageclasses": metav1.NamespaceAll}, listed)
}
