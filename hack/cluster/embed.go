package main

import "embed"

// sources are what the binaries of the control plane and of the simulated nodes are compiled from. They travel in
// the command, so that it works wherever it is copied to. kwok pins other versions of k8s.io than Kubernetes does
// and therefore has its own go.mod, which has another name here: a folder with a go.mod cannot be embedded.
//
//go:embed go.mod go.sum kwok.mod kwok.sum kube/*.go
var sources embed.FS
