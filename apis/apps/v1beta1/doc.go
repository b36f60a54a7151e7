// Package v1beta1 holds the API of the workloads as it is stored: the hub of conversion.
//
// +k8s:deepcopy-gen=package
// +k8s:defaulter-gen=TypeMeta
// +groupName=apps.kruise.io
package v1beta1
