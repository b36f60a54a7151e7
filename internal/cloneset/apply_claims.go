package cloneset

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
)

// release lets Pods go that do not match any more, after their claims are theirs. A Pod that was released first would
// look like one that is gone, and lose its claims to the next cleaning up.
func (a *applying) release(ctx context.Context) error {
	return kube.ForEach(len(a.plan.Release), a.parallel, func(i int) error {
		p := a.plan.Release[i]
		for _, h := range a.claims.handOversTo(p) {
			if err := a.handOver(ctx, h); err != nil {
				return err
			}
		}
		_, err := a.writer.PatchPod(ctx, a.s.Set.UID, p, withoutOwner(p, a.s).Build())
		return err
	})
}

func (c *Controller) mayAdopt(ctx context.Context, set *v1beta1.CloneSet) (bool, error) {
	return kube.MayAdopt(ctx, c.env.Flotilla.AppsV1beta1().CloneSets(set.Namespace), set, "CloneSet")
}

// adoptAll takes back Pods that match again. One that refuses is left alone for a while, so that the others are kept.
func (a *applying) adoptAll(ctx context.Context) error {
	if may, err := a.mayAdopt(ctx, a.s.Set); !may {
		return err
	}
	return kube.ForEach(len(a.plan.Adopt), a.parallel, func(i int) error {
		p := a.plan.Adopt[i]
		err := a.adopt(ctx, p)
		if err != nil {
			a.putOff(string(p.UID), err)
		}
		return err
	})
}

// adopt takes the claims back before the Pod: while they are without their Pod they are kept, and a Pod that has come
// without its claims would not be looked at again.
func (a *applying) adopt(ctx context.Context, p *corev1.Pod) error {
	theirs, err := a.claimsToTakeBack(p)
	if err != nil {
		return err
	}
	for _, claim := range theirs {
		if err := a.takeBack(ctx, HandOver{claim, p}); err != nil {
			return err
		}
	}
	change := patch.New(p).IfUnchanged(p).OwnerReferences(kube.WithOwner(p.OwnerReferences, ownerReference(a.s.Set)))
	_, err = a.writer.PatchPod(ctx, a.s.Set.UID, p, change.Build())
	return err
}

// takeBack makes the set the owner of a claim again.
func (a *applying) takeBack(ctx context.Context, h HandOver) error {
	_, err := a.writer.PatchClaim(ctx, a.s.Set.UID, h.Claim, h.backTo(a.s.Set))
	if err != nil && !kube.IsPassing(err) {
		a.warn(EventFailedUpdate, "taking claim %s back from Pod %s: %v", h.Claim.Name, h.Pod.Name, err)
	}
	return err
}

// claimsToTakeBack are those that went with the Pod, and those of its id that belong to nobody.
func (a *applying) claimsToTakeBack(p *corev1.Pod) ([]*corev1.PersistentVolumeClaim, error) {
	theirs, err := kube.Owned[*corev1.PersistentVolumeClaim](a.Controller.claims.GetIndexer(), p.UID)
	if err != nil {
		return nil, err
	}
	orphans, err := kube.Orphans[*corev1.PersistentVolumeClaim](a.Controller.claims.GetIndexer(), p.Namespace)
	if err != nil {
		return nil, err
	}
	for _, c := range orphans {
		if len(c.OwnerReferences) == 0 && strings.HasSuffix(c.Name, "-"+p.Name) && idOfClaim(c, a.s.Set) == idOf(p, a.s.Set) {
			theirs = append(theirs, c)
		}
	}
	return theirs, nil
}

func (a *applying) handOver(ctx context.Context, h HandOver) error {
	_, err := a.writer.PatchClaim(ctx, a.s.Set.UID, h.Claim, h.patchFor(a.s))
	if err != nil && !kube.IsPassing(err) {
		a.warn(EventFailedUpdate, "handing claim %s over to Pod %s: %v", h.Claim.Name, h.Pod.Name, err)
	}
	return err
}

// handleClaims sees to the claims of Pods that end. Those of Pods that were released went with them. What is refused for one
// claim says nothing about the others.
func (a *applying) handleClaims(ctx context.Context) error {
	going := slices.DeleteFunc(slices.Clone(a.claims.HandOver), func(h HandOver) bool { return slices.Contains(a.plan.Release, h.Pod) })
	handed := kube.ForEach(len(going), a.parallel, func(i int) error { return a.handOver(ctx, going[i]) })
	parted := slices.DeleteFunc(slices.Clone(a.s.Parted), func(h HandOver) bool {
		return slices.ContainsFunc(a.plan.Delete, func(d Deletion) bool { return d.Pod == h.Pod })
	})
	taken := kube.ForEach(len(parted), a.parallel, func(i int) error {
		if err := a.takeBack(ctx, parted[i]); err != nil && !kube.IsPassing(err) {
			return err
		}
		return nil
	})
	deleted := a.deleteClaims(ctx, a.claims.Delete, EventFailedDelete)
	_, ended := a.eachLeaving(len(a.claims.DeletePods), func(i int) (*corev1.Pod, bool, error) {
		p := a.claims.DeletePods[i]
		err := a.writer.DeletePod(ctx, a.s.Set.UID, p)
		if err != nil && !kube.IsPassing(err) {
			a.warn(EventFailedDelete, "%v", err)
		}
		return p, err == nil, err
	})
	return errors.Join(handed, taken, deleted, ended)
}

// part hands the claims of a Pod over to it before it is deleted, where claims without a Pod are used again. They are to go
// with this one, even if nobody gets to delete them: the next Pod must not find its data.
func (a *applying) part(ctx context.Context, p *corev1.Pod) error {
	if !a.s.Set.Spec.ScaleStrategy.EnablePVCReuse {
		// Claims without a Pod are deleted anyway.
		return nil
	}
	for _, claim := range a.s.claimsOf(p) {
		if !metav1.IsControlledBy(claim, a.s.Set) {
			continue
		}
		if err := a.handOver(ctx, HandOver{claim, p}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
