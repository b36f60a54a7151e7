package inplace

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// writer patches Pods.
type writer interface {
	PatchPod(ctx context.Context, owner types.UID, p *corev1.Pod, change patch.Patch) (*corev1.Pod, error)
	TryPod(ctx context.Context, p *corev1.Pod, change patch.Patch) error
}

// Applier carries out updates and steps of one owner's Pods.
type Applier struct {
	Writer writer
	Owner  types.UID
}

// Replace deletes a Pod instead of giving it the resources that the API server has refused it; nil: the Pod stays.
type Replace func(ctx context.Context, cause error) error

// Update closes the gate before it changes the Pod, never after. What the API server may refuse is asked before the Pod is
// taken out of its Services: other resources, and any change that was refused before. It returns whether the update was
// begun; a Pod that was replaced instead was not.
func (a Applier) Update(ctx context.Context, p *corev1.Pod, u Update, refusedBefore bool, instead Replace) (begun bool, err error) {
	if change, resizes := u.Change.Resources.Patch(p); resizes {
		if err := a.Writer.TryPod(ctx, p, change); kube.IsRefused(err) && !kube.IsNoRehearsal(err) {
			return false, replaceIfRefused(ctx, err, instead)
		}
	}
	gate, closes := u.CloseGate(p)
	if refusedBefore && closes {
		change, _ := u.Apply(p)
		if err := a.Writer.TryPod(ctx, p, change); err != nil && !kube.IsNoRehearsal(err) {
			return false, err
		}
	}
	// One that an earlier update has taken out of its Services stays out: that update goes on.
	served := pods.IsConditionTrue(p, pub.InPlaceUpdateReady)
	if closes {
		closed, err := a.Writer.PatchPod(ctx, a.Owner, p, gate)
		if err != nil {
			return false, err
		}
		p = closed
	}
	change, resize := u.Apply(p)
	changed, err := a.Writer.PatchPod(ctx, a.Owner, p, change)
	if err != nil {
		if closes && served && kube.IsRefused(err) {
			return false, errors.Join(err, a.reopen(ctx, p, u.Now))
		}
		return false, err
	}
	if err := a.resize(ctx, changed, resize, instead); err != nil {
		return false, err
	}
	return true, nil
}

// reopen puts a Pod back into its Services whose change was refused. If the Pod has changed meanwhile the next sync will.
func (a Applier) reopen(ctx context.Context, p *corev1.Pod, now time.Time) error {
	_, err := a.Writer.PatchPod(ctx, a.Owner, p, OpenGate(p, now))
	if err != nil && kube.IsPassing(err) {
		return nil
	}
	return err
}

// Step carries a step out. It returns whether the Pod was to be given resources, which is what the error is about then.
func (a Applier) Step(ctx context.Context, p *corev1.Pod, s Step, instead Replace) (resizing bool, err error) {
	if change, due := s.Resize.Patch(p); due && s.Closes {
		// It was refused before. The Pod does not leave its Services only to hear that again.
		if err := a.Writer.TryPod(ctx, p, change); kube.IsRefused(err) && !kube.IsNoRehearsal(err) {
			return true, replaceIfRefused(ctx, err, instead)
		}
	}
	if s.Due {
		patched, err := a.Writer.PatchPod(ctx, a.Owner, p, s.Patch)
		if err != nil {
			return false, err
		}
		p = patched
	}
	if len(s.Resize) == 0 {
		return false, nil
	}
	return true, a.resize(ctx, p, s.Resize, instead)
}

// resize gives the Pod's containers what they do not have yet.
func (a Applier) resize(ctx context.Context, p *corev1.Pod, wanted Resize, instead Replace) error {
	change, due := wanted.Patch(p)
	if !due {
		return nil
	}
	_, err := a.Writer.PatchPod(ctx, a.Owner, p, change)
	return replaceIfRefused(ctx, err, instead)
}

func replaceIfRefused(ctx context.Context, err error, instead Replace) error {
	if err == nil || !kube.IsRefused(err) || instead == nil {
		return err
	}
	return instead(ctx, err)
}
