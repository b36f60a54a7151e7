// Package statefulset keeps the Pods of Advanced StatefulSets: Pods of stable identity, numbered by ordinals of which some
// can be reserved.
package statefulset
