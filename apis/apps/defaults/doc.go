// Package defaults fills in the fields of Pod templates and claim templates that the API server would fill in when a
// Pod or claim is created. Workloads carry templates that no API server defaults, and the filled-in template is
// what a revision holds; so these defaults never change: another value would be another revision, and a rollout.
//
// The rules are those of core/v1, but for one: the default imagePullPolicy of regular containers is Always whatever
// the image's tag.
package defaults
