package kube

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Indices of the stores of what workloads own.
const (
	// IndexOwner finds objects by the UID of any owner.
	IndexOwner = "owner"
	// IndexOrphan finds objects with labels and without a controller, by namespace.
	IndexOrphan = "orphan"
	// IndexOfPod finds, by namespace, objects that a Pod is the controller of. They are few: a sync need not ask for every Pod.
	IndexOfPod = "ofPod"
)

// Indexers are those of the indices above.
func Indexers() cache.Indexers {
	return cache.Indexers{IndexOwner: byOwner, IndexOrphan: byOrphanage, IndexOfPod: byPod}
}

func byOwner(object any) ([]string, error) {
	o, err := metadataOf(object)
	if err != nil {
		return nil, err
	}
	var uids []string
	for _, r := range o.GetOwnerReferences() {
		uids = append(uids, string(r.UID))
	}
	return uids, nil
}

func byOrphanage(object any) ([]string, error) {
	o, err := metadataOf(object)
	if err != nil || metav1.GetControllerOfNoCopy(o) != nil || o.GetLabels() == nil {
		return nil, err
	}
	return []string{o.GetNamespace()}, nil
}

func byPod(object any) ([]string, error) {
	o, err := metadataOf(object)
	if err != nil {
		return nil, err
	}
	if c := metav1.GetControllerOfNoCopy(o); c != nil && c.Kind == "Pod" {
		return []string{o.GetNamespace()}, nil
	}
	return nil, nil
}

func metadataOf(object any) (metav1.Object, error) {
	o, ok := object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("not an object: %T", object)
	}
	return o, nil
}

// Owned are the objects with that owner, by name: an index has no order, and decisions must not depend on chance.
func Owned[T metav1.Object](indexer cache.Indexer, uid types.UID) ([]T, error) {
	return indexed[T](indexer, IndexOwner, string(uid))
}

// Orphans are the objects of a namespace that have labels and no controller, by name.
func Orphans[T metav1.Object](indexer cache.Indexer, namespace string) ([]T, error) {
	return indexed[T](indexer, IndexOrphan, namespace)
}

func indexed[T metav1.Object](indexer cache.Indexer, index, value string) ([]T, error) {
	items, err := indexer.ByIndex(index, value)
	if err != nil {
		return nil, fmt.Errorf("looking up %s %s: %w", index, value, err)
	}
	out := make([]T, 0, len(items))
	for _, i := range items {
		if t, ok := i.(T); ok {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out, nil
}
