package inplace

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/lifecycle"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// Target is the revision that a Pod is taken to.
type Target struct {
	// Revision is its name.
	Revision string
	// Labels are those by which a Pod says that it is at it.
	Labels map[string]string
}

// Update takes one Pod to a target. It takes up to three writes, in this order: CloseGate, then Apply to the Pod as the
// first one left it, then the resize to the Pod as the second one left it. A crash after the first leaves a Pod that is
// out of its Services but unchanged, one after the second a Pod whose record says what is missing; the next sync goes on.
type Update struct {
	Target Target
	// Change is what Compare said about From(pod) and the target.
	Change       Change
	GraceSeconds int32
	Now          time.Time
}

// CloseGate is the write that takes the Pod out of its Services, and false if nothing restarts or the Pod has no gate.
// It is due even if the condition looks False already: what is seen may be old.
func (u Update) CloseGate(p *corev1.Pod) (patch.Patch, bool) {
	if !pods.HasGate(p, pub.InPlaceUpdateReady) {
		return patch.Patch{}, false
	}
	record := Read(p)
	held, _ := withheld(record)
	work := u.pending(record, p)
	if !u.Change.restarts && !held.restarts && (work.waits(record, p) || !work.restarts(p)) {
		return patch.Patch{}, false
	}
	return closeGate(patch.New(p), p, u.Now), true
}

func closeGate(o *patch.Object, p *corev1.Pod, now time.Time) patch.Patch {
	o.Condition(corev1.PodCondition{
		Type: pub.InPlaceUpdateReady, Status: corev1.ConditionFalse,
		Reason: pub.ReasonStartInPlaceUpdate, LastTransitionTime: metav1.NewTime(now),
	})
	if ready, ok := lifecycle.NotReadyNow(p, now); ok {
		o.Condition(ready)
	}
	return o.BuildStatus()
}

// Apply is the write that changes the Pod, or that records the change until the grace period is over, and the resize that
// is due after it.
func (u Update) Apply(p *corev1.Pod) (patch.Patch, Resize) {
	o := patch.New(p)
	record := Read(p)
	if held, is := withheld(record); is {
		u.Change = held.then(u.Change)
	}
	if record.State != nil && !IsCompleted(p) {
		// What the containers ran before is part of the write, and here it may just be changing.
		o.IfUnchanged(p)
	}
	for k, v := range u.Target.Labels {
		o.Label(k, v)
	}
	state := u.newState(p, record)
	if !u.Change.IsMetadataOnly() || pods.LifecycleState(p) == pub.LifecycleStatePreparingUpdate {
		lifecycle.SetState(o, pub.LifecycleStateUpdating, u.Now)
	}
	work := u.pending(record, p)
	state.UpdateImages, state.UpdateResources = len(work.images) > 0, len(work.resources) > 0
	state.UpdateEnvFromMetadata = len(work.references) > 0
	seconds := u.GraceSeconds
	if record.Grace != nil {
		// A new target does not prolong the wait.
		seconds = record.Grace.GraceSeconds
		state.UpdateTimestamp = record.State.UpdateTimestamp
	}
	if seconds > 0 && !u.Change.IsMetadataOnly() {
		if record.canGoBack(p) {
			state.PreviousRevision = From(p)
		}
		writeState(o, p, state)
		writeGrace(o, p, u.grace(work, seconds))
		return o.Build(), nil
	}
	o.Merge(u.Change.Metadata)
	switch {
	case work.waits(record, p):
		work.keep(state)
		state.PreCheckBeforeNext = record.State.PreCheckBeforeNext
	case len(work.containers(p)) > 0:
		work.apply(o, p, state, u.Now)
	}
	writeState(o, p, state)
	removeGrace(o, p)
	return o.Build(), Resize(state.ContainerResources)
}

// canGoBack says whether the Pod runs what the revision that it is taken from says, so that nothing is to be done if it is to
// stay there after all.
func (r Record) canGoBack(p *corev1.Pod) bool {
	if r.Grace != nil {
		return r.State.PreviousRevision != ""
	}
	return IsCompleted(p)
}

