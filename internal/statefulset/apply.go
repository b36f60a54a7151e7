package statefulset

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// defaultParallel bounds the requests of one sync that are under way at a time.
const defaultParallel = 32

// applying carries out one plan.
type applying struct {
	*Controller
	s       *Snapshot
	plan    *Plan
	now     time.Time
	outcome Outcome
	errs    []error
	// held are Pods that are not deleted, because an owner of their claims could not be written.
	held sets.Set[types.UID]
	mu   sync.Mutex
}

// apply carries out the plan in the order that Plan documents. Failures of single Pods do not keep the others from being
// worked on; all are in the error.
func (c *Controller) apply(ctx context.Context, s *Snapshot, plan *Plan, now time.Time) (Outcome, error) {
	a := &applying{
		Controller: c, s: s, plan: plan, now: now, held: sets.Set[types.UID]{},
		outcome: Outcome{UpdateReached: plan.UpdateReached, Stuck: plan.Stuck, Unfinished: plan.Unfinished, Waits: plan.Waits, Deleted: sets.Set[types.UID]{}, Moved: sets.Set[types.UID]{}},
	}
	a.note(a.release(ctx))
	if len(plan.Adopt) > 0 {
		err := a.adoptAll(ctx)
		a.note(err)
		a.outcome.Again = err == nil
		return a.outcome, errors.Join(a.errs...)
	}
	a.refresh(ctx)
	a.ownClaims(ctx)
	a.deleteAll(ctx)
	if a.createAll(ctx) {
		a.update(ctx)
	}
	return a.outcome, errors.Join(a.errs...)
}

func (a *applying) note(err error) {
	if err != nil {
		a.errs = append(a.errs, err)
	}
}

// fail notes an error and says in the outcome what failed, unless it is one that goes away by itself.
func (a *applying) fail(into **workload.Problem, reason string, err error) {
	a.note(err)
	if err != nil && *into == nil && !kube.IsPassing(err) {
		*into = &workload.Problem{Reason: reason, Message: kube.FirstLine(err)}
	}
}

// putOff remembers for how long a part of the work that failed is not tried again, and returns it. What passes by itself,
// and an API server that does not answer, says nothing about the part.
func (a *applying) putOff(part string, err error) time.Duration {
	if kube.IsPassing(err) || kube.IsLost(err) {
		return 0
	}
	return a.backoff.Failed(a.s.Set.UID, part, goalOf(a.s.Set), a.now)
}

// again has the set looked at again that soon. Any number of requests may be under way.
func (a *applying) again(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plan.look(after)
}

func (a *applying) release(ctx context.Context) error {
	return kube.ForEach(len(a.plan.Release), a.parallel, func(i int) error {
		p := a.plan.Release[i]
		_, err := a.writer.PatchPod(ctx, a.s.Set.UID, p, withoutOwner(p, a.s))
		return err
	})
}

func (c *Controller) mayAdopt(ctx context.Context, set *v1beta1.StatefulSet) (bool, error) {
	return kube.MayAdopt(ctx, c.env.Flotilla.AppsV1beta1().StatefulSets(set.Namespace), set, "StatefulSet")
}

// adoptAll takes Pods that belong to nobody. One that refuses is left alone for a while, so that the others are kept.
func (a *applying) adoptAll(ctx context.Context) error {
	if may, err := a.mayAdopt(ctx, a.s.Set); !may {
		return err
	}
	return kube.ForEach(len(a.plan.Adopt), a.parallel, func(i int) error {
		p := a.plan.Adopt[i]
		owners := kube.WithOwner(p.OwnerReferences, ownerReference(a.s.Set))
		_, err := a.writer.PatchPod(ctx, a.s.Set.UID, p, patch.New(p).IfUnchanged(p).OwnerReferences(owners).Build())
		if err != nil {
			a.putOff(partOfUpdate(p), err)
		}
		return err
	})
}

// deleteAll deletes Pods that have ended or are not wanted.
func (a *applying) deleteAll(ctx context.Context) {
	err := kube.ForEach(len(a.plan.Delete), a.parallel, func(i int) error {
		err := a.delete(ctx, a.plan.Delete[i])
		a.remember(partOfDeletion(a.plan.Delete[i].Pod), err)
		return err
	})
	a.fail(&a.outcome.UpdateFailure, ReasonFailedDelete, err)
}

// delete deletes a Pod, or makes it wait for its hook.
func (a *applying) delete(ctx context.Context, d Deletion) error {
	if a.held.Has(d.Pod.UID) {
		return nil
	}
	err := a.send(ctx, d.Pod, d.Prepare)
	if err == nil && len(d.Prepare) == 0 {
		if err = a.writer.DeletePod(ctx, a.s.Set.UID, d.Pod); err == nil {
			a.metrics.Deleted.Inc()
			a.normal(EventSuccessfulDelete, "deleted Pod %s", d.Pod.Name)
			a.mark(a.outcome.Deleted, d.Pod)
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil && !kube.IsPassing(err):
		a.warn(EventFailedDelete, "%v", err)
	}
	return err
}

func (a *applying) mark(in sets.Set[types.UID], p *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in.Insert(p.UID)
}

func (a *applying) send(ctx context.Context, p *corev1.Pod, patches []patch.Patch) error {
	for _, change := range patches {
		patched, err := a.writer.PatchPod(ctx, a.s.Set.UID, p, change)
		if err != nil {
			return err
		}
		p = patched
	}
	return nil
}

func (a *applying) normal(reason, format string, args ...any) {
	a.env.Recorder.Eventf(a.s.Set, corev1.EventTypeNormal, reason, format, args...)
}

func (a *applying) warn(reason, format string, args ...any) {
	a.env.Recorder.Eventf(a.s.Set, corev1.EventTypeWarning, reason, format, args...)
}
