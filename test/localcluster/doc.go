// Package localcluster starts the local Kubernetes and the product's processes on it, for the demo, the
// benchmark and the integration tests alike. It installs the CRDs and roles as they are shipped and lets
// every component act as its own ServiceAccount.
//
// It needs bin/cluster and the components' binaries: `make build`.
package localcluster
