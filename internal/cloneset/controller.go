package cloneset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

// Controller keeps CloneSets.
type Controller struct {
	env     *app.Env
	gate    *kube.Gate
	writer  *kube.Writer
	loop    *kube.Loop
	metrics *metrics
	// parallel bounds the requests of one sync that are under way at a time.
	parallel int
	// random returns a number below its argument.
	random func(int) int

	informers
	start []func(ctx context.Context)

	mu sync.Mutex
	// limits are how many Pods were missing at the last sync because creation is throttled.
	limits map[types.UID]int
	// named are Pods of the set that podsToDelete named when they still were there.
	named map[types.UID]sets.Set[string]
}

// gateDelay is how soon a sync looks again whether the caches show the last one's writes. Their events mostly come first.
const gateDelay = 25 * time.Millisecond

// New builds the controller.
func New(env *app.Env) (app.Runnable, error) {
	c := &Controller{
		env: env, gate: kube.NewGate(), metrics: newMetrics(env.Metrics), random: rand.IntN, parallel: defaultParallel,
		limits: map[types.UID]int{}, named: map[types.UID]sets.Set[string]{},
	}
	c.loop = kube.NewLoop("cloneset", env.Clock, c.sync)
	if err := c.watch(); err != nil {
		return nil, err
	}
	c.writer = &kube.Writer{
		Client: env.Kube, Gate: c.gate,
		Pods: c.pods.GetStore(), Claims: c.claims.GetStore(), Revisions: c.revisions.GetStore(),
	}
	return c, nil
}

// Work syncs until the context ends.
func (c *Controller) Work(ctx context.Context, workers int) { c.loop.Run(ctx, workers) }

// sync brings one set closer to its spec.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	item, exists, err := c.sets.GetStore().GetByKey(key.String())
	if err != nil {
		return 0, fmt.Errorf("reading CloneSet %s: %w", key, err)
	}
	cached, ok := item.(*v1beta1.CloneSet)
	if !exists || !ok {
		c.loop.Forget(key)
		return 0, nil
	}
	if !c.gate.Open(cached.UID) {
		c.metrics.syncs.WithLabelValues("waiting").Inc()
		return gateDelay, nil
	}
	again, err := c.syncSet(ctx, cached)
	switch {
	case err != nil && isPassing(err):
		c.metrics.syncs.WithLabelValues("overtaken").Inc()
	case err != nil:
		c.metrics.syncs.WithLabelValues("error").Inc()
	default:
		c.metrics.syncs.WithLabelValues("ok").Inc()
	}
	return again, err
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
		return 0, c.stall(ctx, set, problem, now)
	}
	s, err := c.gather(ctx, set, selector)
	if err != nil {
		return 0, err
	}
	if set.DeletionTimestamp != nil {
		return 0, nil
	}
	if err := c.resolveRevisions(ctx, s, claimsHash); err != nil {
		return 0, err
	}
	plan, err := s.Plan(now)
	if err != nil {
		return 0, c.stall(ctx, set, &Problem{ReasonInvalidSpec, err.Error()}, now)
	}
	claims := s.PlanClaims(now)
	plan.look(claims.RequeueAfter)
	logr.FromContextOrDiscard(ctx).V(4).Info("planned", "pods", len(s.Pods), "createOld", plan.CreateOld, "createNew", plan.CreateNew,
		"delete", len(plan.Delete), "update", len(plan.Update), "refresh", len(plan.Refresh))
	outcome, applyErr := c.apply(ctx, s, plan, claims, now)
	if outcome.Again {
		plan.look(gateDelay)
	}
	status, look := s.Status(outcome, selector.String(), now)
	plan.look(look)
	err = errors.Join(applyErr, c.writeStatus(ctx, set, status), c.tidy(ctx, s))
	if err != nil && isPassing(err) {
		err = kube.Passing(err)
	}
	return plan.RequeueAfter, err
}

// stall reports a spec that cannot be worked on. Only a change of the spec can help, and that is an event.
func (c *Controller) stall(ctx context.Context, set *v1beta1.CloneSet, p *Problem, now time.Time) error {
	c.metrics.syncs.WithLabelValues("stalled").Inc()
	old := conditions{list: set.Status.Conditions}
	known := old.get(v1beta1.CloneSetConditionStalled)
	if known == nil || known.Status != corev1.ConditionTrue || known.Message != p.Message {
		c.env.Recorder.Event(set, corev1.EventTypeWarning, p.Reason, p.Message)
	}
	return c.writeStatus(ctx, set, StalledStatus(set, p, now))
}

