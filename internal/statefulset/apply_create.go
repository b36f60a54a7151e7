package statefulset

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-logr/logr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

// defaultAtOnce bounds the Pods that one sync creates: between two, the status tells how far it has come.
const defaultAtOnce = 500

// createAll makes claims and Pods that are missing, and returns whether all went well.
func (a *applying) createAll(ctx context.Context) bool {
	err := kube.ForEach(len(a.plan.MakeClaims), a.parallel, func(i int) error { return a.makeClaim(ctx, a.plan.MakeClaims[i]) })
	a.fail(&a.outcome.CreateFailure, ReasonFailedCreate, err)
	a.outcome.CreateRan = !a.plan.CreatePostponed
	list := a.plan.Create
	if len(list) > a.createAtOnce {
		list, a.outcome.Again = list[:a.createAtOnce], true
	}
	createErr := a.createList(ctx, list, a.templates(list))
	a.fail(&a.outcome.CreateFailure, ReasonFailedCreate, createErr)
	return err == nil && createErr == nil
}

// vainStarts is how many times in a row creation is begun anew without any success. What is refused then is not a single
// Pod, and is not tried for all, nor for a while.
const vainStarts = 3

// createList goes on after a failure: it may be about that Pod alone.
func (a *applying) createList(ctx context.Context, list []Creation, templates map[string]source) error {
	var errs []error
	for vain := 0; len(list) > 0; {
		var tried atomic.Int64
		created, err := kube.SlowStart(len(list), a.parallel, func(i int) error {
			tried.Add(1)
			return a.tryCreate(ctx, list[i], templates[list[i].Revision.Name])
		})
		errs = append(errs, err)
		list = list[tried.Load():]
		if vain++; created > 0 {
			vain = 0
			a.backoff.Succeeded(a.s.Set.UID, partCreate)
		}
		if vain == vainStarts && err != nil {
			a.again(a.putOff(partCreate, err))
			break
		}
	}
	return errors.Join(errs...)
}

// tryCreate remembers the failure of a single Pod.
func (a *applying) tryCreate(ctx context.Context, c Creation, from source) error {
	err := a.create(ctx, c, from)
	if err == nil || apierrors.IsAlreadyExists(err) {
		// Somebody else's Pod may hold the name. That it goes is an event.
		return nil
	}
	if !kube.IsPassing(err) {
		a.warn(EventFailedCreate, "%v", err)
	}
	a.again(a.putOff(c.Part, err))
	return err
}

// source is what Pods are made from, or why it cannot be read.
type source struct {
	template *corev1.PodTemplateSpec
	err      error
}

// templates are those that the Pods are made from, by the name of the revision.
func (a *applying) templates(list []Creation) map[string]source {
	out := map[string]source{}
	for _, c := range list {
		if _, known := out[c.Revision.Name]; !known {
			template, err := a.templateOf(c.Revision)
			out[c.Revision.Name] = source{template, err}
		}
	}
	return out
}

// templateOf of the update revision is that of the spec.
func (a *applying) templateOf(r *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	if r == a.s.Update {
		return &a.s.Set.Spec.Template, nil
	}
	template, err := revision.Decode(r.Data.Raw)
	if err != nil {
		return nil, fmt.Errorf("ControllerRevision %s: %w", r.Name, err)
	}
	return template, nil
}

func (a *applying) create(ctx context.Context, c Creation, from source) error {
	switch {
	case c.Blocked != nil:
		return c.Blocked
	case from.err != nil:
		return from.err
	}
	for _, claim := range c.Claims {
		if err := a.makeClaim(ctx, claim); err != nil {
			return err
		}
	}
	p := newPod(a.s.Set, c.Revision, from.template, c.Ordinal, a.now)
	created, err := a.writer.CreatePod(ctx, a.s.Set.UID, p)
	if err != nil {
		return err
	}
	a.metrics.Created.Inc()
	a.normal(EventSuccessfulCreate, "created Pod %s", p.Name)
	a.openGates(ctx, created)
	return nil
}

// openGates spares the kubelet of a new Pod a write of its own about gates that nobody has answered. It is an attempt: what
// fails is done by the next sync.
func (a *applying) openGates(ctx context.Context, p *corev1.Pod) {
	step := inplace.Refresh{Lifecycle: a.s.Set.Spec.Lifecycle, AtTarget: true, Ahead: true, Now: a.now}.Step(p)
	if step.State != pub.LifecycleStateNormal || !step.Due {
		return
	}
	if _, err := a.writer.PatchPod(ctx, a.s.Set.UID, p, step.Patch); err != nil {
		logr.FromContextOrDiscard(ctx).V(2).Info("the gates of a new Pod are answered later", "pod", p.Name, "reason", err.Error())
	}
}

// makeClaim creates a claim. One of that name that is there already will do, unless it is about to go: its name is all
// that it is known by.
func (a *applying) makeClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	_, err := a.writer.CreateClaim(ctx, a.s.Set.UID, claim)
	switch {
	case err == nil:
		a.normal(EventSuccessfulCreate, "created claim %s", claim.Name)
		return nil
	case !apierrors.IsAlreadyExists(err):
		return err
	}
	there, err := a.env.Kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("reading claim %s: %w", claim.Name, err)
	case there.DeletionTimestamp != nil:
		return fmt.Errorf("creating claim %s: the one of that name is being deleted", claim.Name)
	}
	return nil
}
