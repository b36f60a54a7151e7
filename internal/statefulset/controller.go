package statefulset

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/history"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// Controller keeps Advanced StatefulSets.
type Controller struct {
	env *app.Env
	// can is what the cluster offers; it is found out when the controller starts.
	can     inplace.Abilities
	gate    *kube.Gate
	writer  *kube.Writer
	loop    workload.Loop
	metrics *workload.Metrics
	syncer  *workload.Syncer[*v1beta1.StatefulSet]
	// parallel bounds the requests of one sync that are under way at a time.
	parallel int
	// createAtOnce bounds the Pods that one sync creates, and how many missing ones it looks at.
	createAtOnce int

	caches workload.Caches
	informers

	backoff kube.Backoff
	// preDownload: of these sets it was told that images are not pulled ahead.
	preDownload workload.Once
	// templates are remembered as they are encoded.
	templates history.Memory
}

// metricsSubsystem is part of the names of the controller's metrics.
const metricsSubsystem = "statefulset"

// New builds the controller.
func New(env *app.Env) (app.Runnable, error) { return newController(env) }

func newController(env *app.Env) (*Controller, error) {
	c := &Controller{
		env: env, gate: kube.NewGate(), metrics: workload.NewMetrics(env.Metrics, metricsSubsystem), parallel: defaultParallel, createAtOnce: defaultAtOnce,
		backoff: kube.Backoff{First: workload.FirstRetry, Longest: workload.LongestRetry},
	}
	c.loop = kube.NewLoop("statefulset", env.Clock, c.sync)
	if err := c.watch(); err != nil {
		return nil, err
	}
	c.writer = &kube.Writer{
		Client: env.Kube, Gate: c.gate,
		Pods: c.pods.GetStore(), Claims: c.claims.GetStore(), Revisions: c.revisions.GetStore(), Wrote: c.metrics.Wrote,
	}
	env.Metrics.MustRegister(workload.NewProgress(metricsSubsystem, c.sets.GetStore(), rolloutOf))
	c.syncer = &workload.Syncer[*v1beta1.StatefulSet]{
		Kind: "StatefulSet", Store: c.sets.GetStore(), Gate: c.gate, Clock: env.Clock, Metrics: c.metrics, Recorder: env.Recorder,
		Gone: func(key cache.ObjectName) { c.loop.Forget(key) }, Forget: c.forget, Work: c.syncSet,
	}
	return c, nil
}

// rolloutOf is how far a set is.
func rolloutOf(item any) (workload.Rollout, bool) {
	set, ok := item.(*v1beta1.StatefulSet)
	if !ok {
		return workload.Rollout{}, false
	}
	replicas := ptr.Deref(set.Spec.Replicas, 1)
	return workload.Rollout{
		Namespace: set.Namespace, Name: set.Name, Wanted: replicas, Available: set.Status.AvailableReplicas,
		UpdatedAvailable: set.Status.UpdatedAvailableReplicas, UpdatedWanted: max(replicas-partitionOf(&set.Spec), 0),
	}, true
}

// Work syncs until the context ends.
func (c *Controller) Work(ctx context.Context, workers int) {
	c.caches.Work(ctx, c.loop, workers)
}

// sync brings one set closer to its spec.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	return c.syncer.Sync(ctx, key)
}

