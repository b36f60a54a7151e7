package conversion

import (
	"encoding/json"
	"maps"
	"slices"
)

// subsetsUp moves what v1alpha1 says in maps into the list of subsets. An entry that agrees is left as it is; a missing
// one is appended, in the order of the topology, then by name.
func subsetsUp(obj Tree) {
	status := own(obj, "status")
	if status == nil {
		return
	}
	partitions := Tree{}
	if text(status, "updatedRevision") != "" {
		// v1alpha1 has no such member: it must not come to life.
		delete(status, "updatedRevision")
	}
	if update := own(status, "updateStatus"); len(update) > 0 {
		if text(update, "updatedRevision") != "" {
			moveMember(update, status, "updatedRevision")
		}
		partitions = takeNumbers(update, "currentPartitions")
		setChild(status, "updateStatus", update)
	}
	replicas := takeNumbers(status, "subsetReplicas")
	if v, ok := status["subsetStatuses"]; ok && !isSomeList(v) || len(replicas)+len(partitions) == 0 {
		return
	}
	list, isChanged := slices.Collect(elements(status["subsetStatuses"])), false
	index := indexByName(list)
	for _, name := range subsetOrder(obj, replicas, partitions) {
		i, known := index[name]
		if !known {
			i, list = len(list), append(list, Tree{"name": name})
		}
		subset := subsetEntry(list[i])
		if setTargets(subset, !known, replicas[name], partitions[name]) {
			isChanged = true
			list[i] = subset
		}
	}
	if isChanged {
		status["subsetStatuses"] = list
	}
}

// subsetEntry is an element of the list that may be changed.
func subsetEntry(element any) Tree { return fork(entry(element, "name", "replicas", "partition")) }

// setTargets leaves an entry alone that means the same already; a new one says everything.
func setTargets(subset Tree, isNew bool, replicas, partition any) (isChanged bool) {
	for key, v := range map[string]any{"replicas": replicas, "partition": partition} {
		if v != nil && (isNew || !equal(target(subset, key), v)) {
			subset[key] = v
			isChanged = true
		}
	}
	return isChanged
}

// target is a number of an entry; an absent one means 0, nil is something else.
func target(subset Tree, key string) any {
	v, ok := subset[key]
	if !ok {
		return json.Number("0")
	}
	n, ok := v.(json.Number)
	if !ok {
		return nil
	}
	return n
}

// takeNumbers takes the numbers out of a map, and the map if nothing is left.
func takeNumbers(t Tree, key string) Tree {
	numbers := Tree{}
	values := own(t, key)
	for k, v := range values {
		if _, ok := v.(json.Number); ok && k != "" {
			numbers[k] = v
			delete(values, k)
		}
	}
	if len(numbers) > 0 {
		setChild(t, key, values)
	}
	return numbers
}

// indexByName finds the first entry of each name.
func indexByName(list []any) map[string]int {
	index := make(map[string]int, len(list))
	for i, v := range list {
		name := text(entry(v, "name"), "name")
		if _, ok := index[name]; !ok && name != "" {
			index[name] = i
		}
	}
	return index
}

func subsetOrder(obj, replicas, partitions Tree) []string {
	all := fork(replicas)
	maps.Copy(all, partitions)
	order := make([]string, 0, len(all))
	for v := range elements(child(obj, "spec", "topology")["subsets"]) {
		name := text(entry(v, "name"), "name")
		if _, ok := all[name]; ok {
			order = append(order, name)
			delete(all, name)
		}
	}
	return append(order, slices.Sorted(maps.Keys(all))...)
}

// subsetsDown shows the named subsets as maps as well.
func subsetsDown(obj Tree) {
	status := own(obj, "status")
	if status == nil {
		return
	}
	replicas, partitions, seen := Tree{}, Tree{}, map[string]bool{}
	for v := range elements(status["subsetStatuses"]) {
		subset := entry(v, "name", "replicas", "partition")
		name := text(subset, "name")
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		if n := target(subset, "replicas"); n != nil {
			replicas[name] = n
		}
		if n := target(subset, "partition"); n != nil {
			partitions[name] = n
		}
	}
	putNumbers(status, "subsetReplicas", replicas)
	if !usable(status, "updateStatus") {
		return
	}
	update := fork(child(status, "updateStatus"))
	emptyBefore := len(update) == 0
	if text(update, "updatedRevision") != "" {
		delete(update, "updatedRevision")
	}
	if text(status, "updatedRevision") != "" {
		moveMember(status, update, "updatedRevision")
	}
	putNumbers(update, "currentPartitions", partitions)
	if len(update) > 0 || !emptyBefore {
		setChild(status, "updateStatus", update)
	}
}

// putNumbers replaces the numbers in a map. What is no number stays, and so does what is no map.
func putNumbers(t Tree, key string, numbers Tree) {
	if !usable(t, key) {
		return
	}
	emptyBefore := len(child(t, key)) == 0
	takeNumbers(t, key)
	values := fork(child(t, key))
	maps.Copy(values, numbers)
	if len(values) > 0 || !emptyBefore {
		setChild(t, key, values)
	}
}
