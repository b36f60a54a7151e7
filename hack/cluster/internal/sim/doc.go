// Package sim describes the simulated nodes: the Node objects, the storage class, and the stages by which kwok
// imitates a kubelet.
//
// kwok picks for each change of a Pod the one stage whose jq expression matches, waits for the stage's delay and sends
// the patch that the stage's template renders. Nearly all of a kubelet's work is one stage (status): it compares
// what the Pod asks for with what its status says, and writes the whole difference at once. README.md lists
// the annotations and image tags by which a test makes the imitation misbehave.
package sim
