package cloneset

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
)

// Plan is what one sync does, in this order:
//
//  1. Release and Adopt. If any Pod is adopted the plan ends: it is counted only when it was seen.
//  2. Refresh: Pods move on that nothing is started with. It consumes no budget.
//  3. Cancel: deletions that are not wanted any more.
//  4. Create, within scaleStrategy.maxUnavailable. If anything is created the plan ends.
//  5. Delete: Pods whose hook has let them go, else Pods whose deletion was asked for, else surplus ones. Available Pods
//     consume maxUnavailable. If anything is deleted the plan ends. A Pod that could not be deleted gives way to others.
//  6. Update, if Refresh has moved no Pod. Available Pods consume maxUnavailable.
//
// Updates are thus always decided on Pods that were seen, never beside a creation or deletion that was not.
type Plan struct {
	Release []*corev1.Pod
	Adopt   []*corev1.Pod
	Refresh []Refresh
	Cancel  []PodPatch

	// Create is how many Pods are made.
	Create creations
	// Limited is by how many Pods scaleStrategy.maxUnavailable, which is Limit, cut the creation.
	Limited, Limit int
	// CreatePostponed, DeletePostponed, UpdatePostponed: something of the kind is left out because it failed not long ago.
	CreatePostponed, DeletePostponed, UpdatePostponed bool

	Delete []Deletion
	Update []Update

	// RequeueAfter is when to look again; 0 if only an event can change anything.
	RequeueAfter time.Duration
}

// Refresh is a step of one Pod.
type Refresh struct {
	Pod  *corev1.Pod
	Step inplace.Step
	// Instead deletes the Pod if the API server refuses the resize of the step; nil: then the Pod stays.
	Instead *Deletion
}

// PodPatch is patches of one Pod, in order.
type PodPatch struct {
	Pod     *corev1.Pod
	Patches []patch.Patch
}

// Deletion deletes a Pod, or makes it wait for its hook.
type Deletion struct {
	Pod *corev1.Pod
	// Prepare are the patches that make it wait; none: it is deleted.
	Prepare []patch.Patch
}

// Update takes one Pod to the update revision. Exactly one of InPlace, Patches, Recreate and Impossible is set.
type Update struct {
	Pod *corev1.Pod
	// InPlace changes the Pod. Instead deletes it if the API server refuses the resize; nil: then the Pod stays.
	InPlace *inplace.Update
	Instead *Deletion
	// Patches make it wait for its hook, or take it out of its grace period.
	Patches []patch.Patch
	// Recreate deletes it, or makes it wait for its hook before that.
	Recreate *Deletion
	// Impossible says why the Pod cannot be updated as the policy demands. It is not touched.
	Impossible error
}

// isUnfinished says whether Pods come, go or are updated by the plan, or are to later: the set is not, or not for long, what it was
// seen to be.
func (p *Plan) isUnfinished() bool {
	return p.CreatePostponed || p.DeletePostponed || p.UpdatePostponed || len(p.Adopt) > 0 || p.Create.total() > 0 || len(p.Delete) > 0 ||
		slices.ContainsFunc(p.Update, func(u Update) bool { return u.Impossible == nil })
}

// isImpossible says whether a Pod cannot be updated as the policy demands.
func (p *Plan) isImpossible() bool {
	return slices.ContainsFunc(p.Update, func(u Update) bool { return u.Impossible != nil })
}

// look is the soonest of the times to look again.
func (p *Plan) look(after time.Duration) {
	if after > 0 && (p.RequeueAfter == 0 || after < p.RequeueAfter) {
		p.RequeueAfter = after
	}
}
