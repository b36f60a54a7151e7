package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	notReadyAnnotation = annotationPrefix + "not-ready"
	// nodeLabel is by what the simulator knows its nodes. One that loses the value is left alone with all its Pods:
	// its lease runs out, its Pods neither start nor change nor end.
	nodeLabel     = annotationPrefix + "node"
	labelUp       = "true"
	labelDown     = "down"
	outageReason  = "SimulatedOutage"
	outageMessage = "told to fail by an annotation"
	// settle is how long the simulator may take to see that it lost a node. It would repair what is marked before.
	settle  = 500 * time.Millisecond
	recheck = 10 * time.Second
)

// reconcileNode lets a node fail while its annotation asks for that, and gives it back to the simulator afterwards.
func (s *support) reconcileNode(ctx context.Context, key, name string) error {
	node, err := s.factory.Core().V1().Nodes().Lister().Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	switch down := node.Annotations[notReadyAnnotation] == "true"; {
	case down && node.Labels[nodeLabel] == labelUp:
		return s.label(ctx, name, labelDown)
	case !down && node.Labels[nodeLabel] == labelDown:
		return s.label(ctx, name, labelUp)
	case !down || node.Labels[nodeLabel] != labelDown:
		return nil
	}
	if readyReason(node) != outageReason {
		if err := s.markDown(ctx, node); err != nil {
			return err
		}
		s.queue.AddAfter(key, settle)
		return nil
	}
	s.queue.AddAfter(key, recheck)
	return s.markPods(ctx, name)
}

func (s *support) label(ctx context.Context, node, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, nodeLabel, value)
	if _, err := s.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("labelling node %s: %w", node, err)
	}
	return nil
}

func readyReason(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Reason
		}
	}
	return ""
}

func (s *support) markDown(ctx context.Context, node *corev1.Node) error {
	now := metav1.Now()
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: outageReason, Message: outageMessage,
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}}})
	if err != nil {
		return fmt.Errorf("encoding the status of node %s: %w", node.Name, err)
	}
	if _, err := s.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, raw, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("marking node %s: %w", node.Name, err)
	}
	return nil
}

// markPods does what the node controller does for a node that has gone silent, without the time that it waits first.
func (s *support) markPods(ctx context.Context, node string) error {
	pods, err := s.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return fmt.Errorf("listing the Pods of node %s: %w", node, err)
	}
	for _, pod := range pods.Items {
		if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			continue
		}
		raw, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pod.UID},
			"status": map[string]any{"conditions": []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now(),
			}}},
		})
		if err != nil {
			return fmt.Errorf("encoding the status of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		_, err = s.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, raw, metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("marking Pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}