// writeStatus sends what differs, and nothing if nothing does.
func (c *Controller) writeStatus(ctx context.Context, set *v1beta1.CloneSet, status *v1beta1.CloneSetStatus) error {
	// The first status is written with its zeros: that there are none is worth knowing.
	before := []byte(`{"status":{}}`)
	var err error
	if set.Status.ObservedGeneration > 0 {
		if before, err = json.Marshal(map[string]any{"status": &set.Status}); err != nil {
			return fmt.Errorf("encoding the status of %s: %w", cache.MetaObjectToName(set), err)
		}
	}
	after, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("encoding the status of %s: %w", cache.MetaObjectToName(set), err)
	}
	diff, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return fmt.Errorf("comparing the status of %s: %w", cache.MetaObjectToName(set), err)
	}
	if string(diff) == "{}" {
		return nil
	}
	patched, err := c.env.Flotilla.AppsV1beta1().CloneSets(set.Namespace).Patch(
		ctx, set.Name, types.MergePatchType, diff, metav1.PatchOptions{}, "status")
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("writing the status of %s: %w", cache.MetaObjectToName(set), err)
	}
	c.gate.Wrote(set.UID, c.sets.GetStore(), patched.ResourceVersion)
	return nil
}

// tidy removes what has served its purpose: old revisions, and names of Pods that are gone.
func (c *Controller) tidy(ctx context.Context, s *Snapshot) error {
	return errors.Join(c.trimHistory(ctx, s), c.trimPodsToDelete(ctx, s))
}

// trimPodsToDelete removes the names that are not Pods of the set. Names that never were are reported.
func (c *Controller) trimPodsToDelete(ctx context.Context, s *Snapshot) error {
	names := s.Set.Spec.ScaleStrategy.PodsToDelete
	if len(names) == 0 {
		return nil
	}
	there := sets.Set[string]{}
	for _, p := range s.Pods {
		there.Insert(p.Name)
	}
	kept := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !there.Has(name) })
	c.remember(s.Set.UID, kept)
	// A status that was written in this sync is newer than the version that the names were read from: the next one will.
	if len(kept) == len(names) || !c.gate.Open(s.Set.UID) {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": s.Set.ResourceVersion},
		"spec":     map[string]any{"scaleStrategy": map[string]any{"podsToDelete": kept}},
	})
	if err != nil {
		return fmt.Errorf("encoding podsToDelete: %w", err)
	}
	patched, err := c.env.Flotilla.AppsV1beta1().CloneSets(s.Set.Namespace).Patch(ctx, s.Set.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("trimming podsToDelete of %s: %w", cache.MetaObjectToName(s.Set), err)
	}
	c.gate.Wrote(s.Set.UID, c.sets.GetStore(), patched.ResourceVersion)
	for _, name := range names {
		if !there.Has(name) && !c.wasNamed(s.Set.UID, name) {
			c.env.Recorder.Eventf(s.Set, corev1.EventTypeWarning, EventPodsToDeleteNotFound,
				"%s in spec.scaleStrategy.podsToDelete is not a Pod of this set; the name was removed", name)
		}
	}
	return nil
}

func (c *Controller) remember(uid types.UID, names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(names) > 0 && c.named[uid] == nil {
		c.named[uid] = sets.Set[string]{}
	}
	c.named[uid].Insert(names...)
}

// wasNamed says whether the name was that of a Pod of the set, and forgets it.
func (c *Controller) wasNamed(uid types.UID, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.named[uid].Has(name)
	c.named[uid].Delete(name)
	return was
}

// changedLimit notes how many Pods throttling holds back and says whether that is news.
func (c *Controller) changedLimit(uid types.UID, cut int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limits[uid] == cut {
		return false
	}
	c.limits[uid] = cut
	if cut == 0 {
		delete(c.limits, uid)
	}
	return true
}

func (c *Controller) forget(uid types.UID) {
	c.gate.Forget(uid)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.limits, uid)
	delete(c.named, uid)
}