func (u Update) newState(p *corev1.Pod, old Record) *pub.InPlaceUpdateState {
	state := &pub.InPlaceUpdateState{
		Revision:        u.Target.Revision,
		UpdateTimestamp: metav1.NewTime(u.Now),
	}
	if old.State == nil {
		return state
	}
	// Containers that the former update has still in flight must be waited for as well.
	for name, before := range old.State.LastContainerStatuses {
		if _, again := u.Change.Images[name]; !again && !isContainerDone(p, old.State, name, before) {
			if state.LastContainerStatuses == nil {
				state.LastContainerStatuses = map[string]pub.InPlaceUpdateContainerStatus{}
			}
			state.LastContainerStatuses[name] = before
		}
	}
	return state
}

// pending is the change and what a superseded update has not come to: the Pod's label says that this is done. What an
// update was to give a container and the container does not have yet is part of it.
func (u Update) pending(old Record, p *corev1.Pod) pending {
	w := newPending()
	if old.State != nil {
		w.add(old.State.NextContainerImages, old.State.NextContainerRefMetadata, old.State.NextContainerResources)
		if old.Grace == nil && (pods.LifecycleState(p) == pub.LifecycleStateUpdating || !isGiven(p, old.State)) {
			w.add(nil, nil, old.State.ContainerResources)
		}
	}
	return w.add(u.Change.Images, u.Change.References, u.Change.Resources)
}

// withheld is what waits for the end of a grace period that others began: their record does not say which revision the
// containers run meanwhile, only what they are to be given. Whatever the Pod is taken to next, that is due as well.
func withheld(r Record) (change Change, is bool) {
	if r.Grace == nil || r.State.PreviousRevision != "" {
		return Change{}, false
	}
	g := r.Grace
	// The containers cannot be seen here, nor how they take a resize: the Pod is out of its Services in any case.
	restarts := len(g.ContainerImages)+len(g.ContainerRefMetadata)+len(g.ContainerResources) > 0
	return Change{
		Images: g.ContainerImages, References: g.ContainerRefMetadata, Resources: g.ContainerResources,
		Metadata: storedMetadata(g.MetaDataPatch), restarts: restarts,
	}, true
}

// then is a change and a later one as one.
func (c Change) then(later Change) Change {
	work := newPending().add(c.Images, c.References, c.Resources).add(later.Images, later.References, later.Resources)
	later.Images, later.References, later.Resources = work.images, work.references, work.resources
	later.restarts = later.restarts || c.restarts
	later.Metadata = joinTrees(c.Metadata, later.Metadata)
	return later
}

// joinTrees joins two merge patches of metadata. Of lists both count.
func joinTrees(a, b map[string]any) map[string]any {
	if a == nil || b == nil {
		return joined(a, b)
	}
	out := maps.Clone(a)
	for k, v := range b {
		switch had := out[k].(type) {
		case map[string]any:
			if tree, ok := v.(map[string]any); ok {
				v = joinTrees(had, tree)
			}
		case []any:
			if list, ok := v.([]any); ok {
				v = append(slices.Clone(had), list...)
			}
		}
		out[k] = v
	}
	return out
}

func (u Update) grace(work pending, seconds int32) *pub.InPlaceUpdateGrace {
	grace := &pub.InPlaceUpdateGrace{
		Revision:              u.Target.Revision,
		ContainerImages:       work.images,
		ContainerRefMetadata:  work.references,
		ContainerResources:    work.resources,
		UpdateEnvFromMetadata: len(work.references) > 0,
		GraceSeconds:          seconds,
	}
	if u.Change.Metadata != nil {
		// The tree holds strings, nulls and lists of strings.
		grace.MetaDataPatch, _ = json.Marshal(u.Change.Metadata)
	}
	return grace
}

