package main

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// grown is a CloneSet that is about so large as JSON. Like most large objects it is large by what its containers are told.
func grown(name, namespace string, size int) *v1beta1.CloneSet {
	set := &v1beta1.CloneSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "CloneSet"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("b6e0e2f4-6a50-4f39-9e2b-7f1f6f1f0c11"), Labels: map[string]string{"app": "web"}},
	}
	set.Spec.Replicas = ptr.To(int32(0))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{
		PodUpdatePolicy: v1beta1.InPlaceIfPossibleCloneSetPodUpdatePolicyType, Partition: ptr.To(intstr.FromString("20%")),
	}
	// An entry has 110 bytes, a container 25 of them.
	const entry, perContainer = 110, 25
	for i := range max(1, size/entry) {
		if i%perContainer == 0 {
			set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers, corev1.Container{
				Name: fmt.Sprint("c", i/perContainer), Image: imageA,
			})
		}
		c := &set.Spec.Template.Spec.Containers[i/perContainer]
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%04d", i), Value: "https://service.namespace.svc.cluster.local:8443/some/path?of=usual&length=yes"})
	}
	return set
}

// grownText is grown as the API server sends it.
func grownText(name, namespace string, size int, change func(*v1beta1.CloneSet)) (json.RawMessage, error) {
	set := grown(name, namespace, size)
	if change != nil {
		change(set)
	}
	raw, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encoding a CloneSet: %w", err)
	}
	return raw, nil
}

// conversionReview asks for v1alpha1 of objects of v1beta1.
func conversionReview(objects []json.RawMessage) ([]byte, error) {
	return encode(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
		"request": map[string]any{"uid": "bench", "desiredAPIVersion": "apps.kruise.io/v1alpha1", "objects": objects},
	})
}

// admissionReview is about one object of v1beta1; with an old one it is an update.
func admissionReview(kind, resource string, object, old json.RawMessage) ([]byte, error) {
	operation := "CREATE"
	if old != nil {
		operation = "UPDATE"
	}
	return encode(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": map[string]any{
			"uid": "bench", "operation": operation, "name": "web", "namespace": benchNamespace, "object": object, "oldObject": old,
			"kind":     map[string]string{"group": "apps.kruise.io", "version": "v1beta1", "kind": kind},
			"resource": map[string]string{"group": "apps.kruise.io", "version": "v1beta1", "resource": resource},
		},
	})
}

func encode(review map[string]any) ([]byte, error) {
	raw, err := json.Marshal(review)
	if err != nil {
		return nil, fmt.Errorf("encoding a review: %w", err)
	}
	return raw, nil
}
