package kube

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// WithOwner are the references with that one, and no other to the same owner: there may be one that gives no control.
func WithOwner(list []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	return append(WithoutOwner(list, owner.UID), owner)
}

// WithoutOwner are the references to others.
func WithoutOwner(list []metav1.OwnerReference, uid types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(list), func(r metav1.OwnerReference) bool { return r.UID == uid })
}

// MayAdopt asks the API server whether an owner is to stay: the cached one may have been deleted since. What would be given
// to an owner that goes would go with it.
func MayAdopt[T metav1.Object](ctx context.Context, client writable[T], owner T, kind string) (bool, error) {
	if owner.GetDeletionTimestamp() != nil {
		return false, nil
	}
	fresh, err := client.Get(ctx, owner.GetName(), metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading %s %s before anything is adopted: %w", kind, cache.MetaObjectToName(owner), err)
	}
	return fresh.GetUID() == owner.GetUID() && fresh.GetDeletionTimestamp() == nil, nil
}
