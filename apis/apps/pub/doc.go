// Package pub holds the API names that several kinds share: the Pod lifecycle, in-place update, readiness gates,
// labels and annotations. They are part of the wire format: clients, dashboards and other controllers read and
// write them.
//
// +k8s:deepcopy-gen=package
package pub
