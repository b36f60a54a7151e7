package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/flotilla-k8s/flotilla/internal/kube"
)

const (
	pageSize = 500
	writers  = 4
	// shown is how many failures are told in full.
	shown = 10
)

// again is how a write is repeated that the server could not carry out: for about two minutes.
var again = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}

// rewrite writes all objects and trims storedVersions. It is not done if the CRD was changed meanwhile.
func (m *Migrator) rewrite(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, storage schema.GroupVersionResource) (done bool, err error) {
	if err := m.rewriteAll(ctx, storage); err != nil {
		return false, err
	}
	now, err := m.read(ctx, crd.Name)
	if err != nil {
		return false, err
	}
	if !isSame(crd, now) {
		return false, nil
	}
	return m.trim(ctx, now, storage.Version)
}

// trim says that all objects are stored in one version. Somebody's write in between makes it be looked at again: it may have
// changed what new objects are stored in.
func (m *Migrator) trim(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, version string) (done bool, err error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": crd.ResourceVersion, "uid": crd.UID},
		"status":   map[string]any{"storedVersions": []string{version}},
	})
	if err != nil {
		return false, fmt.Errorf("encoding the patch: %w", err)
	}
	_, err = m.Extensions.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, crd.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("trimming status.storedVersions: %w", err)
	}
	return true, nil
}

// rewriteAll writes every object. Those that cannot be written are told together; they keep no other from being written.
func (m *Migrator) rewriteAll(ctx context.Context, storage schema.GroupVersionResource) error {
	log := logr.FromContextOrDiscard(ctx)
	pace := flowcontrol.NewTokenBucketRateLimiter(m.WritesPerSecond, writers)
	defer pace.Stop()
	work := make(chan *metav1.PartialObjectMetadata)
	var failures failures
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for o := range work {
				failures.add(o, m.write(ctx, pace, storage, o))
			}
		})
	}
	written := 0
	err := m.each(ctx, storage, func(o *metav1.PartialObjectMetadata) error {
		select {
		case work <- o:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if written++; written%1000 == 0 {
			log.Info("migrating", "resource", storage.Resource, "objects", written)
		}
		return nil
	})
	close(work)
	group.Wait()
	if err != nil {
		return fmt.Errorf("listing %s: %w", storage.Resource, err)
	}
	log.Info("all objects were written", "resource", storage.Resource, "objects", written)
	return failures.summary()
}

// each lists in pages.
func (m *Migrator) each(ctx context.Context, storage schema.GroupVersionResource, visit func(*metav1.PartialObjectMetadata) error) error {
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return m.Metadata.Resource(storage).List(ctx, options)
	})
	list.PageSize = pageSize
	return list.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error { //nolint:wrapcheck // The caller says of what.
		item, ok := o.(*metav1.PartialObjectMetadata)
		if !ok {
			return fmt.Errorf("the list holds a %T", o)
		}
		return visit(item)
	})
}

// write stores an object as it is. The precondition makes sure that nobody's change is undone; if there was one, it has
// stored the object already.
func (m *Migrator) write(ctx context.Context, pace flowcontrol.RateLimiter, storage schema.GroupVersionResource, o *metav1.PartialObjectMetadata) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": o.ResourceVersion, "uid": o.UID}})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	var last error
	err = wait.ExponentialBackoffWithContext(ctx, again, func(ctx context.Context) (bool, error) {
		if err := pace.Wait(ctx); err != nil {
			return false, err //nolint:wrapcheck // The context ended.
		}
		_, last = m.Metadata.Resource(storage).Namespace(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, body, metav1.PatchOptions{})
		switch {
		case last == nil, apierrors.IsConflict(last), apierrors.IsNotFound(last):
			last = nil
			return true, nil
		case isPassing(last):
			return false, nil
		}
		return false, last
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}
	return err //nolint:wrapcheck // The summary says of which object.
}

// isPassing says whether the server may carry out the same write a moment later.
func isPassing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return !errors.Is(err, context.Canceled) && kube.IsLost(err)
	}
	code := status.Status().Code
	return code == 429 || code >= 500
}

// failures are objects that could not be written.
type failures struct {
	mu    sync.Mutex
	count int
	texts []string
}

func (f *failures) add(o *metav1.PartialObjectMetadata, err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count++; len(f.texts) < shown {
		f.texts = append(f.texts, fmt.Sprintf("%s/%s: %s", o.Namespace, o.Name, err))
	}
}

func (f *failures) summary() error {
	switch {
	case f.count == 0:
		return nil
	case f.count > len(f.texts):
		f.texts = append(f.texts, fmt.Sprintf("and %d more", f.count-len(f.texts)))
	}
	return fmt.Errorf("%d objects could not be written, so status.storedVersions stays as it is; run this again when they can be: %s", f.count, strings.Join(f.texts, "; "))
}
