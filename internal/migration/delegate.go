package migration

import (
	"context"
	"fmt"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	lookEvery = time.Second
	// trimWithin is how long the cluster takes to trim storedVersions after it has migrated.
	trimWithin = 15 * time.Second
)

// delegates says whether the cluster migrates by itself.
func (m *Migrator) delegates() (bool, error) {
	if m.Method == methodRewrite {
		return false, nil
	}
	_, err := m.Kube.Discovery().ServerResourcesForGroupVersion(storagemigrationv1.SchemeGroupVersion.String())
	switch {
	case err == nil:
		return true, nil
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("asking for the API %s: %w", storagemigrationv1.SchemeGroupVersion, err)
	case m.Method == methodCluster:
		return false, fmt.Errorf("--method=cluster: the cluster does not serve %s; use rewrite", storagemigrationv1.SchemeGroupVersion)
	}
	return false, nil
}

// delegate has the cluster migrate. It is not done if storedVersions stays as it was: the CRD was changed meanwhile.
func (m *Migrator) delegate(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, storage schema.GroupVersionResource) (done bool, err error) {
	name := "flotilla-" + storage.Resource
	if err := m.request(ctx, name, storage); err != nil {
		return false, err
	}
	if err := m.await(ctx, name); err != nil {
		return false, err
	}
	err = wait.PollUntilContextTimeout(ctx, lookEvery, trimWithin, true, func(ctx context.Context) (bool, error) {
		now, err := m.read(ctx, crd.Name)
		return err == nil && !isDue(now, storage.Version), err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err //nolint:wrapcheck // read says what failed.
}

// request creates the order. One that is finished belongs to an earlier migration: its outcome says nothing about now. One
// that is under way is waited for; should it have begun too early, storedVersions stays and the next round orders anew.
func (m *Migrator) request(ctx context.Context, name string, storage schema.GroupVersionResource) error {
	client := m.Kube.StoragemigrationV1().StorageVersionMigrations()
	old, err := client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading StorageVersionMigration %s: %w", name, err)
	case !isFinished(old):
		return nil
	default:
		if err := client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(old.UID))}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the finished StorageVersionMigration %s: %w", name, err)
		}
	}
	fresh := &storagemigrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: storage.Group, Resource: storage.Resource}},
	}
	if _, err := client.Create(ctx, fresh, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating StorageVersionMigration %s: %w", name, err)
	}
	return nil
}

func isFinished(s *storagemigrationv1.StorageVersionMigration) bool {
	return meta.IsStatusConditionTrue(s.Status.Conditions, string(storagemigrationv1.MigrationSucceeded)) ||
		meta.IsStatusConditionTrue(s.Status.Conditions, string(storagemigrationv1.MigrationFailed))
}

// await waits until the order is carried out.
func (m *Migrator) await(ctx context.Context, name string) error {
	err := wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		s, err := m.Kube.StoragemigrationV1().StorageVersionMigrations().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err //nolint:wrapcheck // The caller says of what.
		}
		if c := meta.FindStatusCondition(s.Status.Conditions, string(storagemigrationv1.MigrationFailed)); c != nil && c.Status == metav1.ConditionTrue {
			return false, fmt.Errorf("it failed: %s", c.Message)
		}
		return isFinished(s), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for StorageVersionMigration %s (kubectl describe shows its state): %w", name, err)
	}
	return nil
}
