package cloneset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/history"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/revision"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// Controller keeps CloneSets.
type Controller struct {
	env     *app.Env
	options Options
	// can is what the cluster offers; it is found out when the controller starts.
	can     inplace.Abilities
	gate    *kube.Gate
	writer  *kube.Writer
	loop    workload.Loop
	metrics *workload.Metrics
	syncer  *workload.Syncer[*v1beta1.CloneSet]
	// parallel bounds the requests of one sync that are under way at a time.
	parallel int
	// random returns a number below its argument.
	random func(int) int

	caches workload.Caches
	informers

	backoff kube.Backoff
	memory  memory
	// preDownload: of these sets it was told that images are not pulled ahead.
	preDownload workload.Once
	// templates are remembered as they are encoded.
	templates history.Memory
}

func newController(env *app.Env, options Options) (*Controller, error) {
	c := &Controller{
		env: env, options: options, gate: kube.NewGate(), metrics: workload.NewMetrics(env.Metrics, metricsSubsystem), random: rand.IntN, parallel: defaultParallel,
		backoff: kube.Backoff{First: workload.FirstRetry, Longest: workload.LongestRetry},
	}
	c.loop = kube.NewLoop("cloneset", env.Clock, c.sync)
	if err := c.watch(); err != nil {
		return nil, err
	}
	c.writer = &kube.Writer{
		Client: env.Kube, Gate: c.gate,
		Pods: c.pods.GetStore(), Claims: c.claims.GetStore(), Revisions: c.revisions.GetStore(), Wrote: c.metrics.Wrote,
	}
	env.Metrics.MustRegister(workload.NewProgress(metricsSubsystem, c.sets.GetStore(), rolloutOf))
	c.syncer = &workload.Syncer[*v1beta1.CloneSet]{
		Kind: "CloneSet", Store: c.sets.GetStore(), Gate: c.gate, Clock: env.Clock, Metrics: c.metrics, Recorder: env.Recorder,
		Gone: func(key cache.ObjectName) { c.loop.Forget(key) }, Forget: c.forget, Work: c.syncSet,
	}
	return c, nil
}

// Work syncs until the context ends.
func (c *Controller) Work(ctx context.Context, workers int) {
	c.caches.Work(ctx, c.loop, workers)
}

// metricsSubsystem is part of the names of the controller's metrics.
const metricsSubsystem = "cloneset"

// rolloutOf is how far a set is.
func rolloutOf(item any) (workload.Rollout, bool) {
	set, ok := item.(*v1beta1.CloneSet)
	if !ok {
		return workload.Rollout{}, false
	}
	return workload.Rollout{
		Namespace: set.Namespace, Name: set.Name, Wanted: ptr.Deref(set.Spec.Replicas, 1), Available: set.Status.AvailableReplicas,
		UpdatedAvailable: set.Status.UpdatedAvailableReplicas, UpdatedWanted: set.Status.ExpectedUpdatedReplicas,
	}, true
}

// sync brings one set closer to its spec.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	return c.syncer.Sync(ctx, key)
}

func (c *Controller) syncSet(ctx context.Context, cached *v1beta1.CloneSet) (time.Duration, error) {
	set := cached.DeepCopy()
	// The hash of claim templates is that of what is stored.
	claimsHash, err := revision.ClaimTemplatesHash(set.Spec.VolumeClaimTemplates)
	if err != nil {
		return 0, err
	}
	v1beta1.SetDefaults_CloneSet(set)
	now := c.env.Clock.Now()
	selector, problem := check(&set.Spec)
	if problem != nil {
		return c.stall(ctx, set, selector, problem, now)
	}
	s, err := c.gather(ctx, set, selector, now)
	if err != nil {
		return 0, err
	}
	if set.DeletionTimestamp != nil {
		return 0, nil
	}
	if err := c.resolve(ctx, s, claimsHash); err != nil {
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
	claims := s.PlanClaims(plan.CreatePostponed || plan.Create.total() > 0, now)
	plan.look(claims.RequeueAfter)
	logr.FromContextOrDiscard(ctx).V(4).Info("planned", "pods", len(s.Pods), "create", plan.Create.total(),
		"delete", len(plan.Delete), "update", len(plan.Update), "refresh", len(plan.Refresh))
	outcome, applyErr := c.apply(ctx, s, plan, claims, now)
	status, look := s.Status(outcome, selector.String(), now)
	plan.look(look)
	statusErr := c.writeStatus(ctx, set, status)
	more, tidyErr := c.tidy(ctx, s)
	// What is promoted makes room in the history. The event of one's own status wakes nobody.
	if outcome.Again || more || statusErr == nil && status.CurrentRevision != set.Status.CurrentRevision {
		plan.look(workload.GateDelay)
	}
	err = errors.Join(applyErr, statusErr, tidyErr)
	if err != nil && kube.IsPassing(err) {
		err = kube.Passing(err)
	}
	return plan.RequeueAfter, err
}

// tellPreDownload tells once that images are not pulled ahead.
func (c *Controller) tellPreDownload(set *v1beta1.CloneSet) {
	var inPlace *pub.InPlaceUpdateStrategy
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		inPlace = r.InPlaceUpdateStrategy
	}
	if workload.WantsPreDownload(set, inPlace) && c.preDownload.Tell(set.UID) {
		c.env.Recorder.Event(set, corev1.EventTypeWarning, EventPreDownloadIgnored, workload.PreDownloadIgnored)
	}
}

