package statefulset

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// refresh moves Pods on.
func (a *applying) refresh(ctx context.Context) {
	err := kube.ForEach(len(a.plan.Refresh), a.parallel, func(i int) error {
		err := a.refreshPod(ctx, a.plan.Refresh[i])
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	a.fail(&a.outcome.UpdateFailure, ReasonFailedUpdate, err)
	err = kube.ForEach(len(a.plan.Patches), a.parallel, func(i int) error {
		change := a.plan.Patches[i]
		_, err := a.writer.PatchPod(ctx, a.s.Set.UID, change.Pod, change.Patch)
		switch {
		case err == nil && change.Identity:
			a.normal(EventSuccessfulUpdate, "labelled Pod %s", change.Pod.Name)
		case err != nil && !kube.IsPassing(err):
			a.warn(EventFailedUpdate, "%v", err)
		}
		a.remember(partOfRefresh(change.Pod), err)
		return err
	})
	a.fail(&a.outcome.UpdateFailure, ReasonFailedUpdate, err)
}

func (a *applying) refreshPod(ctx context.Context, r Refresh) error {
	resizing, err := a.inPlace().Step(ctx, r.Pod, r.Step, a.replacing(r.Instead))
	if r.Step.Due && (err == nil || resizing) {
		// The write has removed them, so that it is told once.
		for _, key := range r.Step.Broken {
			a.warn(EventBrokenAnnotation, "annotation %s of Pod %s could not be read and was removed", key, r.Pod.Name)
		}
	}
	if resizing {
		a.remember(partOfUpdate(r.Pod), err)
	} else {
		a.remember(partOfRefresh(r.Pod), err)
	}
	return err
}

// remember notes whether a part of the work could be done, or when to try again.
func (a *applying) remember(part string, err error) {
	if err == nil {
		a.backoff.Succeeded(a.s.Set.UID, part)
	} else {
		a.again(a.putOff(part, err))
	}
}

func (a *applying) inPlace() inplace.Applier {
	return inplace.Applier{Writer: a.writer, Owner: a.s.Set.UID}
}

// replacing deletes a Pod that the API server refuses its resources; nil if it is to stay.
func (a *applying) replacing(instead *Deletion) inplace.Replace {
	if instead == nil {
		return nil
	}
	return func(ctx context.Context, cause error) error {
		a.warn(EventFailedUpdateInPlace, "%v; replacing the Pod", cause)
		return a.delete(ctx, *instead)
	}
}

// ownClaims writes the owners of claims. A Pod whose claims have not got theirs is not deleted yet.
func (a *applying) ownClaims(ctx context.Context) {
	err := kube.ForEach(len(a.plan.Owners), a.parallel, func(i int) error {
		o := a.plan.Owners[i]
		_, err := a.writer.PatchClaim(ctx, a.s.Set.UID, o.Claim, o.Patch)
		switch {
		case err == nil:
			a.normal(EventSuccessfulUpdate, "changed the owners of claim %s", o.Claim.Name)
			a.remember(partOfOwners(o.Claim), nil)
			return nil
		case apierrors.IsNotFound(err):
			return nil
		}
		if o.Pod != nil {
			a.mark(a.held, o.Pod)
		}
		a.remember(partOfOwners(o.Claim), err)
		if !kube.IsPassing(err) {
			a.warn(EventFailedUpdate, "%v", err)
		}
		return err
	})
	a.fail(&a.outcome.UpdateFailure, ReasonFailedUpdate, err)
}

// update resizes claims and updates Pods.
func (a *applying) update(ctx context.Context) {
	if p := a.plan.Problem; p != nil {
		// Nothing changes before somebody else does: no error that would be retried.
		if !conditionsOf(&a.s.Set.Status, a.now).HasReason(conditionFailedUpdate, p.Reason) {
			reason := EventFailedUpdateInPlace
			if p.Reason == ReasonClaimNotUpdated {
				reason = EventFailedUpdateClaim
			}
			a.warn(reason, "%s", p.Message)
		}
		a.outcome.UpdateFailure = p
	}
	err := kube.ForEach(len(a.plan.Resize), a.parallel, func(i int) error { return a.resize(ctx, a.plan.Resize[i]) })
	a.fail(&a.outcome.UpdateFailure, ReasonFailedUpdate, err)
	err = kube.ForEach(len(a.plan.Update), a.parallel, func(i int) error {
		u := a.plan.Update[i]
		err := a.updatePod(ctx, u)
		if apierrors.IsNotFound(err) {
			return nil
		}
		a.remember(partOfUpdate(u.Pod), err)
		return err
	})
	a.fail(&a.outcome.UpdateFailure, ReasonFailedUpdate, err)
	a.outcome.UpdateRan = !a.plan.UpdatePostponed
}

func (a *applying) resize(ctx context.Context, r ClaimPatch) error {
	_, err := a.writer.PatchClaim(ctx, a.s.Set.UID, r.Claim, r.Patch)
	switch {
	case err == nil:
		a.normal(EventSuccessfulResize, "claim %s asks for more storage", r.Claim.Name)
	case !kube.IsPassing(err):
		a.warn(EventFailedResize, "%v", err)
		a.remember(partOfUpdate(r.Pod), err)
	}
	return err
}

func (a *applying) updatePod(ctx context.Context, u Update) error {
	switch {
	case u.Delete != nil:
		return a.delete(ctx, *u.Delete)
	case u.InPlace == nil:
		return a.send(ctx, u.Pod, u.Patches)
	}
	_, failed := a.s.Failed[partOfUpdate(u.Pod)]
	begun, err := a.inPlace().Update(ctx, u.Pod, *u.InPlace, failed, a.replacing(u.Instead))
	if begun {
		a.metrics.UpdatedInPlace.Inc()
		a.normal(EventSuccessfulUpdateInPlace, "updating Pod %s in place", u.Pod.Name)
		a.mark(a.outcome.Moved, u.Pod)
	}
	if err != nil && !kube.IsPassing(err) {
		a.warn(EventFailedUpdateInPlace, "%v", err)
	}
	return err
}
