package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
)

// Writer makes the writes of a workload controller to the objects of its owners, and tells the gate about each.
type Writer struct {
	Client kubernetes.Interface
	Gate   *Gate
	// Pods, Claims and Revisions are the stores of the informers that will show the writes.
	Pods, Claims, Revisions Store
	// Wrote is told of every write that succeeded; may be nil.
	Wrote func(kind, verb string)
}

func (w *Writer) wrote(kind, verb string) {
	if w.Wrote != nil {
		w.Wrote(kind, verb)
	}
}

// writable is what the typed clients have in common.
type writable[T metav1.Object] interface {
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	Patch(ctx context.Context, name string, t types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (T, error)
}

// CreatePod creates a Pod of the owner.
func (w *Writer) CreatePod(ctx context.Context, owner types.UID, p *corev1.Pod) (*corev1.Pod, error) {
	return create(ctx, w, w.Pods, owner, w.Client.CoreV1().Pods(p.Namespace), p, "Pod")
}

// PatchPod patches a Pod and returns it as it is then.
func (w *Writer) PatchPod(ctx context.Context, owner types.UID, p *corev1.Pod, change patch.Patch) (*corev1.Pod, error) {
	return send(ctx, w, w.Pods, owner, w.Client.CoreV1().Pods(p.Namespace), p, change, "Pod")
}

// TryPod asks the API server whether it would accept a patch of a Pod. Nothing is written.
func (w *Writer) TryPod(ctx context.Context, p *corev1.Pod, change patch.Patch) error {
	_, err := w.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, change.Type, change.Body,
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, change.Subresources()...)
	if err != nil {
		return fmt.Errorf("patching Pod %s: %w", cache.MetaObjectToName(p), unlessDenied(err, names(p)))
	}
	return nil
}

// DeletePod deletes a Pod; one that is gone already is no error.
func (w *Writer) DeletePod(ctx context.Context, owner types.UID, p *corev1.Pod) error {
	return remove(ctx, w, w.Pods, owner, w.Client.CoreV1().Pods(p.Namespace), p, "Pod")
}

// CreateClaim creates a claim of the owner.
func (w *Writer) CreateClaim(ctx context.Context, owner types.UID, c *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	return create(ctx, w, w.Claims, owner, w.Client.CoreV1().PersistentVolumeClaims(c.Namespace), c, "PersistentVolumeClaim")
}

// PatchClaim patches a claim and returns it as it is then.
func (w *Writer) PatchClaim(ctx context.Context, owner types.UID, c *corev1.PersistentVolumeClaim, change patch.Patch) (*corev1.PersistentVolumeClaim, error) {
	return send(ctx, w, w.Claims, owner, w.Client.CoreV1().PersistentVolumeClaims(c.Namespace), c, change, "PersistentVolumeClaim")
}

// DeleteClaim deletes a claim; one that is gone already is no error.
func (w *Writer) DeleteClaim(ctx context.Context, owner types.UID, c *corev1.PersistentVolumeClaim) error {
	return remove(ctx, w, w.Claims, owner, w.Client.CoreV1().PersistentVolumeClaims(c.Namespace), c, "PersistentVolumeClaim")
}

// CreateRevision creates a revision of the owner.
func (w *Writer) CreateRevision(ctx context.Context, owner types.UID, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	return create(ctx, w, w.Revisions, owner, w.Client.AppsV1().ControllerRevisions(r.Namespace), r, "ControllerRevision")
}

// PatchRevision patches a revision and returns it as it is then.
func (w *Writer) PatchRevision(ctx context.Context, owner types.UID, r *appsv1.ControllerRevision, change patch.Patch) (*appsv1.ControllerRevision, error) {
	return send(ctx, w, w.Revisions, owner, w.Client.AppsV1().ControllerRevisions(r.Namespace), r, change, "ControllerRevision")
}

// DeleteRevision deletes a revision; one that is gone already is no error.
func (w *Writer) DeleteRevision(ctx context.Context, owner types.UID, r *appsv1.ControllerRevision) error {
	return remove(ctx, w, w.Revisions, owner, w.Client.AppsV1().ControllerRevisions(r.Namespace), r, "ControllerRevision")
}

func create[T metav1.Object](ctx context.Context, w *Writer, store Store, owner types.UID, client writable[T], object T, kind string) (T, error) {
	created, err := client.Create(ctx, object, metav1.CreateOptions{})
	if isUnanswered(err) {
		created, err = afterLostAnswer(ctx, client, object, err)
	}
	if err != nil {
		if isUnanswered(err) {
			putInDoubt(w.Gate, store, owner, client, object, kind, nil)
		}
		none := func(*metav1.StatusDetails) bool { return false }
		return created, fmt.Errorf("creating %s %s: %w", kind, cache.MetaObjectToName(object), unlessDenied(err, none))
	}
	w.Gate.Wrote(owner, store, created.GetResourceVersion())
	w.wrote(kind, "create")
	logr.FromContextOrDiscard(ctx).V(2).Info("created", "kind", kind, "name", created.GetName())
	return created, nil
}

