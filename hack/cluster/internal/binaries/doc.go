// Package binaries compiles the local cluster's programs once and keeps them in the user's cache.
//
// A set of binaries lives in a folder named by a hash of everything that determines its content: the sources,
// go.sum, the compiler and the platform. Two commands that need the same set at the same time compile it once.
package binaries
