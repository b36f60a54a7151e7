package history

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

// Owner is the workload whose template is recorded.
type Owner struct {
	revision.Owner
	UID types.UID
	// Generation is that of the spec that the template is in; 0: not known.
	Generation int64
	// Template is the present one.
	Template *corev1.PodTemplateSpec
	// UpdateRevision, CurrentRevision and CollisionCount are those of the status; empty and 0 without one.
	UpdateRevision, CurrentRevision string
	CollisionCount                  int32
	// Renewed are annotations that a revision gets when it becomes the newest again; may be nil.
	Renewed map[string]string
	// MayAdopt says whether a revision of nobody may be given to the owner, who may be gone or about to go; nil: always.
	MayAdopt func(ctx context.Context) (bool, error)
}

func (o *Owner) mayAdopt(ctx context.Context) (bool, error) {
	if o.MayAdopt == nil {
		return true, nil
	}
	return o.MayAdopt(ctx)
}

// Keeper writes revisions.
type Keeper struct {
	Writer *kube.Writer
	// Memory saves encoding templates again; may be nil.
	Memory *Memory
}

// Resolve finds or makes the revision of the present template, and finds the one that partition holds Pods at.
func (k Keeper) Resolve(ctx context.Context, h *History, o Owner) error {
	h.CollisionCount = o.CollisionCount
	data, err := k.Memory.encode(&o)
	if err != nil {
		return err
	}
	found := h.find(data, o.UpdateRevision, o.CurrentRevision)
	mine := true
	if found != nil && metav1.GetControllerOfNoCopy(found) == nil {
		if mine, err = o.mayAdopt(ctx); err != nil {
			return err
		}
	}
	switch {
	case !mine:
		h.use(found)
	case found == nil:
		err = k.create(ctx, h, o, data)
	case found != h.Revisions[len(h.Revisions)-1]:
		err = k.renew(ctx, h, o, found)
	case metav1.GetControllerOfNoCopy(found) == nil:
		err = k.adopt(ctx, h, o, found)
	default:
		h.Update = found
	}
	if err != nil {
		return err
	}
	h.Current = h.Update
	for _, r := range h.Revisions {
		if r.Name == o.CurrentRevision {
			h.Current = r
		}
	}
	return nil
}

// create counts up the collisions until the name is free, or is held by a revision that means the same.
func (k Keeper) create(ctx context.Context, h *History, o Owner, data []byte) error {
	number, err := revision.NextNumber(h.Revisions)
	if err != nil {
		return err
	}
	r := revision.New(o.Owner, data, number, h.CollisionCount)
	for {
		r.Name = revision.Name(o.Name, revision.Hash(data, h.CollisionCount))
		created, err := k.Writer.CreateRevision(ctx, o.UID, r)
		if err == nil {
			h.use(created)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		holder, err := k.Writer.Client.AppsV1().ControllerRevisions(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading ControllerRevision %s: %w", r.Name, err)
		}
		if isControlledBy(holder, o.UID) && revision.Equal(holder.Data.Raw, data) {
			h.use(holder)
			return nil
		}
		h.CollisionCount++
	}
}

func isControlledBy(r *appsv1.ControllerRevision, uid types.UID) bool {
	c := metav1.GetControllerOfNoCopy(r)
	return c != nil && c.UID == uid
}

// renew makes an older revision the newest: the template was set back. Its name stays.
func (k Keeper) renew(ctx context.Context, h *History, o Owner, r *appsv1.ControllerRevision) error {
	number, err := revision.NextNumber(h.Revisions)
	if err != nil {
		return err
	}
	change := patch.New(r).Merge(map[string]any{"revision": number})
	for key, value := range o.Renewed {
		change.Annotation(key, value)
	}
	if metav1.GetControllerOfNoCopy(r) == nil {
		change.OwnerReferences(kube.WithOwner(r.OwnerReferences, o.Reference))
	}
	return k.patch(ctx, h, o, r, change)
}

func (k Keeper) adopt(ctx context.Context, h *History, o Owner, r *appsv1.ControllerRevision) error {
	return k.patch(ctx, h, o, r, adoption(r, o))
}

func adoption(r *appsv1.ControllerRevision, o Owner) *patch.Object {
	return patch.New(r).IfUnchanged(r).OwnerReferences(kube.WithOwner(r.OwnerReferences, o.Reference))
}

func (k Keeper) patch(ctx context.Context, h *History, o Owner, r *appsv1.ControllerRevision, change *patch.Object) error {
	patched, err := k.Writer.PatchRevision(ctx, o.UID, r, change.Build())
	if err != nil {
		return err
	}
	h.use(patched)
	return nil
}

// Tidy deletes revisions that none of the Pods uses beyond the limit, oldest first, and adopts those of nobody among the
// others, so that they go when the owner does.
func (k Keeper) Tidy(ctx context.Context, h *History, o Owner, list []*corev1.Pod, limit int) error {
	surplus := h.surplus(list, limit)
	for _, r := range surplus {
		if err := k.Writer.DeleteRevision(ctx, o.UID, r); err != nil {
			return err
		}
	}
	orphans := slices.DeleteFunc(slices.Clone(h.Revisions), func(r *appsv1.ControllerRevision) bool {
		return metav1.GetControllerOfNoCopy(r) != nil || slices.Contains(surplus, r)
	})
	if len(orphans) == 0 {
		return nil
	}
	if may, err := o.mayAdopt(ctx); !may {
		return err
	}
	for _, r := range orphans {
		if _, err := k.Writer.PatchRevision(ctx, o.UID, r, adoption(r, o).Build()); err != nil {
			return err
		}
	}
	return nil
}
