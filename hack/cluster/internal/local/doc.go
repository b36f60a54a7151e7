// Package local runs a Kubernetes on this machine: the processes, their files and their order.
//
// A cluster is a folder. Everything it needs is in there or in the cache of binaries, its processes listen on
// free ports of the loopback address, and none of it needs root; so clusters run side by side.
package local