// putInDoubt puts a write of the object in doubt. gone tells the gate if the object turns out not to exist.
func putInDoubt[T metav1.Object](g *Gate, store Store, owner types.UID, client writable[T], object T, kind string, gone func()) {
	name := cache.MetaObjectToName(object)
	g.doubt(owner, doubt{store, name.String()}, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lookBack)
		defer cancel()
		found, err := client.Get(ctx, name.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			if gone != nil {
				gone()
			}
		case err != nil:
			return fmt.Errorf("a write to %s %s was not answered; asking what became of it: %w", kind, name, err)
		default:
			g.Wrote(owner, store, found.GetResourceVersion())
		}
		return nil
	})
}

// isUnanswered says whether a request may have been carried out although it failed.
func isUnanswered(err error) bool {
	if err == nil {
		return false
	}
	var status apierrors.APIStatus
	return !errors.As(err, new(denied)) && (!errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError)
}

// IsRefused says whether a request was certainly not carried out, and would not be if it were sent again as it is.
func IsRefused(err error) bool {
	if err == nil {
		return false
	}
	var status apierrors.APIStatus
	return errors.As(err, new(denied)) || errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError &&
		!apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err)
}

// IsNoRehearsal says whether the API server cannot tell in advance whether it would carry a request out, because an
// admission webhook cannot be asked without effects.
func IsNoRehearsal(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run")
}

// names says whether an answer is about the object itself.
func names(object metav1.Object) func(*metav1.StatusDetails) bool {
	return func(d *metav1.StatusDetails) bool { return d.Name == object.GetName() }
}

// lookBack bounds the question whether an unanswered request was carried out.
const lookBack = 5 * time.Second

// afterLostAnswer looks whether the object was created all the same: its name was drawn for it, so that nobody but this
// request can have created it. That it is not there is no proof: the request may still be under way.
func afterLostAnswer[T metav1.Object](ctx context.Context, client writable[T], object T, lost error) (T, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookBack)
	defer cancel()
	found, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil || !metav1.IsControlledBy(found, ownerOf(object)) {
		return object, lost
	}
	return found, nil
}

// ownerOf is the controller of an object, as far as a comparison of UIDs needs it.
func ownerOf(object metav1.Object) metav1.Object {
	owner := &metav1.ObjectMeta{}
	if r := metav1.GetControllerOfNoCopy(object); r != nil {
		owner.UID = r.UID
	}
	return owner
}

func send[T metav1.Object](ctx context.Context, w *Writer, store Store, owner types.UID, client writable[T], object T, change patch.Patch, kind string) (T, error) {
	patched, err := sendPatch(ctx, w, store, owner, client, object, change, kind)
	if err != nil {
		return patched, fmt.Errorf("patching %s %s: %w", kind, cache.MetaObjectToName(object), unlessDenied(err, names(object)))
	}
	w.wrote(kind, "patch")
	logr.FromContextOrDiscard(ctx).V(2).Info("patched", "kind", kind, "name", object.GetName(), "subresource", change.Subresource)
	return patched, nil
}

// sendPatch tells the gate what became of the patch.
func sendPatch[T metav1.Object](ctx context.Context, w *Writer, store Store, owner types.UID, client writable[T], object T, change patch.Patch, kind string) (T, error) {
	patched, err := client.Patch(ctx, object.GetName(), change.Type, change.Body, metav1.PatchOptions{}, change.Subresources()...)
	switch {
	case err == nil:
		w.Gate.Wrote(owner, store, patched.GetResourceVersion())
	case isUnanswered(err):
		putInDoubt(w.Gate, store, owner, client, object, kind, nil)
	}
	return patched, err
}

func remove[T metav1.Object](ctx context.Context, w *Writer, store Store, owner types.UID, client writable[T], object T, kind string) error {
	uid := object.GetUID()
	err := unlessDenied(client.Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}), names(object))
	deleted := func() { w.Gate.Deleted(owner, store, cache.MetaObjectToName(object).String(), uid) }
	// A conflict mostly means that the name has another holder; the caches will tell. To wait for a deletion that did not
	// take place would be to wait for ever.
	if err != nil && !apierrors.IsNotFound(err) {
		if isUnanswered(err) {
			putInDoubt(w.Gate, store, owner, client, object, kind, deleted)
		}
		return fmt.Errorf("deleting %s %s: %w", kind, cache.MetaObjectToName(object), err)
	}
	deleted()
	w.wrote(kind, "delete")
	logr.FromContextOrDiscard(ctx).V(2).Info("deleted", "kind", kind, "name", object.GetName())
	return nil
}
