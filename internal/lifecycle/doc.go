// Package lifecycle is the state machine of the Pod lifecycle: when hooks hold a Pod, which state follows which, and the
// keys by which several parties keep a Pod from being ready. Everything here is pure.
package lifecycle