// stall reports a spec that cannot be worked on. Only a change of the spec can help, and that is an event.
func (c *Controller) stall(ctx context.Context, set *v1beta1.CloneSet, selector labels.Selector, p *workload.Problem, now time.Time) (time.Duration, error) {
	old := conditionsOf(&set.Status, time.Time{})
	known := old.Get(string(v1beta1.CloneSetConditionStalled))
	if known == nil || known.Status != corev1.ConditionTrue || known.Message != p.Message {
		c.env.Recorder.Event(set, corev1.EventTypeWarning, p.Reason, p.Message)
	}
	s := &Snapshot{Set: set}
	if selector != nil {
		if err := c.gatherPods(s, selector); err != nil {
			return workload.Stalled, err
		}
	}
	status := s.StalledStatus(p, selector != nil, now)
	return workload.Stalled, c.writeStatus(ctx, set, status)
}

func (c *Controller) history() history.Keeper {
	return history.Keeper{Writer: c.writer, Memory: &c.templates}
}

// resolve finds or makes the revision of the present template, and finds the one that partition holds Pods at.
func (c *Controller) resolve(ctx context.Context, s *Snapshot, claimsHash string) error {
	owner, err := revisionOwner(s.Set, claimsHash)
	if err != nil {
		return err
	}
	owner.MayAdopt = func(ctx context.Context) (bool, error) { return c.mayAdopt(ctx, s.Set) }
	return c.history().Resolve(ctx, &s.History, owner)
}

// reportNoRevision tells why there is no revision to work with.
func (c *Controller) reportNoRevision(ctx context.Context, set *v1beta1.CloneSet, problem error, now time.Time) error {
	old := conditionsOf(&set.Status, time.Time{})
	if !old.HasReason(string(v1beta1.CloneSetConditionFailedUpdate), ReasonNoRevision) {
		c.env.Recorder.Event(set, corev1.EventTypeWarning, ReasonNoRevision, kube.FirstLine(problem))
	}
	return c.writeStatus(ctx, set, NoRevisionStatus(set, kube.FirstLine(problem), now))
}

func (c *Controller) writeStatus(ctx context.Context, set *v1beta1.CloneSet, status *v1beta1.CloneSetStatus) error {
	return kube.WriteStatus(ctx, c.writer, c.sets.GetStore(), c.env.Flotilla.AppsV1beta1().CloneSets(set.Namespace), set,
		kube.Statuses{Old: &set.Status, New: status, First: set.Status.ObservedGeneration == 0}, "CloneSet")
}

// tidy removes what has served its purpose: old revisions, and names of Pods that are gone. It returns whether more is
// to be removed as soon as the caches show this sync's writes.
func (c *Controller) tidy(ctx context.Context, s *Snapshot) (bool, error) {
	more, err := c.trimPodsToDelete(ctx, s)
	owner := history.Owner{
		UID: s.Set.UID, Owner: revision.Owner{Reference: ownerReference(s.Set)},
		MayAdopt: func(ctx context.Context) (bool, error) { return c.mayAdopt(ctx, s.Set) },
	}
	return more, errors.Join(c.history().Tidy(ctx, &s.History, owner, slices.Concat(s.Pods, s.Inactive), int(ptr.Deref(s.Set.Spec.RevisionHistoryLimit, 0))), err)
}

// trimPodsToDelete removes the names that are not Pods of the set. Names that never were are reported.
func (c *Controller) trimPodsToDelete(ctx context.Context, s *Snapshot) (more bool, err error) {
	names := s.Set.Spec.ScaleStrategy.PodsToDelete
	if len(names) == 0 {
		return false, nil
	}
	there := sets.Set[string]{}
	for _, p := range s.Pods {
		there.Insert(p.Name)
	}
	kept := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !there.Has(name) })
	c.memory.rememberNames(s.Set.UID, kept)
	if len(kept) == len(names) {
		return false, nil
	}
	// A status that was written in this sync is newer than the version that the names were read from.
	if !c.gate.Open(s.Set.UID) {
		return true, nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.Set.UID, "resourceVersion": s.Set.ResourceVersion},
		"spec":     map[string]any{"scaleStrategy": map[string]any{"podsToDelete": kept}},
	})
	if err != nil {
		return false, fmt.Errorf("encoding podsToDelete: %w", err)
	}
	patched, err := c.env.Flotilla.AppsV1beta1().CloneSets(s.Set.Namespace).Patch(ctx, s.Set.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return false, fmt.Errorf("trimming podsToDelete of %s: %w", cache.MetaObjectToName(s.Set), err)
	}
	c.gate.Wrote(s.Set.UID, c.sets.GetStore(), patched.ResourceVersion)
	c.metrics.Wrote("CloneSet", "patch")
	for _, name := range names {
		if !there.Has(name) && !c.memory.wasNamed(s.Set.UID, name) {
			c.env.Recorder.Eventf(s.Set, corev1.EventTypeWarning, EventPodsToDeleteNotFound,
				"%s in spec.scaleStrategy.podsToDelete is not a Pod of this set; the name was removed", name)
		}
	}
	return false, nil
}

func (c *Controller) forget(uid types.UID) {
	c.gate.Forget(uid)
	c.backoff.Forget(uid)
	c.memory.forget(uid)
	c.preDownload.Forget(uid)
	c.templates.Forget(uid)
}
