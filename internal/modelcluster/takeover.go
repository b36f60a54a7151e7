package modelcluster

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/test/takeover"
)

// TakeOver starts on the objects that another implementation left, and fails if more is written than one status of each
// owner of the kind. It returns the owners as they are then.
func (f *Fixture[S]) TakeOver(kind string, sync func(context.Context, cache.ObjectName) (time.Duration, error)) []S {
	f.Helper()
	putAll[*appsv1.ControllerRevision](f, Revisions, takeover.Revisions)
	putAll[*corev1.Pod](f, Pods, takeover.Pods)
	putAll[*corev1.PersistentVolumeClaim](f, Claims, takeover.Claims)
	owners, err := takeover.Read[S](takeover.Owners)
	require.NoError(f, err)
	var names []cache.ObjectName
	for _, o := range owners {
		if o.GetObjectKind().GroupVersionKind().Kind == kind {
			f.Put(f.kind.Resource, o)
			names = append(names, cache.MetaObjectToName(o))
		}
	}
	f.Restart()
	for range 3 {
		for _, name := range names {
			f.ShowAll()
			_, err := sync(context.Background(), name)
			require.NoError(f, err)
		}
	}
	require.Equal(f, map[string]int{"patch/status " + f.kind.Resource: len(names)}, f.Writes, "one status each, and nothing else")
	var out []S
	for _, name := range names {
		out = append(out, f.Objects[f.kind.Resource][name.String()].(S)) //nolint:errcheck,forcetypeassert // S is the kind's type.
	}
	return out
}

func putAll[T, S Object](f *Fixture[S], resource, list string) {
	f.Helper()
	objects, err := takeover.Read[T](list)
	require.NoError(f, err)
	for _, o := range objects {
		f.Put(resource, o)
	}
}
