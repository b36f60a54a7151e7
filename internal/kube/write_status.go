package kube

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
)

// Statuses are the status of an owner as it was seen, and as it should be.
type Statuses struct {
	Old, New any
	// First: the owner has no status yet. The first one is written with its zeros: that there are none is worth knowing.
	First bool
}

// WriteStatus sends what differs, and nothing if nothing does. It applies to no namesake that was created since; that the
// owner is gone is no error.
func WriteStatus[T metav1.Object](ctx context.Context, w *Writer, store Store, client writable[T], owner T, s Statuses, kind string) error {
	if equality.Semantic.DeepEqual(s.Old, s.New) {
		return nil
	}
	body, err := s.patch(owner)
	if err != nil {
		return fmt.Errorf("encoding the status of %s: %w", cache.MetaObjectToName(owner), err)
	}
	if body == nil {
		return nil
	}
	change := patch.Patch{Type: types.MergePatchType, Body: body, Subresource: "status"}
	_, err = sendPatch(ctx, w, store, owner.GetUID(), client, owner, change, kind)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the status of %s: %w", cache.MetaObjectToName(owner), err)
	}
	w.wrote(kind, "status")
	return nil
}

// patch is the merge patch from the old to the new status; nil if nothing differs.
func (s Statuses) patch(owner metav1.Object) ([]byte, error) {
	before := []byte(`{"status":{}}`)
	var err error
	if !s.First {
		if before, err = json.Marshal(map[string]any{"status": s.Old}); err != nil {
			return nil, fmt.Errorf("as it was seen: %w", err)
		}
	}
	after, err := json.Marshal(map[string]any{"status": s.New})
	if err != nil {
		return nil, fmt.Errorf("as it should be: %w", err)
	}
	diff, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, fmt.Errorf("comparing: %w", err)
	}
	if string(diff) == "{}" {
		return nil, nil
	}
	uid, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": owner.GetUID()}})
	if err != nil {
		return nil, fmt.Errorf("the UID: %w", err)
	}
	body, err := jsonpatch.MergeMergePatches(diff, uid)
	if err != nil {
		return nil, fmt.Errorf("adding the UID: %w", err)
	}
	return body, nil
}
