package inplace

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/lifecycle"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// Refresh moves a Pod on that nobody starts anything with: the end of a grace period, the next batch, readiness gates,
// the lifecycle.
type Refresh struct {
	Lifecycle *pub.Lifecycle
	// AtTarget: the Pod is at the revision that it is to be at.
	AtTarget bool
	// Unwanted: the Pod was prepared for an update that is not wanted of it any more.
	Unwanted bool
	// KeepInfeasible: a Pod whose node cannot give it the new resources is not replaced, and goes on with the old ones.
	KeepInfeasible bool
	// ResourcesAfter is how long the containers are left with what they have, because giving them more failed; 0: not.
	ResourcesAfter time.Duration
	// Behind: the Pod is about to be updated again, from a broken record. Until then its gates stay as they are.
	Behind bool
	// Ahead: the gates of a Pod are answered before it has a node, so that its kubelet finds them answered.
	Ahead bool
	Now   time.Time
}

// Step is what Refresh comes to.
type Step struct {
	// Patch is the one write that is due, if Due.
	Patch patch.Patch
	Due   bool
	// Resize is due after Patch, or alone.
	Resize Resize
	// RequeueAfter is when to look again; 0 if only an event can change anything.
	RequeueAfter time.Duration
	// State is the lifecycle state after the write.
	State pub.LifecycleStateType
	// Broken names annotations of the Pod that could not be read and count as absent.
	Broken []string
	// Waits: the update goes on only later, although the Pod could.
	Waits bool
	// Moves: the write changes what containers run.
	Moves bool
	// Closes: the write takes the Pod out of its Services, for Resize.
	Closes bool
}

// Step decides. Every write to a Pod that is not new is for exactly this version of it, so that a start which it has not
// seen wins.
func (r Refresh) Step(p *corev1.Pod) Step {
	step := Step{State: pods.LifecycleState(p)}
	if isSettled(p, step.State) {
		return r.settle(p, step, nil)
	}
	record := Read(p)
	if step.Broken = record.Broken; r.Behind {
		return step
	}
	if record.Grace != nil {
		return r.grace(p, record, step)
	}
	if record.State != nil {
		if lacks := missing(p, record.State); lacks != nil {
			if step.State == pub.LifecycleStatePreparingDelete {
				// It may be going because just this was refused.
				return r.settle(p, step, nil)
			}
			return r.resize(p, record.State, lacks, step)
		}
		if !batchesCompleted(p, record.State) {
			if _, refused := Refusal(p); refused && r.KeepInfeasible && restartsCompleted(p, record.State) {
				return r.settle(p, step, nil)
			}
			return step
		}
		if hasNext(record.State) {
			return r.next(p, record, step)
		}
	}
	return r.settle(p, step, record.State)
}

// missing is what the update was to give the containers and what they were not given: a process died before that.
func missing(p *corev1.Pod, state *pub.InPlaceUpdateState) Resize {
	if state == nil {
		return nil
	}
	wanted := Resize(state.ContainerResources)
	if len(wanted) == 0 {
		return nil
	}
	if _, due := wanted.Patch(p); !due {
		return nil
	}
	return wanted
}

// resize gives the containers what is missing, or puts that off. Meanwhile the Pod serves with what it has, if all else is
// done: what is missing stays in its record, so its update is not over. A container that restarts for it leaves the
// Services first.
func (r Refresh) resize(p *corev1.Pod, state *pub.InPlaceUpdateState, lacks Resize, step Step) Step {
	if r.ResourcesAfter > 0 {
		step.RequeueAfter, step.Waits = r.ResourcesAfter, true
		o := patch.New(p).IfUnchanged(p)
		if batchesCompleted(p, state) && p.Spec.NodeName != "" {
			r.answerGates(o, p, step.State)
		}
		if o.Empty() {
			return step
		}
		return step.write(o.BuildStatus())
	}
	step.Resize = lacks
	if r.isServing(p, pending{resources: lacks}) {
		step.Closes = true
		return r.leave(p, step)
	}
	return step
}

