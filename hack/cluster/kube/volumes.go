package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	volumeDriver = "volumes.sim.flotilla.io"
	// The volume controller hands a claim to us by the first, and knows our volumes by the second.
	provisionerAnnotation   = "volume.kubernetes.io/storage-provisioner"
	provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"
	// expansionAnnotation with "stuck" on a claim keeps its volume at the old size.
	expansionAnnotation = annotationPrefix + "expansion"
)

// reconcileClaim makes a volume for a claim that waits for one, and lets a bound volume grow with its claim.
func (s *support) reconcileClaim(ctx context.Context, namespace, name string) error {
	claim, err := s.factory.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading claim %s/%s: %w", namespace, name, err)
	}
	if claim.Annotations[provisionerAnnotation] != volumeDriver || claim.DeletionTimestamp != nil {
		return nil
	}
	if claim.Spec.VolumeName == "" {
		return s.provision(ctx, claim)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return nil
	}
	return s.expand(ctx, claim)
}

func (s *support) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class, err := s.client.StorageV1().StorageClasses().Get(ctx, ptr.Deref(claim.Spec.StorageClassName, ""), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the class of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	// The name follows from the claim: a second attempt cannot make a second volume.
	name := "pvc-" + string(claim.UID)
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedByAnnotation: volumeDriver}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: requested(claim)},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			StorageClassName:              class.Name,
			VolumeMode:                    claim.Spec.VolumeMode,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: volumeDriver, VolumeHandle: name},
			},
		},
	}
	_, err = s.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating a volume for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

func requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

func (s *support) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	want, have := requested(claim), claim.Status.Capacity[corev1.ResourceStorage]
	if want.Cmp(have) <= 0 {
		return nil
	}
	capacity := corev1.ResourceList{corev1.ResourceStorage: want}
	status := map[string]any{"capacity": capacity, "allocatedResources": capacity, "conditions": nil}
	if claim.Annotations[expansionAnnotation] == "stuck" {
		if len(claim.Status.Conditions) > 0 {
			return nil
		}
		status = map[string]any{"conditions": []corev1.PersistentVolumeClaimCondition{{
			Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		}}}
	} else if err := s.patchVolume(ctx, claim.Spec.VolumeName, capacity); err != nil {
		return err
	}
	raw, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("encoding the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	_, err = s.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, raw, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("expanding claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

func (s *support) patchVolume(ctx context.Context, name string, capacity corev1.ResourceList) error {
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"capacity": capacity}})
	if err != nil {
		return fmt.Errorf("encoding the capacity of volume %s: %w", name, err)
	}
	if _, err := s.client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("expanding volume %s: %w", name, err)
	}
	return nil
}

// reconcileVolume removes a volume that its claim has left, if its policy says so.
func (s *support) reconcileVolume(ctx context.Context, name string) error {
	volume, err := s.factory.Core().V1().PersistentVolumes().Lister().Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading volume %s: %w", name, err)
	}
	if volume.Annotations[provisionedByAnnotation] != volumeDriver || volume.DeletionTimestamp != nil ||
		volume.Status.Phase != corev1.VolumeReleased || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	err = s.client.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &volume.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting volume %s: %w", name, err)
	}
	return nil
}
