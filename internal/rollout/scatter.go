package rollout

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Term matches the Pods that have a label with a value.
type Term struct{ Key, Value string }

func (t Term) matches(p *corev1.Pod) bool {
	v, ok := p.Labels[t.Key]
	return ok && v == t.Value
}

func (t Term) count(list []*corev1.Pod) int {
	n := 0
	for _, p := range list {
		if t.matches(p) {
			n++
		}
	}
	return n
}

// Scatter returns the candidates with those that match a term spread over the list, in proportion to how all Pods of
// the workload match it. The list is not changed.
func Scatter(terms []Term, candidates, all []*corev1.Pod) []*corev1.Pod {
	if len(terms) > 1 {
		terms = mostMatchingFirst(terms, candidates)
	}
	for _, t := range terms {
		candidates = t.scatter(candidates, all)
	}
	return candidates
}

// mostMatchingFirst drops terms that match no candidate.
func mostMatchingFirst(terms []Term, candidates []*corev1.Pod) []Term {
	var used []Term
	for _, t := range terms {
		if t.count(candidates) > 0 {
			used = append(used, t)
		}
	}
	slices.SortStableFunc(used, func(a, b Term) int { return cmp.Compare(b.count(candidates), a.count(candidates)) })
	return used
}

func (t Term) scatter(candidates, all []*corev1.Pod) []*corev1.Pod {
	var m, n []*corev1.Pod
	for _, p := range candidates {
		if t.matches(p) {
			m = append(m, p)
		} else {
			n = append(n, p)
		}
	}
	if len(m) <= 1 || len(n) <= 1 {
		return candidates
	}
	totalM := t.count(all)
	totalN := len(all) - totalM
	// The last matching one ends the list, so that the rollout also ends with a match.
	last := m[len(m)-1]
	m = m[:len(m)-1]
	totalM--

	k, sizeM, sizeN := groups(len(m), len(n))
	rest := 0
	// The candidates are denser than the whole: then the proportion of the whole is kept at the end of the list.
	if totalN*len(m) < len(n)*totalM {
		_, sizeM, sizeN = groups(totalM, totalN)
		k = min(len(m)/sizeM, len(n)/sizeN)
		rest = len(n) - k*sizeN
	}
	out := make([]*corev1.Pod, 0, len(candidates))
	out, n = take(out, n, rest)
	for range k {
		out, m = take(out, m, sizeM)
		out, n = take(out, n, sizeN)
	}
	out = append(out, m...)
	out = append(out, n...)
	return append(out, last)
}

// groups divides a and b into as many groups as the smaller has members, and says how many of each are in one. Both
// are positive.
func groups(a, b int) (k, sizeA, sizeB int) {
	k = min(a, b)
	share := func(n int) int { return int(math.Round(float64(n) / float64(k))) }
	return k, share(a), share(b)
}

func take(out, from []*corev1.Pod, n int) ([]*corev1.Pod, []*corev1.Pod) {
	n = min(n, len(from))
	return append(out, from[:n]...), from[n:]
}
