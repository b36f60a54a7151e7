package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// SortByPriority returns the Pods by the priority strategy, first first; Pods of equal priority keep their order.
// A nil strategy changes nothing. The list is not changed.
func SortByPriority(strategy *pub.UpdatePriorityStrategy, list []*corev1.Pod) ([]*corev1.Pod, error) {
	if strategy == nil {
		return list, nil
	}
	if len(strategy.WeightPriority) > 0 {
		return sortByWeight(strategy.WeightPriority, list)
	}
	if len(strategy.OrderPriority) > 0 {
		return sortByOrder(strategy.OrderPriority, list), nil
	}
	return list, nil
}

func sortByWeight(terms []pub.UpdatePriorityWeightTerm, list []*corev1.Pod) ([]*corev1.Pod, error) {
	selectors := make([]labels.Selector, len(terms))
	for i := range terms {
		s, err := metav1.LabelSelectorAsSelector(&terms[i].MatchSelector)
		if err != nil {
			return nil, fmt.Errorf("weightPriority[%d].matchSelector: %w", i, err)
		}
		selectors[i] = s
	}
	weights := make(map[*corev1.Pod]int64, len(list))
	for _, p := range list {
		for i, s := range selectors {
			if s.Matches(labels.Set(p.Labels)) {
				weights[p] += int64(terms[i].Weight)
			}
		}
	}
	return stable(list, func(a, b *corev1.Pod) int { return cmp.Compare(weights[b], weights[a]) }), nil
}

// orderKey is where a Pod stands: the place of its first key in the list, -1 without any, and the number at the end of
// that label's value.
type orderKey struct {
	index  int
	number int64
}

func sortByOrder(terms []pub.UpdatePriorityOrderTerm, list []*corev1.Pod) []*corev1.Pod {
	keys := make(map[*corev1.Pod]orderKey, len(list))
	for _, p := range list {
		keys[p] = orderOf(terms, p)
	}
	return stable(list, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(keys[a].index, keys[b].index), cmp.Compare(keys[b].number, keys[a].number))
	})
}

func orderOf(terms []pub.UpdatePriorityOrderTerm, p *corev1.Pod) orderKey {
	for i, t := range terms {
		if value, ok := p.Labels[t.OrderedKey]; ok {
			return orderKey{index: i, number: trailingNumber(value)}
		}
	}
	return orderKey{index: -1}
}

// trailingNumber is the number that the digits at the end of a label's value form; 0 without any. Label values have at
// most 63 characters; a number beyond 64 bits counts as the largest.
func trailingNumber(value string) int64 {
	i := len(value)
	for i > 0 && value[i-1] >= '0' && value[i-1] <= '9' {
		i--
	}
	if i == len(value) {
		return 0
	}
	// ParseInt returns the largest number together with its range error.
	n, _ := strconv.ParseInt(value[i:], 10, 64)
	return n
}

// PreparingFirst returns the Pods with those first that already wait for their update, in stable order.
func PreparingFirst(list []*corev1.Pod) []*corev1.Pod {
	waiting := func(p *corev1.Pod) int {
		if pods.LifecycleState(p) == pub.LifecycleStatePreparingUpdate {
			return 0
		}
		return 1
	}
	return stable(list, func(a, b *corev1.Pod) int { return cmp.Compare(waiting(a), waiting(b)) })
}

func stable(list []*corev1.Pod, compare func(a, b *corev1.Pod) int) []*corev1.Pod {
	out := slices.Clone(list)
	slices.SortStableFunc(out, compare)
	return out
}
