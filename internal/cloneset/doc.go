// Package cloneset keeps CloneSets: it creates, deletes and updates their Pods.
//
// A sync gathers a snapshot from the caches, plans without looking at anything else, applies the plan and writes one
// status. Nothing is remembered between two syncs but which writes the caches have yet to show.
package cloneset
