// Package rollout holds the arithmetic of rollouts: numbers and percentages, partitions, and the order in which Pods
// are updated. Everything here is pure.
package rollout
