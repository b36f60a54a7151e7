// Package kube holds what controllers need of Kubernetes beside client-go: reading one's own writes, a keyed work loop,
// bounded parallel effects, and caches that hold no more than is read.
package kube
