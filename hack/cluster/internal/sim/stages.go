package sim

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"

	"sigs.k8s.io/yaml"
)

//go:embed stages
var files embed.FS

type object = map[string]any

// Weights order the stages: when several match, kwok draws one by weight. A weight of 0 is drawn only when nothing
// else matches, and first wins against second but for one time in a billion.
const (
	first  = 1_000_000_000
	second = 1
	last   = 0
)

// stage is one rule of the simulator.
type stage struct {
	name, kind string
	weight     int
	// when are jq expressions that all have to give true, the cheap ones first.
	when []string
	// delay and jitter are jq expressions that give a duration or a point in time; the pause is drawn between the two.
	delay, jitter string
	// patch is the template of a patch of the status subresource; there is none without it.
	patch  string
	remove bool
}

const (
	alive = `.metadata.deletionTimestamp == null and .status.phase != "Succeeded" and .status.phase != "Failed"`
	// terminationDelay ends at the latest when the grace period does, which is what deletionTimestamp says.
	terminationDelay = `note("termination-delay") as $delay | (.metadata.deletionTimestamp | fromdateiso8601) as $latest
| if $delay == "" then "50ms"
  else [$latest, $latest - (.metadata.deletionGracePeriodSeconds // 0) + ($delay | seconds(0))] | min | todate end`
	terminationJitter = `if note("termination-delay") == "" then "150ms" else "" end`
	startDelay        = `work as $work | known as $known
| if $work == "start" and note("start-delay") != "" then note("start-delay") | seconds(0) | milliseconds
  elif $work == "start" then "200ms"
  elif $work == "crash" then [$known[] | select(backs_off) | (.lastState.terminated.finishedAt | fromdateiso8601) + ([pow(2; .restartCount), 10] | min)] | max | todate
  elif $work == "resize" then "100ms"
  else "0s" end`
	startJitter = `if note("start-delay") == "" and work == "start" then "600ms" else "" end`
	exitDelay   = `note("exit-after") as $after | [exiting[] | .state.running.startedAt | fromdateiso8601] | max + ($after | seconds(1)) | todate`
)

func stages() []stage {
	return []stage{
		{name: "status", kind: "Pod", weight: first, when: []string{alive, `work != ""`}, delay: startDelay, jitter: startJitter, patch: pod("status.tmpl")},
		{name: "exit", kind: "Pod", weight: second, when: []string{alive, `exiting != []`}, delay: exitDelay, patch: pod("exit.tmpl")},
		{name: "pull-backoff", kind: "Pod", weight: second, when: []string{alive,
			`any(known[]; .state.waiting.reason == "ErrImagePull")`}, delay: `"1s"`, patch: pod("backoff.tmpl")},
		// Without a grace period the server removes the Pod itself, and a late delete could meet the next Pod of that name.
		{name: "delete", kind: "Pod", weight: first, when: []string{
			`.metadata.deletionTimestamp != null`, `(.metadata.finalizers // []) == []`, `(.metadata.deletionGracePeriodSeconds // 0) > 0`},
			delay: terminationDelay, jitter: terminationJitter, remove: true},
		// Finalizers keep the Pod; its containers end all the same, and the server removes it with the last finalizer.
		{name: "terminate", kind: "Pod", weight: first, when: []string{
			`.metadata.deletionTimestamp != null`, `(.metadata.finalizers // []) != []`,
			`(.metadata.deletionGracePeriodSeconds // 0) > 0 or any(known[]; .state.terminated == null)`},
			delay: terminationDelay, jitter: terminationJitter, patch: pod("terminate.tmpl"), remove: true},
		// kwok plays a delayed stage although the Pod has changed since, unless another stage takes its place.
		{name: "idle", kind: "Pod", weight: last},
		{name: "node-ready", kind: "Node", weight: first, when: []string{`condition("Ready").status != "True"`}, patch: read("node.tmpl")},
	}
}

func read(name string) string {
	raw, err := files.ReadFile("stages/" + name)
	if err != nil {
		panic(fmt.Sprintf("embedded file: %v", err))
	}
	return string(raw)
}

func pod(name string) string { return read("prelude.tmpl") + read(name) + read("epilogue.tmpl") }

// object is the Stage as kwok reads it.
func (s stage) object() object {
	prelude := read("prelude.jq")
	expressions := []object{}
	for _, e := range s.when {
		expressions = append(expressions, object{"jq": object{"key": prelude + e, "operator": "In", "values": []string{"true"}}})
	}
	spec := object{
		"resourceRef": object{"apiGroup": "v1", "kind": s.kind},
		"selector":    object{"matchExpressions": expressions},
		"weight":      s.weight,
	}
	delay := object{}
	if s.delay != "" {
		delay["durationFrom"] = object{"jq": object{"expression": prelude + s.delay}}
	}
	if s.jitter != "" {
		delay["jitterDurationFrom"] = object{"jq": object{"expression": prelude + s.jitter}}
	}
	if len(delay) > 0 {
		spec["delay"] = delay
	}
	steps := []object{}
	if s.patch != "" {
		steps = append(steps, object{"patch": object{"subresource": "status", "template": s.patch}})
	}
	if s.remove {
		steps = append(steps, object{"delete": true})
	}
	spec["steps"] = steps
	return object{"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": object{"name": s.name}, "spec": spec}
}

// Config is the file that kwok is started with: its options and the stages.
func Config() []byte {
	objects := []object{{
		"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "metadata": object{"name": "kwok"},
		"options": object{
			"manageNodesWithLabelSelector": nodeLabel + "=true",
			"cidr":                         podRange,
			"nodeIP":                       nodeIP(0),
			"podPlayStageParallelism":      64,
			"nodePlayStageParallelism":     8,
			"nodeLeaseDurationSeconds":     40,
			"nodeLeaseParallelism":         8,
			"podsOnNodeSyncParallelism":    4,
		},
	}}
	for _, s := range stages() {
		objects = append(objects, s.object())
	}
	var out []byte
	for _, o := range objects {
		raw, err := yaml.Marshal(o)
		if err != nil {
			panic(fmt.Sprintf("encoding a constant: %v", err))
		}
		out = append(append(out, "---\n"...), raw...)
	}
	return out
}

// Version changes when the simulated nodes behave in another way.
func Version() string {
	sum := sha256.Sum256(append(Config(), fmt.Sprint(Node(0), Storage())...))
	return hex.EncodeToString(sum[:4])
}