// Behind is the change that takes a Pod to the template whose revision it says it is at, and false unless a broken record
// has left it behind: the images of its live containers are other ones.
func Behind(p *corev1.Pod, template *corev1.PodTemplateSpec) (Change, bool) {
	record := Read(p)
	if len(record.Broken) == 0 || record.State != nil {
		return Change{}, false
	}
	change := Change{}
	for i := range template.Spec.Containers {
		want := &template.Spec.Containers[i]
		for j := range p.Spec.Containers {
			if have := &p.Spec.Containers[j]; have.Name == want.Name && have.Image != want.Image {
				if change.Images == nil {
					change.Images = map[string]string{}
				}
				change.Images[want.Name], change.restarts = want.Image, true
			}
		}
	}
	return change, change.restarts
}

// Withdraw is the write that takes a Pod in its grace period back to the revision whose containers it still runs. Nothing
// restarts.
func Withdraw(p *corev1.Pod, previous Target, l *pub.Lifecycle, now time.Time) patch.Patch {
	o := patch.New(p).IfUnchanged(p)
	for k, v := range previous.Labels {
		o.Label(k, v)
	}
	removeGrace(o, p)
	removeIfThere(o, p, pub.InPlaceUpdateStateKey)
	removeIfThere(o, p, pub.InPlaceUpdateStateKeyOld)
	state := lifecycle.Next(p, lifecycle.Facts{
		Lifecycle: l, State: pub.LifecycleStateUpdating, AtTarget: true, Completed: true,
	})
	lifecycle.SetState(o, state, now)
	if pods.HasGate(p, pub.InPlaceUpdateReady) {
		o.Condition(open(pub.InPlaceUpdateReady, now))
	}
	return o.BuildStatus()
}

// OpenGate is the write that undoes CloseGate, for exactly this version of the Pod.
func OpenGate(p *corev1.Pod, now time.Time) patch.Patch {
	return patch.New(p).IfUnchanged(p).Condition(open(pub.InPlaceUpdateReady, now)).BuildStatus()
}

func open(gate corev1.PodConditionType, now time.Time) corev1.PodCondition {
	return corev1.PodCondition{Type: gate, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}
}

// Prepare are the writes that make a hooked Pod wait for its update. again puts the hook back on a Pod that has been
// through it before.
func Prepare(p *corev1.Pod, hook *pub.LifecycleHook, again bool, now time.Time) []patch.Patch {
	var patches []patch.Patch
	if hook.MarkPodNotReady && pods.HasGate(p, pub.KruisePodReady) {
		if c, ok := lifecycle.Hold(p, lifecycle.PreUpdateKey(), now); ok {
			patches = append(patches, holdPatch(p, c, now))
		}
	}
	o := lifecycle.SetState(patch.New(p), pub.LifecycleStatePreparingUpdate, now)
	if again {
		lifecycle.RestoreHook(o, hook)
	}
	return append(patches, o.Build())
}

// PrepareDelete are the writes that make a hooked Pod wait for its deletion. extra may add to the last of them.
func PrepareDelete(p *corev1.Pod, hook *pub.LifecycleHook, now time.Time, extra func(*patch.Object)) []patch.Patch {
	var patches []patch.Patch
	if hook.MarkPodNotReady && pods.HasGate(p, pub.KruisePodReady) {
		if c, ok := lifecycle.Hold(p, lifecycle.PreDeleteKey(), now); ok {
			patches = append(patches, holdPatch(p, c, now))
		}
	}
	o := lifecycle.SetState(patch.New(p), pub.LifecycleStatePreparingDelete, now)
	if extra != nil {
		extra(o)
	}
	return append(patches, o.Build())
}

func holdPatch(p *corev1.Pod, held corev1.PodCondition, now time.Time) patch.Patch {
	// Keys of others are part of the message that is written.
	o := patch.New(p).IfUnchanged(p).Condition(held)
	if ready, ok := lifecycle.NotReadyNow(p, now); ok {
		o.Condition(ready)
	}
	return o.BuildStatus()
}
