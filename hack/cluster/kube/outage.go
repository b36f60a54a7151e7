package main

import (
	"context"
	"encoding/json"
	"fmt"
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
	if hold(lease, down, metav1.NowMicro()) {
		if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing the lease of node %s: %w", name, err)
		}
	}
	if !down {
		return nil
	}
	s.queue.AddAfter(key, renewEvery)
	return s.markDown(ctx, node)
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
