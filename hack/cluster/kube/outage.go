package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	notReadyAnnotation = annotationPrefix + "not-ready"
	// outageHolder holds the lease of a node that is down. The simulator leaves a node alone, with all its Pods,
	// while another one holds its lease.
	outageHolder = "outage"
	outageReason = "SimulatedOutage"
	leaseSeconds = 40
	renewEvery   = 10 * time.Second
	settle       = 300 * time.Millisecond
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
	down := node.Annotations[notReadyAnnotation] == "true"
	if !down && readyReason(node) != outageReason {
		return nil
	}
	leases := s.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the lease of node %s: %w", name, err)
	}
	taken := hold(lease, down, metav1.NowMicro())
	if taken {
		if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing the lease of node %s: %w", name, err)
		}
	}
	if !down {
		return nil
	}
	if err := s.markDown(ctx, node); err != nil {
		return err
	}
	if taken {
		// The simulator would make the Pods ready again before it sees that it lost the lease.
		s.queue.AddAfter(key, settle)
		return nil
	}
	s.queue.AddAfter(key, renewEvery)
	return s.markPods(ctx, name)
}

// hold takes the lease for the outage or gives it back, and says whether that changes it.
func hold(lease *coordinationv1.Lease, down bool, now metav1.MicroTime) bool {
	ours := ptr.Deref(lease.Spec.HolderIdentity, "") == outageHolder
	if !down {
		lease.Spec.HolderIdentity = nil
		return ours
	}
	if ours && now.Sub(lease.Spec.RenewTime.Time) < renewEvery/2 {
		return false
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = ptr.To(outageHolder), ptr.To(int32(leaseSeconds)), &now
	return true
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
	if readyReason(node) == outageReason {
		return nil
	}
	now := metav1.Now()
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: outageReason, Message: "told to fail by an annotation",
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
