package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
)

// HasSubresource asks the API server whether it serves a resource or subresource. It waits for an API server that is
// away; an error means that the context ended.
func HasSubresource(ctx context.Context, client discovery.ServerResourcesInterface, groupVersion, name string) (found bool, err error) {
	failing := false
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		list, err := client.ServerResourcesForGroupVersion(groupVersion)
		if err != nil {
			if !failing {
				failing = true
				logr.FromContextOrDiscard(ctx).Info("waiting for the API server to tell what it serves", "error", err.Error())
			}
			return false, nil
		}
		found = slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
		return true, nil
	})
	if err != nil {
		return false, fmt.Errorf("asking for %s of %s: %w", name, groupVersion, err)
	}
	return found, nil
}
