package admission

import "slices"

// ofMetadata are the assignments of labels and annotations, each of one value: what else is in the map is not said.
func ofMetadata(list []assignment) []assignment {
	var out []assignment
	for _, a := range list {
		if len(a.path) > 0 && a.path[0] == "metadata" {
			out = append(out, leaves(a)...)
		}
	}
	return out
}

func leaves(a assignment) []assignment {
	members, ok := a.value.(map[string]any)
	if !ok {
		return []assignment{a}
	}
	var out []assignment
	for _, name := range sortedNames(members) {
		out = append(out, leaves(assignment{append(slices.Clone(a.path), name), members[name]})...)
	}
	return out
}
