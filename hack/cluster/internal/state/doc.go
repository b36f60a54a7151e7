// Package state remembers what runs in a cluster's directory: cluster.json.
//
// The file is written before the first process is started and after every further one, so that a command
// that was killed half-way leaves a file from which the next `up` or `down` can end what is left. A process is
// known by its id and its start time: an id that the system has given to another process since is never
// signalled. A lock on the directory keeps two commands from working on one cluster at the same time.
package state
