package cloneset

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	claims  ClaimPlan
	now     time.Time
	outcome Outcome
	errs    []error
}

// apply carries out the plan in the order that Plan documents. Failures of single Pods do not keep the others from being
// worked on; all are in the error.
func (c *Controller) apply(ctx context.Context, s *Snapshot, plan *Plan, claims ClaimPlan, now time.Time) (Outcome, error) {
	a := &applying{Controller: c, s: s, plan: plan, claims: claims, now: now, outcome: Outcome{Unfinished: plan.isUnfinished(), Impossible: plan.isImpossible()}}
	a.note(a.release(ctx))
	if len(plan.Adopt) > 0 {
		err := a.adoptAll(ctx)
		a.note(err)
		a.outcome.Again = err == nil
		return a.outcome, errors.Join(a.errs...)
	}
	claimsErr := a.handleClaims(ctx)
	moved := a.refresh(ctx)
	scaled := a.scale(ctx)
	a.fail(&a.outcome.ScaleFailure, ReasonFailedDelete, claimsErr)
	if !scaled && !moved {
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

// withoutIDs hides the names that were drawn for Pods and claims: a message that differed with each attempt would be
// written each time.
func withoutIDs(set, text string) string {
	drawn := regexp.MustCompile(`\b` + regexp.QuoteMeta(set) + fmt.Sprintf("-[%s]{%d}", idAlphabet, idLength) + `\b`)
	return drawn.ReplaceAllString(text, set+"-*")
}

// putOff remembers for how long a part of the work that failed is not tried again, and returns it. What passes by itself,
// and an API server that does not answer, says nothing about the part.
func (a *applying) putOff(part string, err error) time.Duration {
	return a.putOffFor(part, goalOf(a.s.Set), err)
}

func (a *applying) putOffFor(part, goal string, err error) time.Duration {
	if kube.IsPassing(err) || kube.IsLost(err) {
		return 0
	}
	return a.backoff.Failed(a.s.Set.UID, part, goal, a.now)
}

// send returns whether the Pod was changed, which it may be in part where there is an error.
func (a *applying) send(ctx context.Context, p *corev1.Pod, patches []patch.Patch) (changed bool, err error) {
	for _, change := range patches {
		patched, err := a.writer.PatchPod(ctx, a.s.Set.UID, p, change)
		if err != nil {
			return changed || !kube.IsRefused(err), err
		}
		p, changed = patched, true
	}
	return changed, nil
}

func (a *applying) normal(reason, format string, args ...any) {
	a.env.Recorder.Eventf(a.s.Set, corev1.EventTypeNormal, reason, format, args...)
}

func (a *applying) warn(reason, format string, args ...any) {
	a.env.Recorder.Eventf(a.s.Set, corev1.EventTypeWarning, reason, format, args...)
}
