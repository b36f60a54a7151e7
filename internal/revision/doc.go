// Package revision keeps the history of a workload's Pod template as ControllerRevisions: how a template is encoded and
// hashed, when two revisions mean the same, which one a template belongs to and which ones may go. Everything here is
// pure.
//
// The bytes, hashes and names are those that every implementation of this API writes, so that a workload which
// changes hands keeps its revisions and its Pods.
package revision
