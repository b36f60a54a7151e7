package cloneset

import (
	"context"
	"errors"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// refresh returns whether the lifecycle or the hash of any Pod was moved on.
func (a *applying) refresh(ctx context.Context) bool {
	var moved atomic.Bool
	err := kube.ForEach(len(a.plan.Refresh), a.parallel, func(i int) error {
		r := a.plan.Refresh[i]
		if err := a.refreshPod(ctx, r); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
		if r.Step.State != pods.LifecycleState(r.Pod) || r.Pod.Labels[pub.PodTemplateHashKey] == "" {
			moved.Store(true)
		}
		return nil
	})
	a.fail(&a.outcome.UpdateFailure, ReasonFailedUpdate, err)
	return moved.Load()
}

func (a *applying) refreshPod(ctx context.Context, r Refresh) error {
	p := r.Pod
	if change, due := r.Step.Resize.Patch(p); due && r.Step.Closes {
		// It was refused before. The Pod does not leave its Services only to hear that again.
		if err := a.writer.TryPod(ctx, p, change); kube.IsRefused(err) && !kube.IsNoRehearsal(err) {
			return a.resized(p, a.replaceIfRefused(ctx, err, r.Instead))
		}
	}
	if r.Step.Due {
		patched, err := a.writer.PatchPod(ctx, a.s.Set.UID, p, r.Step.Patch)
		if err != nil {
			return err
		}
		p = patched
		a.reportBroken(r)
	}
	if len(r.Step.Resize) == 0 {
		return nil
	}
	return a.resized(p, a.resize(ctx, p, r.Step.Resize, r.Instead))
}

// resized notes whether a Pod has been given its resources, or when to try again.
func (a *applying) resized(p *corev1.Pod, err error) error {
	if err == nil {
		a.backoff.Succeeded(a.s.Set.UID, string(p.UID))
	} else {
		a.putOff(string(p.UID), err)
	}
	return err
}

// reportBroken tells of annotations that were left aside. The write has removed them, so that it is told once.
func (a *applying) reportBroken(r Refresh) {
	for _, key := range r.Step.Broken {
		a.warn(EventBrokenAnnotation, "annotation %s of Pod %s could not be read and was removed", key, r.Pod.Name)
	}
}

// resize gives the Pod's containers what they do not have yet. A Pod that the API server refuses it is replaced where it
// may be.
func (a *applying) resize(ctx context.Context, p *corev1.Pod, wanted inplace.Resize, instead *Deletion) error {
	change, due := wanted.Patch(p)
	if !due {
		return nil
	}
	_, err := a.writer.PatchPod(ctx, a.s.Set.UID, p, change)
	return a.replaceIfRefused(ctx, err, instead)
}

// replaceIfRefused deletes a Pod instead of resizing it.
func (a *applying) replaceIfRefused(ctx context.Context, err error, instead *Deletion) error {
	if err == nil || !kube.IsRefused(err) || instead == nil {
		return err
	}
	a.warn(EventFailedUpdateInPlace, "%v; replacing the Pod", err)
	return a.delete(ctx, *instead, EventSuccessfulUpdateReCreate, EventFailedUpdateReCreate)
}

func (a *applying) update(ctx context.Context) {
	var impossible []error
	for _, u := range a.plan.Update {
		if u.Impossible != nil {
			impossible = append(impossible, u.Impossible)
		}
	}
	if len(impossible) > 0 {
		// Nothing changes before the template does: no error that would be retried.
		a.outcome.UpdateFailure = &Problem{Reason: ReasonInPlaceImpossible, Message: impossible[0].Error()}
		a.reportImpossible(impossible[0])
	}
	err := kube.ForEach(len(a.plan.Update), a.parallel, func(i int) error {
		u := a.plan.Update[i]
		err := a.updatePod(ctx, u)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			a.backoff.Succeeded(a.s.Set.UID, string(u.Pod.UID))
		default:
			a.putOff(string(u.Pod.UID), err)
		}
		return err
	})
	a.fail(&a.outcome.UpdateFailure, ReasonFailedUpdate, err)
	a.outcome.UpdateRan = !a.plan.UpdatePostponed
}

func (a *applying) reportImpossible(err error) {
	old := conditions{list: a.s.Set.Status.Conditions}
	if !old.hasReason("FailedUpdate", ReasonInPlaceImpossible) {
		a.warn(EventFailedUpdateInPlace, "%v", err)
	}
}

func (a *applying) updatePod(ctx context.Context, u Update) error {
	switch {
	case u.InPlace != nil:
		err := a.updateInPlace(ctx, u.Pod, u)
		if err != nil && !kube.IsPassing(err) {
			a.warn(EventFailedUpdateInPlace, "%v", err)
		}
		return err
	case u.Recreate != nil:
		return a.delete(ctx, *u.Recreate, EventSuccessfulUpdateReCreate, EventFailedUpdateReCreate)
	default:
		return a.send(ctx, u.Pod, u.Patches)
	}
}

// updateInPlace closes the gate before it changes the Pod, never after. What the API server may refuse is asked before the
// Pod is taken out of its Services: other resources, and any change that was refused before.
func (a *applying) updateInPlace(ctx context.Context, p *corev1.Pod, update Update) error {
	u := update.InPlace
	if change, resizes := u.Change.Resources.Patch(p); resizes {
		if err := a.writer.TryPod(ctx, p, change); kube.IsRefused(err) && !kube.IsNoRehearsal(err) {
			return a.replaceIfRefused(ctx, err, update.Instead)
		}
	}
	gate, closes := u.CloseGate(p)
	if _, failed := a.s.Postponed[p.UID]; failed && closes {
		change, _ := u.Apply(p)
		if err := a.writer.TryPod(ctx, p, change); err != nil && !kube.IsNoRehearsal(err) {
			return err
		}
	}
	// One that an earlier update has taken out of its Services stays out: that update goes on.
	served := pods.IsConditionTrue(p, pub.InPlaceUpdateReady)
	if closes {
		closed, err := a.writer.PatchPod(ctx, a.s.Set.UID, p, gate)
		if err != nil {
			return err
		}
		p = closed
	}
	change, resize := u.Apply(p)
	changed, err := a.writer.PatchPod(ctx, a.s.Set.UID, p, change)
	if err != nil {
		if closes && served && kube.IsRefused(err) {
			return errors.Join(err, a.reopen(ctx, p))
		}
		return err
	}
	if err := a.resize(ctx, changed, resize, update.Instead); err != nil {
		return err
	}
	a.metrics.updatedInPlace.Inc()
	a.normal(EventSuccessfulUpdateInPlace, "updating Pod %s in place", p.Name)
	return nil
}

// reopen puts a Pod back into its Services whose change was refused. If the Pod has changed meanwhile the next sync will.
func (a *applying) reopen(ctx context.Context, p *corev1.Pod) error {
	_, err := a.writer.PatchPod(ctx, a.s.Set.UID, p, inplace.OpenGate(p, a.now))
	if err != nil && kube.IsPassing(err) {
		return nil
	}
	return err
}
