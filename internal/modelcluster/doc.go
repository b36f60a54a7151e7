// Package modelcluster is a cluster in memory for the tests of workload controllers, and for nothing else: an API server
// whose watch history the controller's caches show up to a point that the test moves, a garbage collector, a scheduler, a
// kubelet and a provisioner that work when the test lets them, and an alarm in place of the controller's queue.
//
// A kind of owner describes itself by a Kind. Cluster is the model; Fixture adds what tests of scenarios ask of it, and
// Simulation what random schedules need. What a test cannot mean, such as an edit of a Pod that does not exist, panics.
package modelcluster
