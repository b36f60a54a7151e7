// Package injection holds what is known about SidecarSets wherever they are handled: the hashes of their sidecars, which
// objects their selectors can have in common, and the expressions that compute resources. Everything here is pure.
package injection
