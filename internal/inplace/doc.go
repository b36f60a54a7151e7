// Package inplace changes running Pods from one revision of their template to another without recreating them: whether
// that is possible, in which batches containers are changed, and when a change has taken effect.
//
// Everything here is pure. A decision is returned as patches in the order in which they have to be sent; all that has
// to be remembered between two decisions is written on the Pod by them.
package inplace
