package kube

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