// isSettled says whether the Pod is in no update, so that its record need not be read. All the Pods of a set that rests
// are. One whose label says so may be in one all the same: somebody else may have written it.
func isSettled(p *corev1.Pod, state pub.LifecycleStateType) bool {
	_, grace := p.Annotations[pub.InPlaceUpdateGraceKey]
	_, oldGrace := p.Annotations[pub.InPlaceUpdateGraceKeyOld]
	switch {
	case grace || oldGrace:
		return false
	case state == "" || state == pub.LifecycleStateNormal:
		return !mayBeUnfinished(p) || IsCompleted(p) && missing(p, Read(p).State) == nil
	}
	// A deletion that was taken back may have come in between an update.
	return state == pub.LifecycleStatePreparingNormal && !HasRecord(p)
}

func (r Refresh) grace(p *corev1.Pod, record Record, step Step) Step {
	o := patch.New(p).IfUnchanged(p)
	if !pods.AtRevision(p, record.Grace.Revision) {
		removeGrace(o, p)
		return step.write(o.Build())
	}
	end := record.State.UpdateTimestamp.Add(time.Duration(record.Grace.GraceSeconds) * time.Second)
	if left := end.Sub(r.Now); left > 0 {
		step.RequeueAfter = (left + time.Second - 1).Truncate(time.Second)
		return step
	}
	work := newPending().add(record.Grace.ContainerImages, record.Grace.ContainerRefMetadata, record.Grace.ContainerResources)
	if r.isServing(p, work) {
		return r.leave(p, step)
	}
	o.Merge(storedMetadata(record.Grace.MetaDataPatch))
	state := record.State
	state.PreviousRevision = ""
	work.apply(o, p, state, r.Now)
	writeState(o, p, state)
	removeGrace(o, p)
	step.Resize, step.Moves = state.ContainerResources, true
	return step.write(o.Build())
}

// isServing says whether the work restarts containers of a Pod that is in its Services, because somebody has opened the gate
// that the update had closed.
func (r Refresh) isServing(p *corev1.Pod, work pending) bool {
	return work.restarts(p) && pods.HasGate(p, pub.InPlaceUpdateReady) && pods.IsConditionTrue(p, pub.InPlaceUpdateReady)
}

// leave takes the Pod out of its Services. What was to be done to it is done when that is seen.
func (r Refresh) leave(p *corev1.Pod, step Step) Step {
	return step.write(closeGate(patch.New(p).IfUnchanged(p), p, r.Now))
}

// storedMetadata is the metadata of a stored patch. Text that nobody can read is left out rather than block the update.
func storedMetadata(raw []byte) map[string]any {
	var tree map[string]any
	if len(raw) == 0 || json.Unmarshal(raw, &tree) != nil {
		return nil
	}
	return onlyMetadata(tree)
}

// onlyMetadata keeps what a stored patch may change: labels, annotations and finalizers.
func onlyMetadata(tree map[string]any) map[string]any {
	metadata, ok := tree["metadata"].(map[string]any)
	if !ok {
		return nil
	}
	kept := map[string]any{}
	for _, member := range []string{"labels", "annotations", "finalizers", "$deleteFromPrimitiveList/finalizers"} {
		if v, ok := metadata[member]; ok {
			kept[member] = v
		}
	}
	return map[string]any{"metadata": kept}
}

func (r Refresh) next(p *corev1.Pod, record Record, step Step) Step {
	if before := record.State.PreCheckBeforeNext; before != nil {
		for _, name := range before.ContainersRequiredReady {
			if s := pods.ContainerStatus(p, name); s != nil && !s.Ready {
				return step
			}
		}
	}
	work := newPending().add(record.State.NextContainerImages, record.State.NextContainerRefMetadata, record.State.NextContainerResources)
	if r.isServing(p, work) {
		return r.leave(p, step)
	}
	o := patch.New(p).IfUnchanged(p)
	work.apply(o, p, record.State, r.Now)
	writeState(o, p, record.State)
	step.Resize, step.Moves = record.State.ContainerResources, true
	return step.write(o.Build())
}

