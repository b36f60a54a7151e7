package pods

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ranking is what the order of deletion is computed from.
type Ranking struct {
	// MinReadySeconds and Now decide which Pods are available.
	MinReadySeconds int32
	Now             time.Time
	// Constraints are the topologySpreadConstraints of the template.
	Constraints []corev1.TopologySpreadConstraint
	// NodeLabels are the labels of the nodes by name. nil: they could not be read, and Pods are spread by node.
	NodeLabels map[string]map[string]string
}

// candidate is a Pod with everything that comparing it needs, computed once.
type candidate struct {
	pod       *corev1.Pod
	phase     int
	available bool
	ready     bool
	cost      int32
	rank      float64
	readyAt   metav1.Time
	restarts  int32
}

// SortForDeletion returns the Pods in the order in which they are given up, first first. all are the Pods of the
// workload among which density is measured; list is a part of them. Neither is changed.
func (r Ranking) SortForDeletion(list, all []*corev1.Pod) []*corev1.Pod {
	candidates := make([]*candidate, len(all))
	for i, p := range all {
		candidates[i] = r.candidate(p)
	}
	r.rank(candidates)
	wanted := make(map[*corev1.Pod]bool, len(list))
	for _, p := range list {
		wanted[p] = true
	}
	slices.SortFunc(candidates, compareFully)
	out := make([]*corev1.Pod, 0, len(list))
	for _, c := range candidates {
		if wanted[c.pod] {
			out = append(out, c.pod)
		}
	}
	return out
}

func (r Ranking) candidate(p *corev1.Pod) *candidate {
	c := &candidate{
		pod:       p,
		phase:     phaseRank(p.Status.Phase),
		available: IsAvailable(p, r.MinReadySeconds, r.Now),
		cost:      deletionCost(p),
		restarts:  maxRestarts(p),
	}
	if ready := Condition(p, corev1.PodReady); ready != nil && ready.Status == corev1.ConditionTrue {
		c.ready, c.readyAt = true, ready.LastTransitionTime
	}
	return c
}

// rank gives every candidate its crowdedness: by topology where that is wanted and known, by node otherwise.
func (r Ranking) rank(candidates []*candidate) {
	perNode := rankPerNode(candidates)
	if len(r.Constraints) == 0 || r.NodeLabels == nil {
		for i, c := range candidates {
			c.rank = perNode[i]
		}
		return
	}
	sums := make([]float64, len(candidates))
	for _, constraint := range r.Constraints {
		for i, v := range r.rankByTopology(candidates, perNode, constraint.TopologyKey) {
			sums[i] += v
		}
	}
	for i, c := range candidates {
		c.rank = sums[i]
	}
}

// rankPerNode gives the k-th of n Pods of a node (k from 1, in order of deletion) the rank n - k.
func rankPerNode(candidates []*candidate) []float64 {
	ranks := make([]float64, len(candidates))
	for _, group := range groupBy(candidates, func(c *candidate) string { return c.pod.Spec.NodeName }) {
		slices.SortFunc(group, func(a, b int) int { return compareInGroup(candidates[a], candidates[b], 0) })
		for k, i := range group {
			ranks[i] = float64(len(group) - k - 1)
		}
	}
	return ranks
}

// rankByTopology gives the i-th of n Pods of a domain (i from 0) the rank (n - i)·ln(domains + 2).
func (r Ranking) rankByTopology(candidates []*candidate, perNode []float64, key string) []float64 {
	groups := groupBy(candidates, func(c *candidate) string { return r.NodeLabels[c.pod.Spec.NodeName][key] })
	weight := math.Log(float64(len(groups) + 2))
	ranks := make([]float64, len(candidates))
	for _, group := range groups {
		slices.SortFunc(group, func(a, b int) int {
			within := 0
			if key != corev1.LabelHostname {
				within = cmp.Compare(perNode[b], perNode[a])
			}
			return compareInGroup(candidates[a], candidates[b], within)
		})
		for i, at := range group {
			ranks[at] = float64(len(group)-i) * weight
		}
	}
	return ranks
}

// groupBy returns the indices of the candidates by key. Those with an empty key are in no group.
func groupBy(candidates []*candidate, key func(*candidate) string) map[string][]int {
	groups := map[string][]int{}
	for i, c := range candidates {
		if k := key(c); k != "" {
			groups[k] = append(groups[k], i)
		}
	}
	return groups
}

func compareFully(a, b *candidate) int {
	return cmp.Or(
		compareNodeAndPhase(a, b),
		compareBool(a.available, b.available),
		compareBool(a.ready, b.ready),
		cmp.Compare(a.cost, b.cost),
		cmp.Compare(b.rank, a.rank),
		compareAge(a, b),
	)
}

// compareInGroup is compareFully without availability, and with the given result in place of the rank.
func compareInGroup(a, b *candidate, rank int) int {
	return cmp.Or(
		compareNodeAndPhase(a, b),
		compareBool(a.ready, b.ready),
		cmp.Compare(a.cost, b.cost),
		rank,
		compareAge(a, b),
	)
}

// SortForUpdate returns the Pods in the default order of updates, first first. The list is not changed.
func SortForUpdate(list []*corev1.Pod) []*corev1.Pod {
	candidates := make([]*candidate, len(list))
	for i, p := range list {
		candidates[i] = Ranking{}.candidate(p)
	}
	slices.SortFunc(candidates, func(a, b *candidate) int {
		return cmp.Or(compareNodeAndPhase(a, b), compareBool(a.ready, b.ready), compareAge(a, b))
	})
	out := make([]*corev1.Pod, len(candidates))
	for i, c := range candidates {
		out[i] = c.pod
	}
	return out
}

func compareNodeAndPhase(a, b *candidate) int {
	return cmp.Or(
		compareBool(a.pod.Spec.NodeName != "", b.pod.Spec.NodeName != ""),
		cmp.Compare(a.phase, b.phase),
	)
}

// compareAge puts Pods that have proved themselves for less time first.
func compareAge(a, b *candidate) int {
	readyTime := 0
	if a.ready && b.ready {
		readyTime = compareYounger(a.readyAt, b.readyAt)
	}
	return cmp.Or(
		readyTime,
		cmp.Compare(b.restarts, a.restarts),
		compareYounger(a.pod.CreationTimestamp, b.pod.CreationTimestamp),
		strings.Compare(a.pod.Name, b.pod.Name),
	)
}

// compareYounger puts a missing time first, then the later one.
func compareYounger(a, b metav1.Time) int {
	switch {
	case a.Equal(&b):
		return 0
	case a.IsZero():
		return -1
	case b.IsZero():
		return 1
	default:
		return b.Compare(a.Time)
	}
}

// compareBool puts false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func phaseRank(p corev1.PodPhase) int {
	switch p {
	case corev1.PodPending, "":
		return 0
	case corev1.PodUnknown:
		return 1
	default:
		return 2
	}
}

// deletionCost reads the annotation. A leading plus or zero is as invalid as text: then the cost is 0.
func deletionCost(p *corev1.Pod) int32 {
	text := p.Annotations[corev1.PodDeletionCost]
	if text == "" || text[0] == '+' || (text[0] == '0' && text != "0") {
		return 0
	}
	cost, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

func maxRestarts(p *corev1.Pod) int32 {
	var n int32
	for i := range p.Status.ContainerStatuses {
		n = max(n, p.Status.ContainerStatuses[i].RestartCount)
	}
	return n
}
