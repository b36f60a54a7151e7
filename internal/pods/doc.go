// Package pods holds predicates on Pods and the orders in which workloads delete and update them. Everything here is
// pure: time is a parameter, and what must be looked up elsewhere is passed in.
package pods
