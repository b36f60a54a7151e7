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
	list, isList := status["subsetStatuses"].([]any)
	if _, ok := status["subsetStatuses"]; ok && !isList || len(replicas)+len(partitions) == 0 {
		return
	}
	list = slices.Clone(list)
	index := indexByName(list)
	for _, name := range subsetOrder(obj, replicas, partitions) {
		entry := Tree{"name": name}
		i, known := index[name]
		if known {
			present, _ := list[i].(Tree)
			entry = fork(present)
			list[i] = entry
		} else {
			list = append(list, entry)
		}
		setTarget(entry, !known, "replicas", replicas[name])
		setTarget(entry, !known, "partition", partitions[name])
	}
	status["subsetStatuses"] = list
}

// setTarget leaves an entry alone that means the same already; a new one says everything.
func setTarget(entry Tree, isNew bool, key string, v any) {
	if v != nil && (isNew || !equal(target(entry, key), v)) {
		entry[key] = v
	}
}

// target is a number of an entry; an absent one means 0, nil is something else.
func target(entry Tree, key string) any {
	v, ok := entry[key]
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
		entry, _ := v.(Tree)
		name := text(entry, "name")
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
	subsets, _ := child(obj, "spec", "topology")["subsets"].([]any)
	for _, v := range subsets {
		subset, _ := v.(Tree)
		name := text(subset, "name")
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
	list, _ := status["subsetStatuses"].([]any)
	replicas, partitions := Tree{}, Tree{}
	for name, i := range indexByName(list) {
		entry, _ := list[i].(Tree)
		if n := target(entry, "replicas"); n != nil {
			replicas[name] = n
		}
		if n := target(entry, "partition"); n != nil {
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
