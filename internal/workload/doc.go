// Package workload is what the controllers of workloads with Pods share: the frame of a sync, their metrics and their
// conditions.
package workload
