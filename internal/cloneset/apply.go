package cloneset

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// defaultParallel bounds the requests of one sync that are under way at a time.
const defaultParallel = 32

// createAtOnce bounds the Pods that one sync creates. The gates of the first ones are answered by the next sync, mostly
// before their containers have started, and not after all the others have been created.
const createAtOnce = 64

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
	a := &applying{Controller: c, s: s, plan: plan, claims: claims, now: now}
	a.note(a.release(ctx))
	if len(plan.Adopt) > 0 {
		err := a.adoptAll(ctx)
		a.note(err)
		a.outcome.Again = err == nil
		return a.outcome, errors.Join(a.errs...)
	}
	a.note(a.handleClaims(ctx))
	moved := a.refresh(ctx)
	a.cancel(ctx)
	if !a.scale(ctx) && !moved {
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
func (a *applying) fail(into **Problem, reason string, err error) {
	a.note(err)
	if err != nil && *into == nil && !isPassing(err) {
		*into = &Problem{Reason: reason, Message: firstLine(err)}
	}
}

// withoutIDs hides the names that were drawn for Pods and claims: a message that differed with each attempt would be
// written each time.
func withoutIDs(set, text string) string {
	drawn := regexp.MustCompile(`\b` + regexp.QuoteMeta(set) + fmt.Sprintf("-[%s]{%d}", idAlphabet, idLength) + `\b`)
	return drawn.ReplaceAllString(text, set+"-*")
}

// firstLine is the first of several joined errors.
func firstLine(err error) string {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			if !isPassing(e) {
				return firstLine(e)
			}
		}
	}
	return err.Error()
}

// isPassing says whether an error only means that somebody else was faster, or that the set is about to go.
func isPassing(err error) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !isPassing(e) })
	}
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || errors.Is(err, context.Canceled)
}

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

