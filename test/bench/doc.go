// Command bench measures the cost of a CloneSet beside a native Deployment of the same size, on one
// cluster in one run: time until all Pods are Ready, API writes per Pod by verb and subresource, CPU
// seconds and peak memory of the controller's process, writes when idle, and heap per Pod.
//
// Both sides are processes that do nothing else: cloneset-controller, and a kube-controller-manager
// that runs the deployment and replicaset controllers only. Writes are counted from the server's audit
// log by user, so retries and conflicts are in them. Compare the ratios; absolute times on a shared
// machine mean little.
//
// An Advanced StatefulSet is measured in the same way beside a native StatefulSet, and held against what is promised: the
// floors of writes, and no more time and CPU than the native one takes.
package main
