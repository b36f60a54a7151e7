package cloneset

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/workload"
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
	resizing, err := a.inPlace().Step(ctx, r.Pod, r.Step, a.replacing(r.Instead))
	if r.Step.Due && (err == nil || resizing) {
		a.reportBroken(r)
	}
	if resizing {
		return a.resized(r.Pod, err)
	}
	return err
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
		_, err := a.delete(ctx, *instead, EventSuccessfulUpdateReCreate, EventFailedUpdateReCreate)
		return err
	}
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

func (a *applying) update(ctx context.Context) {
	var impossible []error
	for _, u := range a.plan.Update {
		if u.Impossible != nil {
			impossible = append(impossible, u.Impossible)
		}
	}
	if len(impossible) > 0 {
		// Nothing changes before the template does: no error that would be retried.
		a.outcome.UpdateFailure = &workload.Problem{Reason: ReasonInPlaceImpossible, Message: impossible[0].Error()}
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
	if !conditionsOf(&a.s.Set.Status, a.now).hasReason(v1beta1.CloneSetConditionFailedUpdate, ReasonInPlaceImpossible) {
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
		_, err := a.delete(ctx, *u.Recreate, EventSuccessfulUpdateReCreate, EventFailedUpdateReCreate)
		return err
	default:
		_, err := a.send(ctx, u.Pod, u.Patches)
		return err
	}
}

func (a *applying) updateInPlace(ctx context.Context, p *corev1.Pod, u Update) error {
	_, failed := a.s.Postponed[p.UID]
	begun, err := a.inPlace().Update(ctx, p, *u.InPlace, failed, a.replacing(u.Instead))
	if begun {
		a.metrics.UpdatedInPlace.Inc()
		a.normal(EventSuccessfulUpdateInPlace, "updating Pod %s in place", p.Name)
	}
	return err
}
