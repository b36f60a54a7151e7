package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// reset removes what an earlier demo left on a cluster that is still up.
func (d *demo) reset(ctx context.Context) error {
	namespaces := d.cluster.Kube.CoreV1().Namespaces()
	_, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
	if err == nil {
		step("An earlier demo's sets begin anew: namespace %s is deleted with all that is in it", namespace)
		if err := d.unprotect(); err != nil {
			return err
		}
		err = namespaces.Delete(ctx, namespace, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting namespace %s: %w", namespace, err)
	}
	return localcluster.Await(ctx, within, func(ctx context.Context) error {
		_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		return err
	})
}

// unprotect lets everything in the namespace be deleted.
func (d *demo) unprotect() error {
	for _, args := range [][]string{
		{"clonesets,statefulsets.apps.kruise.io,services", "--all", "-n", namespace}, {"namespace", namespace},
	} {
		if out, err := d.cluster.Kubectl(append(append([]string{"label"}, args...), pub.DeleteProtectionKey+"-")...); err != nil {
			return fmt.Errorf("taking the label %s away: %w: %s", pub.DeleteProtectionKey, err, out)
		}
	}
	return nil
}
