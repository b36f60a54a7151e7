// Package app is the shell of every process: flags, logging, clients, health, metrics, leader election, signals. It is
// the only place that reads flags and the environment.
//
// Order at the start: flags are checked; logging and clients are built; the servers for health, metrics and profiles
// listen; the component is built and its caches fill, which makes the process ready; when it leads it works. Order at
// the end: no new work begins; what has begun is finished; the lease is given back, so that another replica goes on at
// once; the servers close.
package app
