package kube

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsPassing says whether an error only means that somebody else was faster, or that the namespace is about to go. Of
// joined errors all must.
func IsPassing(err error) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !IsPassing(e) })
	}
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || errors.Is(err, context.Canceled)
}

// denied is an answer with a code that says that something does not exist, although that is not what it means.
type denied struct{ text string }

func (d denied) Error() string { return d.text }

// unlessDenied tells an object that does not exist, or a namespace that does not, from an admission webhook that refuses with
// that code: nobody was faster then.
func unlessDenied(err error, isGone func(*metav1.StatusDetails) bool) error {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return err
	}
	if d := status.Status().Details; d != nil && (d.Kind == "namespaces" || isGone(d)) {
		return err
	}
	return denied{err.Error()}
}

// FirstLine is the text of the first of several joined errors that does not pass by itself.
func FirstLine(err error) string {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			if !IsPassing(e) {
				return FirstLine(e)
			}
		}
	}
	return err.Error()
}
