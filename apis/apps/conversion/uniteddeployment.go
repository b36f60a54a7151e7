package conversion

import (
	"encoding/json"
	"reflect"
	"slices"
)

// shapeKey remembers on a v1beta1 object that its CloneSet template was written in the flat form.
const shapeKey = "apps.kruise.io/uniteddeployment-cloneset-shape"

const flatShape = "flat"

func unitedDeploymentUp(t Tree) {
	subsetStatusUp(t)
	if spec := child(t, "spec", "template", "cloneSetTemplate", "spec"); isFlat(spec) {
		childUp(child(t, "spec", "template", "cloneSetTemplate"), spec)
		setMeta(t, annotations, shapeKey, flatShape)
	}
}

func unitedDeploymentDown(t Tree) {
	subsetStatusDown(t)
	if shape, _ := getMeta(t, annotations, shapeKey); shape != flatShape {
		return
	}
	removeMeta(t, annotations, shapeKey)
	if spec := child(t, "spec", "template", "cloneSetTemplate", "spec"); spec != nil {
		childDown(child(t, "spec", "template", "cloneSetTemplate"), spec)
	}
}

// isFlat says whether a CloneSet's spec is in the form of v1alpha1. A spec without anything that tells counts as nested.
func isFlat(spec Tree) bool {
	u := child(spec, "updateStrategy")
	switch text(u, "type") {
	case "ReCreate", "InPlaceIfPossible", "InPlaceOnly":
		return true
	}
	for _, name := range flatMembers() {
		if has(u, name) {
			return true
		}
	}
	return has(child(spec, "scaleStrategy"), "disablePVCReuse")
}

// childUp makes the nested form. Where both forms name a member the nested one wins.
func childUp(template, spec Tree) {
	if u := child(spec, "updateStrategy"); u != nil {
		rolling := child(u, "rollingUpdate")
		for _, name := range append(flatMembers(), "podUpdatePolicy") {
			if has(rolling, name) {
				delete(u, name)
			}
		}
		strategyUp(u, nil)
	}
	holder := Tree{"spec": spec}
	if !has(child(spec, "scaleStrategy"), "enablePVCReuse") {
		reuseUp(holder)
	}
	if v, _ := getMeta(template, labels, excludePreparingDeleteLabel); v == "true" {
		ensure(spec, "scaleStrategy")["excludePreparingDelete"] = true
	}
	for member, key := range preDownload() {
		value, ok := getMeta(template, annotations, key)
		if v, parses := parsePreDownload(member, value); ok && parses {
			if s := ensure(spec, "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy"); s != nil && !has(s, member) {
				s[member] = v
			}
		}
	}
}

// childDown makes the flat form. Members that labels and annotations of the template stand for are left out; others
// without a place in the flat form stay.
func childDown(template, spec Tree) {
	for member, key := range preDownload() {
		value, ok := getMeta(template, annotations, key)
		s := child(spec, "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy")
		if v, parses := parsePreDownload(member, value); ok && parses && reflect.DeepEqual(s[member], v) {
			delete(s, member)
			dropEmpty(child(spec, "updateStrategy", "rollingUpdate"), "inPlaceUpdateStrategy")
			dropEmpty(child(spec, "updateStrategy"), "rollingUpdate")
			dropEmpty(spec, "updateStrategy")
		}
	}
	if v, _ := getMeta(template, labels, excludePreparingDeleteLabel); v == "true" {
		delete(child(spec, "scaleStrategy"), "excludePreparingDelete")
	}
	if u := child(spec, "updateStrategy"); u != nil {
		strategyDown(u)
	}
	reuseDown(Tree{"spec": spec})
	dropEmpty(spec, "scaleStrategy")
}

// subsetStatusDown shows the targets of the subsets as maps as well.
func subsetStatusDown(t Tree) {
	status := child(t, "status")
	if status == nil {
		return
	}
	replicas, partitions := Tree{}, Tree{}
	entries, _ := status["subsetStatuses"].([]any)
	for _, e := range entries {
		entry, _ := e.(Tree)
		if name := text(entry, "name"); name != "" {
			replicas[name], partitions[name] = count(entry, "replicas"), count(entry, "partition")
		}
	}
	revision, isText := status["updatedRevision"].(string)
	if isText {
		delete(status, "updatedRevision")
	}
	if len(replicas) > 0 {
		status["subsetReplicas"] = replicas
	}
	if revision == "" && len(entries) == 0 {
		return
	}
	update := Tree{}
	if revision != "" {
		update["updatedRevision"] = revision
	}
	if len(partitions) > 0 {
		update["currentPartitions"] = partitions
	}
	status["updateStatus"] = update
}

// count is a number of a subset; absent and what is no number count as 0.
func count(entry Tree, name string) json.Number {
	if n, ok := entry[name].(json.Number); ok {
		return n
	}
	return "0"
}

func subsetStatusUp(t Tree) {
	status := child(t, "status")
	update := child(status, "updateStatus")
	if revision := text(update, "updatedRevision"); revision != "" {
		status["updatedRevision"] = revision
	}
	applyTargets(t, child(status, "subsetReplicas"), "replicas")
	applyTargets(t, child(update, "currentPartitions"), "partition")
	if _, isObject := status["updateStatus"].(Tree); isObject {
		delete(status, "updateStatus")
	}
	if _, isObject := status["subsetReplicas"].(Tree); isObject {
		delete(status, "subsetReplicas")
	}
}

// applyTargets sets a number of the subsets that are named; unknown ones are appended in the order of the topology.
func applyTargets(t, targets Tree, name string) {
	status := child(t, "status")
	entries, isList := status["subsetStatuses"].([]any)
	if has(status, "subsetStatuses") && !isList {
		return
	}
	for _, subset := range inTopologyOrder(t, targets) {
		value, isNumber := targets[subset].(json.Number)
		if !isNumber {
			continue
		}
		known, agrees := false, false
		for _, e := range entries {
			if entry, ok := e.(Tree); ok && text(entry, "name") == subset {
				known = true
				agrees = agrees || count(entry, name) == value
			}
		}
		switch {
		case agrees:
		case known:
			setTarget(entries, subset, name, value)
		default:
			entries = append(entries, Tree{"name": subset, name: value})
			status["subsetStatuses"] = entries
		}
	}
}

func setTarget(entries []any, subset, name string, value json.Number) {
	for _, e := range entries {
		if entry, ok := e.(Tree); ok && text(entry, "name") == subset {
			entry[name] = value
		}
	}
}

func inTopologyOrder(t, targets Tree) []string {
	var order []string
	subsets, _ := child(t, "spec", "topology")["subsets"].([]any)
	for _, s := range subsets {
		subset, _ := s.(Tree)
		if name := text(subset, "name"); has(targets, name) && !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range sortedKeys(targets) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	return order
}
