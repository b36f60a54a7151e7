package pub

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// UpdatePriorityStrategy says which Pods are updated first. At most one of its lists may be given.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.orderPriority) && size(self.orderPriority) > 0 && has(self.weightPriority) && size(self.weightPriority) > 0)",message="only one of orderPriority and weightPriority may be given"
type UpdatePriorityStrategy struct {
	// OrderPriority orders Pods by the number at the end of a label's value, larger first. The first key of the list
	// that a Pod has as a label counts; Pods with none of the keys come before all others.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	OrderPriority []UpdatePriorityOrderTerm `json:"orderPriority,omitempty"`
	// WeightPriority orders Pods by the sum of the weights of the terms that match, larger first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	WeightPriority []UpdatePriorityWeightTerm `json:"weightPriority,omitempty"`
}

// UpdatePriorityOrderTerm names a label.
type UpdatePriorityOrderTerm struct {
	// OrderedKey is the label's key.
	// +kubebuilder:validation:MinLength=1
	OrderedKey string `json:"orderedKey"`
}

// UpdatePriorityWeightTerm gives a weight to the Pods that a selector matches.
type UpdatePriorityWeightTerm struct {
	// Weight is 0 to 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`
	// MatchSelector selects Pods by label. It must not be empty.
	MatchSelector metav1.LabelSelector `json:"matchSelector"`
}
