package cloneset

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// createAtOnce bounds the Pods that one sync creates. The gates of the first ones are answered by the next sync, mostly
// before their containers have started, and not after all the others have been created.
const createAtOnce = 64

// scale takes deletions back, creates or deletes, and returns whether anything was changed or may have been.
func (a *applying) scale(ctx context.Context) bool {
	a.outcome.ScaleRan = !a.plan.CreatePostponed && !a.plan.DeletePostponed && !a.claims.Postponed
	cancelled, cancelErr := a.cancel(ctx)
	created, err := a.create(ctx)
	a.fail(&a.outcome.ScaleFailure, ReasonFailedCreate, err)
	if a.outcome.ScaleFailure != nil {
		a.outcome.ScaleFailure.Message = withoutIDs(a.s.Set.Name, a.outcome.ScaleFailure.Message)
	}
	a.fail(&a.outcome.ScaleFailure, ReasonFailedDelete, cancelErr)
	if created > 0 {
		return true
	}
	deleted, err := a.eachLeaving(len(a.plan.Delete), func(i int) (*corev1.Pod, bool, error) {
		d := a.plan.Delete[i]
		changed, err := a.delete(ctx, d, EventSuccessfulDelete, EventFailedDelete)
		return d.Pod, changed, err
	})
	a.fail(&a.outcome.ScaleFailure, ReasonFailedDelete, err)
	return cancelled || deleted
}

// cancel returns whether any deletion was taken back, or may have been.
func (a *applying) cancel(ctx context.Context) (bool, error) {
	return a.eachLeaving(len(a.plan.Cancel), func(i int) (*corev1.Pod, bool, error) {
		c := a.plan.Cancel[i]
		changed, err := a.send(ctx, c.Pod, c.Patches)
		if err != nil && !kube.IsPassing(err) {
			a.warn(EventFailedDelete, "taking the deletion of Pod %s back: %v", c.Pod.Name, err)
		}
		return c.Pod, changed, err
	})
}

// eachLeaving does something with Pods that leave or are not to leave any more, and returns whether any was changed, or may
// have been. One that refuses is left alone for a while, so that the work on the others goes on.
func (a *applying) eachLeaving(n int, do func(i int) (p *corev1.Pod, changed bool, err error)) (bool, error) {
	var some atomic.Bool
	err := kube.ForEach(n, a.parallel, func(i int) error {
		p, changed, err := do(i)
		if changed {
			some.Store(true)
		}
		if err == nil {
			a.backoff.Succeeded(a.s.Set.UID, partDelete(p))
		} else {
			a.putOff(partDelete(p), err)
		}
		return err
	})
	return some.Load(), err
}

// create makes the Pods that are missing.
func (a *applying) create(ctx context.Context) (int, error) {
	wanted := a.plan.Create.total()
	if a.plan.CreatePostponed {
		return 0, nil
	}
	a.reportLimit(wanted)
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
		if a.plan.Create.isOld(i) {
			r = a.s.Current
		}
		name, err := maker.make(ctx, r)
		if err != nil {
			if !kube.IsPassing(err) {
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
		a.plan.look(a.putOffFor(partCreate, a.s.goalOfCreation(created), err))
	}
	return created, err
}

// reportLimit tells when throttling begins, and when its limit changes.
func (a *applying) reportLimit(allowed int) {
	limit := unlimited
	if a.plan.Limited > 0 {
		limit = a.plan.Limit
	}
	if a.memory.changedLimit(a.s.Set.UID, limit) && limit != unlimited {
		a.warn(EventScaleUpLimited, "creating %d of %d Pods: scaleStrategy.maxUnavailable allows no more", allowed, allowed+a.plan.Limited)
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
	if a.plan.Create.old+a.plan.Create.oldSurge > 0 {
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
				m.metrics.Created.Inc()
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
// they were: they are taken back. It returns whether the Pod was changed, or may have been.
func (a *applying) delete(ctx context.Context, d Deletion, success, failure string) (changed bool, err error) {
	if len(d.Prepare) > 0 {
		changed, err := a.send(ctx, d.Pod, d.Prepare)
		if err != nil && !kube.IsPassing(err) {
			a.warn(failure, "preparing the deletion of Pod %s: %v", d.Pod.Name, err)
		}
		return changed, err
	}
	if err := a.part(ctx, d.Pod); err != nil {
		return false, err
	}
	if err := a.writer.DeletePod(ctx, a.s.Set.UID, d.Pod); err != nil {
		if !kube.IsPassing(err) {
			a.warn(failure, "%v", err)
		}
		return !kube.IsRefused(err), err
	}
	a.metrics.Deleted.Inc()
	a.normal(success, "deleted Pod %s", d.Pod.Name)
	return true, a.deleteClaims(ctx, a.s.claimsOf(d.Pod), failure)
}

func (a *applying) deleteClaims(ctx context.Context, list []*corev1.PersistentVolumeClaim, failure string) error {
	return kube.ForEach(len(list), a.parallel, func(i int) error {
		err := a.writer.DeleteClaim(ctx, a.s.Set.UID, list[i])
		if err != nil && !kube.IsPassing(err) {
			a.warn(failure, "%v", err)
		}
		return err
	})
}
