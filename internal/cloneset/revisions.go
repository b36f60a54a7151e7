package cloneset

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

// resolveRevisions finds or makes the revision of the present template, and the one that partition holds Pods at.
func (c *Controller) resolveRevisions(ctx context.Context, s *Snapshot, claimsHash string) error {
	s.CollisionCount = ptr.Deref(s.Set.Status.CollisionCount, 0)
	data, err := revision.Encode(&s.Set.Spec.Template)
	if err != nil {
		return err
	}
	found := s.findRevision(data)
	switch {
	case found == nil:
		err = c.createRevision(ctx, s, data, claimsHash)
	case found != s.Revisions[len(s.Revisions)-1]:
		err = c.renewRevision(ctx, s, found, claimsHash)
	case metav1.GetControllerOfNoCopy(found) == nil:
		err = c.adoptRevision(ctx, s, found)
	default:
		s.Update = found
	}
	if err != nil {
		return err
	}
	s.Current = s.Update
	if name := s.Set.Status.CurrentRevision; name != "" {
		for _, r := range s.Revisions {
			if r.Name == name {
				s.Current = r
			}
		}
	}
	return nil
}

// findRevision prefers, of several revisions that mean the same, the one that the Pods are known by.
func (s *Snapshot) findRevision(data []byte) *appsv1.ControllerRevision {
	found := revision.Find(s.Revisions, data)
	if found == nil {
		return nil
	}
	for _, name := range []string{s.Set.Status.UpdateRevision, s.Set.Status.CurrentRevision} {
		if found.Name == name {
			return found
		}
		for _, r := range s.Revisions {
			if r.Name == name && revision.Equal(r.Data.Raw, data) {
				return r
			}
		}
	}
	return found
}

// createRevision counts up the collisions until the name is free, or is held by a revision that means the same.
func (c *Controller) createRevision(ctx context.Context, s *Snapshot, data []byte, claimsHash string) error {
	number, err := revision.NextNumber(s.Revisions)
	if err != nil {
		return err
	}
	owner, err := revisionOwner(s.Set, claimsHash)
	if err != nil {
		return err
	}
	r := revision.New(owner, data, number, s.CollisionCount)
	for {
		r.Name = revision.Name(s.Set.Name, revision.Hash(data, s.CollisionCount))
		created, err := c.writer.CreateRevision(ctx, s.Set.UID, r)
		if err == nil {
			s.use(created)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		holder, err := c.env.Kube.AppsV1().ControllerRevisions(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading ControllerRevision %s: %w", r.Name, err)
		}
		if metav1.IsControlledBy(holder, s.Set) && revision.Equal(holder.Data.Raw, data) {
			s.use(holder)
			return nil
		}
		s.CollisionCount++
	}
}

// renewRevision makes an older revision the newest: the template was set back. Its name stays.
func (c *Controller) renewRevision(ctx context.Context, s *Snapshot, r *appsv1.ControllerRevision, claimsHash string) error {
	number, err := revision.NextNumber(s.Revisions)
	if err != nil {
		return err
	}
	o := patch.New(r).
		Annotation(pub.CloneSetVolumeClaimTemplateHashKey, claimsHash).
		Merge(map[string]any{"revision": number})
	if metav1.GetControllerOfNoCopy(r) == nil {
		o.OwnerReferences(append(slices.Clone(r.OwnerReferences), ownerReference(s.Set)))
	}
	renewed, err := c.writer.PatchRevision(ctx, s.Set.UID, r, o.Build())
	if err != nil {
		return err
	}
	s.use(renewed)
	return nil
}

func (c *Controller) adoptRevision(ctx context.Context, s *Snapshot, r *appsv1.ControllerRevision) error {
	change := patch.New(r).IfUnchanged(r).OwnerReferences(append(slices.Clone(r.OwnerReferences), ownerReference(s.Set)))
	adopted, err := c.writer.PatchRevision(ctx, s.Set.UID, r, change.Build())
	if err != nil {
		return err
	}
	s.use(adopted)
	return nil
}

// use makes a revision the update revision and the newest of the history.
func (s *Snapshot) use(r *appsv1.ControllerRevision) {
	s.Update = r
	s.Revisions = append(slices.DeleteFunc(slices.Clone(s.Revisions), func(o *appsv1.ControllerRevision) bool {
		return o.UID == r.UID
	}), r)
}

// trimHistory deletes revisions that nothing uses beyond the limit, oldest first.
func (c *Controller) trimHistory(ctx context.Context, s *Snapshot) error {
	if len(s.Revisions) <= int(ptr.Deref(s.Set.Spec.RevisionHistoryLimit, 0)) {
		return nil
	}
	used := s.usedRevisions()
	live := func(r *appsv1.ControllerRevision) bool {
		return r.UID == s.Update.UID || r.UID == s.Current.UID || used[revision.ShortHash(r.Name)]
	}
	for _, r := range revision.Surplus(s.Revisions, live, int(ptr.Deref(s.Set.Spec.RevisionHistoryLimit, 0))) {
		if err := c.writer.DeleteRevision(ctx, s.Set.UID, r); err != nil {
			return err
		}
	}
	return nil
}

// usedRevisions are the hashes of the revisions that Pods are at, or that they still run while they wait for another.
func (s *Snapshot) usedRevisions() map[string]bool {
	used := map[string]bool{}
	for _, p := range slices.Concat(s.Pods, s.Inactive) {
		used[revision.ShortHash(pods.RevisionOf(p))] = true
		used[revision.ShortHash(inplace.From(p))] = true
	}
	return used
}
