package inplace

import (
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/lifecycle"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

// errNoRevision is why a Pod of a revision that was deleted cannot be updated in place.
var errNoRevision = errors.New("its revision does not exist any more")

// Changes compares revisions with the one that Pods are taken to, each once.
type Changes struct {
	// Revisions is the history, Target where Pods are taken.
	Revisions []*appsv1.ControllerRevision
	Target    *appsv1.ControllerRevision
	Can       Abilities
	// Allow says why Pods of a revision cannot be updated in place although their templates allow it; may be nil.
	Allow func(from *appsv1.ControllerRevision) error

	to    *corev1.PodTemplateSpec
	toErr error
	known map[string]comparison
}

type comparison struct {
	change Change
	err    error
}

// Of is what takes the Pod there.
func (c *Changes) Of(p *corev1.Pod) (Change, error) {
	change, err := c.from(From(p))
	if err == nil {
		err = change.CheckServed(p)
	}
	return change, err
}

// TakesNothingDown says whether the update leaves the Pod as it works now: it is one of mere metadata, and neither a hook nor what an
// earlier update has left comes with it.
func (c *Changes) TakesNothingDown(p *corev1.Pod, state pub.LifecycleStateType, l *pub.Lifecycle) bool {
	if state != "" && state != pub.LifecycleStateNormal {
		return false
	}
	change, err := c.Of(p)
	return err == nil && change.IsMetadataOnly() && IsCompleted(p) && lifecycle.Start(p, state, l) == lifecycle.Update
}

func (c *Changes) from(name string) (Change, error) {
	if known, ok := c.known[name]; ok {
		return known.change, known.err
	}
	if c.known == nil {
		c.known = map[string]comparison{}
	}
	change, err := c.compare(name)
	c.known[name] = comparison{change, err}
	return change, err
}

func (c *Changes) compare(name string) (Change, error) {
	if c.to == nil && c.toErr == nil {
		c.to, c.toErr = revision.Decode(c.Target.Data.Raw)
	}
	if c.toErr != nil {
		return Change{}, c.toErr
	}
	r := revision.ByName(c.Revisions, name)
	if r == nil {
		return Change{}, errNoRevision
	}
	from, err := revision.Decode(r.Data.Raw)
	if err != nil {
		return Change{}, err
	}
	if c.Allow != nil {
		if err := c.Allow(r); err != nil {
			return Change{}, err
		}
	}
	change, err := Compare(from, c.to, c.Can)
	if err != nil {
		return Change{}, fmt.Errorf("from revision %s: %w", r.Name, err)
	}
	return change, nil
}

// IsWithdrawn says whether what the Pod waits for in its grace period is not wanted any more: it runs what the target says.
func (c *Changes) IsWithdrawn(p *corev1.Pod) bool {
	return InGrace(p) && pods.SameRevision(From(p), c.Target.Name)
}

// Choice is what is done to one Pod that was chosen for its update: exactly one of the members is set, or none if the Pod
// waits for somebody else.
type Choice struct {
	InPlace *Update
	// Patches make it wait for its hook, or take it out of its grace period.
	Patches []patch.Patch
	// Recreate: it cannot be done in place, for this reason.
	Recreate error
}

// Chooser decides for Pods that may be updated in place.
type Chooser struct {
	Changes      *Changes
	Target       Target
	Lifecycle    *pub.Lifecycle
	GraceSeconds int32
	Now          time.Time
}

// Choose decides for one Pod.
func (c Chooser) Choose(p *corev1.Pod) Choice {
	if c.Changes.IsWithdrawn(p) {
		return Choice{Patches: []patch.Patch{Withdraw(p, c.Target, c.Lifecycle, c.Now)}}
	}
	change, err := c.Changes.Of(p)
	if err != nil {
		return Choice{Recreate: err}
	}
	switch action := lifecycle.Start(p, pods.LifecycleState(p), c.Lifecycle); action {
	case lifecycle.Update:
		return Choice{InPlace: &Update{Target: c.Target, Change: change, GraceSeconds: c.GraceSeconds, Now: c.Now}}
	case lifecycle.Prepare, lifecycle.PrepareAgain:
		return Choice{Patches: Prepare(p, lifecycle.InPlaceUpdate(c.Lifecycle), action == lifecycle.PrepareAgain, c.Now)}
	default:
		return Choice{}
	}
}
