package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

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