// adoptAll takes back Pods that match again. One that refuses is left alone for a while, so that the others are kept.
func (a *applying) adoptAll(ctx context.Context) error {
	// The cached set may be one that was deleted since.
	fresh, err := a.env.Flotilla.AppsV1beta1().CloneSets(a.s.Set.Namespace).Get(ctx, a.s.Set.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading CloneSet %s before Pods are adopted: %w", a.s.Set.Name, err)
	}
	if fresh.UID != a.s.Set.UID || fresh.DeletionTimestamp != nil {
		return nil
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
	change := patch.New(p).IfUnchanged(p).OwnerReferences(append(slices.Clone(p.OwnerReferences), ownerReference(a.s.Set)))
	_, err = a.writer.PatchPod(ctx, a.s.Set.UID, p, change.Build())
	return err
}

// takeBack makes the set the owner of a claim again.
func (a *applying) takeBack(ctx context.Context, h HandOver) error {
	_, err := a.writer.PatchClaim(ctx, a.s.Set.UID, h.Claim, h.backTo(a.s.Set))
	return err
}

// claimsToTakeBack are those that went with the Pod, and those of its id that belong to nobody.
func (a *applying) claimsToTakeBack(p *corev1.Pod) ([]*corev1.PersistentVolumeClaim, error) {
	theirs, err := owned[*corev1.PersistentVolumeClaim](a.Controller.claims.GetIndexer(), p.UID)
	if err != nil {
		return nil, err
	}
	orphans, err := a.Controller.claims.GetIndexer().ByIndex(indexOrphan, p.Namespace)
	if err != nil {
		return nil, fmt.Errorf("looking for orphans: %w", err)
	}
	for _, o := range orphans {
		c, ok := o.(*corev1.PersistentVolumeClaim)
		if ok && len(c.OwnerReferences) == 0 && strings.HasSuffix(c.Name, "-"+p.Name) && idOfClaim(c, a.s.Set) == idOf(p, a.s.Set) {
			theirs = append(theirs, c)
		}
	}
	return theirs, nil
}

func (a *applying) handOver(ctx context.Context, h HandOver) error {
	_, err := a.writer.PatchClaim(ctx, a.s.Set.UID, h.Claim, h.patchFor(a.s))
	if err != nil && !isPassing(err) {
		a.warn(EventFailedUpdate, "handing claim %s over to Pod %s: %v", h.Claim.Name, h.Pod.Name, err)
	}
	return err
}

// handleClaims sees to the claims of Pods that end. Those of Pods that were released went with them.
func (a *applying) handleClaims(ctx context.Context) error {
	for _, h := range a.claims.HandOver {
		if slices.Contains(a.plan.Release, h.Pod) {
			continue
		}
		if err := a.handOver(ctx, h); err != nil {
			return err
		}
	}
	for _, h := range a.s.Parted {
		if slices.ContainsFunc(a.plan.Delete, func(d Deletion) bool { return d.Pod == h.Pod }) {
			continue
		}
		if err := a.takeBack(ctx, h); err != nil && !isPassing(err) {
			return err
		}
	}
	for _, claim := range a.claims.Delete {
		if err := a.writer.DeleteClaim(ctx, a.s.Set.UID, claim); err != nil {
			return err
		}
	}
	for _, p := range a.claims.DeletePods {
		if err := a.writer.DeletePod(ctx, a.s.Set.UID, p); err != nil {
			return err
		}
	}
	return nil
}

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

// putOff remembers for how long a part of the work that failed is not tried again, and returns it. What passes by itself,
// and an API server that does not answer, says nothing about the part.
func (a *applying) putOff(part string, err error) time.Duration {
	if isPassing(err) || kube.IsLost(err) {
		return 0
	}
	return a.backoff.Failed(a.s.Set.UID, part, goalOf(a.s.Set), a.now)
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

func (a *applying) cancel(ctx context.Context) {
	a.note(kube.ForEach(len(a.plan.Cancel), a.parallel, func(i int) error {
		return a.send(ctx, a.plan.Cancel[i].Pod, a.plan.Cancel[i].Patches)
	}))
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

// scale creates or deletes and returns whether anything was changed.
func (a *applying) scale(ctx context.Context) bool {
	changed := len(a.plan.Cancel) > 0
	created, err := a.create(ctx)
	a.fail(&a.outcome.ScaleFailure, ReasonFailedCreate, err)
	if a.outcome.ScaleFailure != nil {
		a.outcome.ScaleFailure.Message = withoutIDs(a.s.Set.Name, a.outcome.ScaleFailure.Message)
	}
	a.outcome.ScaleRan = !a.plan.CreatePostponed
	if created > 0 {
		return true
	}
	err = kube.ForEach(len(a.plan.Delete), a.parallel, func(i int) error {
		return a.delete(ctx, a.plan.Delete[i], EventSuccessfulDelete, EventFailedDelete)
	})
	a.fail(&a.outcome.ScaleFailure, ReasonFailedDelete, err)
	return changed || len(a.plan.Delete) > 0
}

// create makes the Pods that are missing: those of the current revision first.
func (a *applying) create(ctx context.Context) (int, error) {
	wanted := a.plan.CreateOld + a.plan.CreateNew
	if a.plan.CreatePostponed {
		return 0, nil
	}
	a.reportLimit(wanted, a.plan.Limited)
	// Places whose holder is still there wait for it.
	n := min(wanted, max(len(a.claims.Free), wanted-a.claims.Reserved))
	if n <= 0 {
		return 0, nil
	}
	if n > createAtOnce {
		n, a.outcome.Again = createAtOnce, true
	}
	maker, err := a.newMaker()
	if err != nil {
		return 0, err
	}
	created, err := kube.SlowStart(n, a.parallel, func(i int) error {
		r := a.s.Update
		if i < a.plan.CreateOld {
			r = a.s.Current
		}
		name, err := maker.make(ctx, r)
		if err != nil {
			if !isPassing(err) {
				a.warn(EventFailedCreate, "%v", err)
			}
			return err
		}
		a.normal(EventSuccessfulCreate, "created Pod %s", name)
		return nil
	})
	if err == nil {
		a.backoff.Succeeded(a.s.Set.UID, partCreate)
	} else {
		a.plan.look(a.putOff(partCreate, err))
	}
	return created, err
}

// reportLimit tells when throttling begins, and when its extent changes.
func (a *applying) reportLimit(allowed, cut int) {
	if a.memory.changedLimit(a.s.Set.UID, cut) && cut > 0 {
		a.warn(EventScaleUpLimited, "creating %d of %d Pods: scaleStrategy.maxUnavailable allows no more", allowed, allowed+cut)
	}
}

// maker makes Pods with their claims. It is safe for concurrent use.
type maker struct {
	*applying
	// blueprints are those of the revisions that Pods are made of, by name.
	blueprints map[string]blueprint

	mu   sync.Mutex
	free []string
	used map[string]bool
}

func (a *applying) newMaker() (*maker, error) {
	m := &maker{applying: a, blueprints: map[string]blueprint{}, free: a.claims.Free, used: map[string]bool{}}
	for _, p := range slices.Concat(a.s.Pods, a.s.Inactive, a.s.Strangers) {
		m.used[idOf(p, a.s.Set)] = true
	}
	for id := range a.s.StuckIDs {
		m.used[id] = true
	}
	needed := []*appsv1.ControllerRevision{a.s.Update}
	if a.plan.CreateOld > 0 {
		needed = append(needed, a.s.Current)
	}
	for _, r := range needed {
		b, err := a.s.blueprint(r)
		if err != nil {
			return nil, err
		}
		m.blueprints[r.Name] = b
	}
	return m, nil
}

// takeID is an id that is to be reused, else a new one. No Pod of that name may exist, of whomever.
func (m *maker) takeID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.free) > 0 {
		id := m.free[0]
		m.free = m.free[1:]
		if !m.nameTaken(id) {
			return id
		}
	}
	for {
		id := newID(m.random)
		if !m.used[id] && !m.nameTaken(id) {
			m.used[id] = true
			return id
		}
	}
}

func (m *maker) nameTaken(id string) bool {
	_, exists, err := m.pods.GetIndexer().GetByKey(m.s.Set.Namespace + "/" + m.s.Set.Name + "-" + id)
	return err == nil && exists
}

// attempts bounds how often another id is drawn because a name is taken by somebody else's object.
const attempts = 5

func (m *maker) make(ctx context.Context, r *appsv1.ControllerRevision) (string, error) {
	var err error
	for range attempts {
		id := m.takeID()
		if err = m.makeClaims(ctx, m.blueprints[r.Name].claims, id); err == nil {
			p := newPod(m.s.Set, r, m.blueprints[r.Name], id, m.now)
			if _, err = m.writer.CreatePod(ctx, m.s.Set.UID, p); err == nil {
				m.memory.use(m.s.Set.UID, id)
				m.metrics.created.Inc()
				return p.Name, nil
			}
		}
		if len(m.blueprints[r.Name].claims) > 0 && !apierrors.IsAlreadyExists(err) {
			m.memory.keepUnused(m.s.Set.UID, m.s.Set.Generation, id)
		}
		if !apierrors.IsAlreadyExists(err) {
			return "", err
		}
	}
	return "", err
}

// makeClaims creates the claims of the id that do not exist. A claim of that name that is the set's own will do.
func (m *maker) makeClaims(ctx context.Context, templates []corev1.PersistentVolumeClaim, id string) error {
	for _, claim := range newClaims(m.s.Set, templates, id) {
		if slices.ContainsFunc(m.s.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == claim.Name }) {
			continue
		}
		if _, err := m.writer.CreateClaim(ctx, m.s.Set.UID, claim); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes a Pod and then its claims, or makes it wait for its hook. A deletion that is refused leaves the claims as
// they were: they are taken back.
func (a *applying) delete(ctx context.Context, d Deletion, success, failure string) error {
	if len(d.Prepare) > 0 {
		err := a.send(ctx, d.Pod, d.Prepare)
		if err != nil && !isPassing(err) {
			a.warn(failure, "preparing the deletion of Pod %s: %v", d.Pod.Name, err)
		}
		return err
	}
	if err := a.part(ctx, d.Pod); err != nil {
		return err
	}
	if err := a.writer.DeletePod(ctx, a.s.Set.UID, d.Pod); err != nil {
		if !isPassing(err) {
			a.warn(failure, "%v", err)
		}
		return err
	}
	a.metrics.deleted.Inc()
	a.normal(success, "deleted Pod %s", d.Pod.Name)
	for _, claim := range a.s.claimsOf(d.Pod) {
		if err := a.writer.DeleteClaim(ctx, a.s.Set.UID, claim); err != nil {
			if !isPassing(err) {
				a.warn(failure, "%v", err)
			}
			return err
		}
	}
	return nil
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
		if err != nil && !isPassing(err) {
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
	if err != nil && isPassing(err) {
		return nil
	}
	return err
}

func (a *applying) normal(reason, format string, args ...any) {
	a.env.Recorder.Eventf(a.s.Set, corev1.EventTypeNormal, reason, format, args...)
}

func (a *applying) warn(reason, format string, args ...any) {
	a.env.Recorder.Eventf(a.s.Set, corev1.EventTypeWarning, reason, format, args...)
}
