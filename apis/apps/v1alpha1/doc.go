// Package v1alpha1 holds the API of the workloads as older clients write it. Objects are stored as v1beta1; package
// conversion takes one to the other.
//
// Pod templates, claim templates and templates of workloads are opaque in its schemas.
//
// +k8s:deepcopy-gen=package
// +groupName=apps.kruise.io
package v1alpha1