// settle answers the gates and moves the lifecycle on, in one write. The record of an update that is over then says no more
// what containers are to be given: from now on others may give them something else.
func (r Refresh) settle(p *corev1.Pod, step Step, over *pub.InPlaceUpdateState) Step {
	o := patch.New(p)
	if !isNew(p, step.State) {
		o.IfUnchanged(p)
	}
	next := lifecycle.Next(p, lifecycle.Facts{
		Lifecycle: r.Lifecycle, State: step.State, AtTarget: r.AtTarget, Completed: true, Unwanted: r.Unwanted,
	})
	if next != step.State {
		lifecycle.SetState(o, next, r.Now)
		step.State = next
	}
	if r.Ahead || p.Spec.NodeName != "" {
		// A gate of a Pod without a node answers nothing that anybody waits for.
		r.answerGates(o, p, next)
	}
	for _, key := range step.Broken {
		o.RemoveAnnotation(key)
	}
	if over != nil && len(over.ContainerResources) > 0 {
		over.ContainerResources = nil
		writeState(o, p, over)
	}
	if o.Empty() {
		return step
	}
	return step.write(o.BuildStatus())
}

// isNew says whether nobody has answered the Pod's gates yet. Its kubelet is starting it just now and writes its status as
// well; a precondition on the version would fail for many of the Pods that are created together. There is no start that
// could be overlooked: what we have begun ourselves we have seen.
func isNew(p *corev1.Pod, state pub.LifecycleStateType) bool {
	switch state {
	case pub.LifecycleStatePreparingNormal, pub.LifecycleStateNormal:
		return !HasRecord(p) && pods.Condition(p, pub.InPlaceUpdateReady) == nil && pods.Condition(p, pub.KruisePodReady) == nil
	}
	return false
}

func (r Refresh) answerGates(o *patch.Object, p *corev1.Pod, state pub.LifecycleStateType) {
	if pods.HasGate(p, pub.InPlaceUpdateReady) {
		c := pods.Condition(p, pub.InPlaceUpdateReady)
		if c == nil || c.Status != corev1.ConditionTrue || c.Reason != "" {
			o.Condition(open(pub.InPlaceUpdateReady, r.Now))
		}
	}
	if !pods.HasGate(p, pub.KruisePodReady) {
		return
	}
	if key, held := r.wantedKey(state); held {
		if c, changed := lifecycle.Hold(p, key, r.Now); changed {
			o.Condition(c)
			if ready, ok := lifecycle.NotReadyNow(p, r.Now); ok {
				o.Condition(ready)
			}
		}
		return
	}
	if c, changed := lifecycle.Release(p, r.Now, staleKeys(state)...); changed {
		o.Condition(c)
	} else if !lifecycle.IsAnswered(p) {
		o.Condition(open(pub.KruisePodReady, r.Now))
	}
}

// wantedKey is the key that the state's hook asks for.
func (r Refresh) wantedKey(state pub.LifecycleStateType) (lifecycle.Key, bool) {
	switch state {
	case pub.LifecycleStatePreparingUpdate:
		h := lifecycle.InPlaceUpdate(r.Lifecycle)
		return lifecycle.PreUpdateKey(), h != nil && h.MarkPodNotReady
	case pub.LifecycleStatePreparingDelete:
		h := lifecycle.PreDelete(r.Lifecycle)
		return lifecycle.PreDeleteKey(), h != nil && h.MarkPodNotReady
	}
	return lifecycle.Key{}, false
}

// staleKeys are the keys of ours that must not be held in the state.
func staleKeys(state pub.LifecycleStateType) []lifecycle.Key {
	switch state {
	case pub.LifecycleStatePreparingUpdate, pub.LifecycleStateUpdating:
		return []lifecycle.Key{lifecycle.PreDeleteKey()}
	case pub.LifecycleStatePreparingDelete:
		return nil
	default:
		return []lifecycle.Key{lifecycle.PreDeleteKey(), lifecycle.PreUpdateKey()}
	}
}

func (s Step) write(p patch.Patch) Step {
	s.Patch, s.Due = p, true
	return s
}