func (c *Controller) syncSet(ctx context.Context, cached *v1beta1.StatefulSet) (time.Duration, error) {
	set := cached.DeepCopy()
	v1beta1.SetDefaults_StatefulSet(set)
	now := c.env.Clock.Now()
	selector, problem := check(&set.Spec)
	if problem != nil {
		return c.stall(ctx, set, selector, problem, now)
	}
	s, err := c.gather(set, selector, now)
	if err != nil {
		return 0, err
	}
	if set.DeletionTimestamp != nil {
		// Whoever deletes it also deletes what it owns: what was made anew would hold that up.
		s.Recall(set.Status.UpdateRevision, set.Status.CurrentRevision)
		return 0, c.writeStatus(ctx, set, s.Status(Outcome{}, selector.String(), now))
	}
	owner := c.revisionOwner(set)
	if err := c.history().Resolve(ctx, &s.History, owner); err != nil {
		if kube.IsPassing(err) {
			return 0, kube.Passing(err)
		}
		return 0, errors.Join(err, c.reportNoRevision(ctx, set, err, now))
	}
	c.tellPreDownload(set)
	plan, err := s.Plan(now)
	if err != nil {
		return c.stall(ctx, set, selector, &workload.Problem{Reason: workload.ReasonInvalidSpec, Message: err.Error()}, now)
	}
	logr.FromContextOrDiscard(ctx).V(4).Info("planned", "pods", len(s.Pods), "create", len(plan.Create),
		"delete", len(plan.Delete), "update", len(plan.Update), "refresh", len(plan.Refresh))
	outcome, applyErr := c.apply(ctx, s, plan, now)
	status := s.Status(outcome, selector.String(), now)
	statusErr := c.writeStatus(ctx, set, status)
	tidyErr := c.history().Tidy(ctx, &s.History, owner, slices.Concat(s.Pods, s.Returning), int(ptr.Deref(set.Spec.RevisionHistoryLimit, 0)))
	// What is promoted makes room in the history. The event of one's own status wakes nobody.
	if outcome.Again || statusErr == nil && status.CurrentRevision != set.Status.CurrentRevision {
		plan.look(workload.GateDelay)
	}
	err = errors.Join(applyErr, statusErr, tidyErr)
	if err != nil && kube.IsPassing(err) {
		err = kube.Passing(err)
	}
	return plan.RequeueAfter, err
}

func (c *Controller) history() history.Keeper {
	return history.Keeper{Writer: c.writer, Memory: &c.templates}
}

// tellPreDownload tells once that images are not pulled ahead.
func (c *Controller) tellPreDownload(set *v1beta1.StatefulSet) {
	var inPlace *pub.InPlaceUpdateStrategy
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		inPlace = r.InPlaceUpdateStrategy
	}
	if workload.WantsPreDownload(set, inPlace) && c.preDownload.Tell(set.UID) {
		c.env.Recorder.Event(set, corev1.EventTypeWarning, EventPreDownloadIgnored, workload.PreDownloadIgnored)
	}
}

// stall reports a spec that cannot be worked on. Only a change of the spec can help, and that is an event.
func (c *Controller) stall(ctx context.Context, set *v1beta1.StatefulSet, selector labels.Selector, p *workload.Problem, now time.Time) (time.Duration, error) {
	known := conditionsOf(&set.Status, now).Get(workload.ConditionStalled)
	if known == nil || known.Status != corev1.ConditionTrue || known.Message != p.Message {
		c.env.Recorder.Event(set, corev1.EventTypeWarning, p.Reason, p.Message)
	}
	s := &Snapshot{Set: set}
	if selector != nil {
		if err := c.gatherPods(s, selector); err != nil {
			return workload.Stalled, err
		}
	}
	return workload.Stalled, c.writeStatus(ctx, set, s.StalledStatus(p, selector != nil, now))
}

// reportNoRevision tells why there is no revision to work with.
func (c *Controller) reportNoRevision(ctx context.Context, set *v1beta1.StatefulSet, problem error, now time.Time) error {
	message := kube.FirstLine(problem)
	if !conditionsOf(&set.Status, now).HasReason(conditionFailedUpdate, ReasonNoRevision) {
		c.env.Recorder.Event(set, corev1.EventTypeWarning, ReasonNoRevision, message)
	}
	return c.writeStatus(ctx, set, NoRevisionStatus(set, message, now))
}

func (c *Controller) writeStatus(ctx context.Context, set *v1beta1.StatefulSet, status *v1beta1.StatefulSetStatus) error {
	return kube.WriteStatus(ctx, c.writer, c.sets.GetStore(), c.env.Flotilla.AppsV1beta1().StatefulSets(set.Namespace), set,
		kube.Statuses{Old: &set.Status, New: status, First: set.Status.ObservedGeneration == 0}, "StatefulSet")
}

func (c *Controller) forget(uid types.UID) {
	c.gate.Forget(uid)
	c.backoff.Forget(uid)
	c.preDownload.Forget(uid)
	c.templates.Forget(uid)
}
