package conversion

import (
	"maps"
	"slices"
)

const (
	excludePreparingDeleteLabel = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"

	rollingUpdateType = "RollingUpdate"
	onDeleteType      = "OnDelete"
	reCreateType      = "ReCreate"
)

// cloneSetSpec is also what is looked at in the CloneSet template of a UnitedDeployment.
func cloneSetSpec() reach { return whole("scaleStrategy", "updateStrategy") }

// flatMembers are directly under updateStrategy in v1alpha1 and under updateStrategy.rollingUpdate in v1beta1.
func flatMembers() []string {
	return []string{
		"inPlaceUpdateStrategy", "maxSurge", "maxUnavailable", "partition", "paused", "priorityStrategy", "scatterStrategy",
	}
}

// isPolicy tells whether a v1alpha1 type stands for RollingUpdate with this way to update a Pod.
func isPolicy(t any) bool {
	return t == reCreateType || t == "InPlaceIfPossible" || t == "InPlaceOnly"
}

func cloneSetUp(obj, carried Tree) Tree {
	spec := own(obj, "spec")
	if spec == nil {
		return nil
	}
	if usable(spec, "scaleStrategy") {
		scale := fork(child(spec, "scaleStrategy"))
		reuseUp(scale)
		if v, ok := scale["excludePreparingDelete"].(bool); ok && v {
			delete(scale, "excludePreparingDelete")
		}
		if text(child(obj, "metadata", "labels"), excludePreparingDeleteLabel) == "true" {
			scale["excludePreparingDelete"] = true
		}
		setChild(spec, "scaleStrategy", scale)
	}
	if usable(spec, "updateStrategy") {
		_, present := spec["updateStrategy"]
		strategy := fork(child(spec, "updateStrategy"))
		strategyUp(strategy, child(carried, "updateStrategy"))
		preDownloadUp(child(obj, "metadata", "annotations"), strategy)
		if spec["updateStrategy"] = strategy; len(strategy) == 0 && !present {
			delete(spec, "updateStrategy")
		}
	}
	return nil
}

func cloneSetDown(obj, _ Tree) Tree {
	spec := own(obj, "spec")
	if spec == nil {
		return nil
	}
	if usable(spec, "scaleStrategy") {
		scale := fork(child(spec, "scaleStrategy"))
		reuseDown(scale)
		excludeDown(obj, scale)
		setChild(spec, "scaleStrategy", scale)
	}
	if !usable(spec, "updateStrategy") {
		return nil
	}
	_, present := spec["updateStrategy"]
	strategy := fork(child(spec, "updateStrategy"))
	emptied := preDownloadDown(obj, strategy)
	carry := strategyDown(strategy)
	if spec["updateStrategy"] = strategy; len(strategy) == 0 && (emptied || !present) {
		delete(spec, "updateStrategy")
	}
	if len(carry) == 0 {
		return nil
	}
	return Tree{"updateStrategy": carry}
}

// reuseUp turns the negative flag of v1alpha1 into the positive one. Its false is what an absent one means, and is left
// out. A flag that is no bool stays, as if absent.
func reuseUp(scale Tree) {
	disabled := takeFlag(scale, "disablePVCReuse")
	takeFlag(scale, "enablePVCReuse")
	if !disabled {
		scale["enablePVCReuse"] = true
	}
}

func reuseDown(scale Tree) {
	enabled := takeFlag(scale, "enablePVCReuse")
	takeFlag(scale, "disablePVCReuse")
	if !enabled {
		scale["disablePVCReuse"] = true
	}
}

// takeFlag removes a member if it is a bool, and returns its value.
func takeFlag(t Tree, key string) bool {
	v, ok := t[key].(bool)
	if ok {
		delete(t, key)
	}
	return v
}

func excludeDown(obj, scale Tree) {
	if takeFlag(scale, "excludePreparingDelete") {
		setMetadata(obj, "labels", excludePreparingDeleteLabel, "true")
	} else if text(child(obj, "metadata", "labels"), excludePreparingDeleteLabel) == "true" {
		setMetadata(obj, "labels", excludePreparingDeleteLabel, "")
	}
}

// strategyUp nests the flat members and splits the type. What was carried counts if it belongs to the present type.
func strategyUp(strategy, carried Tree) {
	if f, ok := carried["for"]; !ok || !equal(f, strategy["type"]) {
		carried = nil
	}
	if child(strategy, "rollingUpdate") != nil {
		// v1alpha1 has no such member: it must not come to life.
		delete(strategy, "rollingUpdate")
	}
	rolling := Tree{}
	for _, k := range flatMembers() {
		moveMember(strategy, rolling, k)
	}
	for _, k := range movable(carried["members"]) {
		moveMember(strategy, rolling, k)
	}
	typeUp(strategy, rolling)
	override(strategy, "type", carried)
	override(rolling, "podUpdatePolicy", carried)
	exists, told := carried["rollingUpdate"].(bool)
	if told && !exists {
		delete(rolling, "podUpdatePolicy")
	}
	if len(rolling) > 0 || exists {
		strategy["rollingUpdate"] = rolling
	}
}

func typeUp(strategy, rolling Tree) {
	switch t := strategy["type"]; {
	case isPolicy(t):
		strategy["type"], rolling["podUpdatePolicy"] = rollingUpdateType, t
	case t == "":
		delete(strategy, "type")
	}
}

// override sets a member to its carried value; null stands for absent.
func override(t Tree, key string, carried Tree) {
	switch v, ok := carried[key]; {
	case ok && v != nil:
		t[key] = v
	case ok:
		delete(t, key)
	}
}

// movable returns the names in a list of members that came from rollingUpdate and have a place beside it.
func movable(list any) []string {
	var names []string
	l, _ := list.([]any)
	for _, v := range l {
		if k, ok := v.(string); ok && !isReserved(k) {
			names = append(names, k)
		}
	}
	return names
}

// isReserved tells whether a name has a meaning of its own directly under updateStrategy.
func isReserved(k string) bool {
	return k == "type" || k == "rollingUpdate" || slices.Contains(flatMembers(), k)
}

// strategyDown flattens, and returns what strategyUp needs to undo it.
func strategyDown(strategy Tree) Tree {
	before := fork(strategy)
	rolling := fork(child(strategy, "rollingUpdate"))
	_, nested := strategy["rollingUpdate"].(Tree)
	if nested {
		delete(strategy, "rollingUpdate")
	}
	for _, k := range flatMembers() {
		// A v1beta1 object can have such a member only without meaning: it must not come to life.
		delete(strategy, k)
		moveMember(rolling, strategy, k)
	}
	var members []any
	for _, k := range slices.Sorted(maps.Keys(rolling)) {
		_, isText := rolling[k].(string)
		if !isReserved(k) && (k != "podUpdatePolicy" || !isText) {
			strategy[k] = rolling[k]
			members = append(members, k)
		}
	}
	typeDown(strategy, text(rolling, "podUpdatePolicy"), nested)
	return strategyCarry(before, strategy, members)
}

func typeDown(strategy Tree, policy string, nested bool) {
	t, present := strategy["type"]
	_, isText := t.(string)
	switch {
	case t == onDeleteType || present && !isText:
	case policy != "":
		strategy["type"] = policy
	case present || nested:
		strategy["type"] = reCreateType
	}
}

// strategyCarry compares with what strategyUp would make of the flat form alone.
func strategyCarry(nested, flat Tree, members []any) Tree {
	carry := Tree{"for": flat["type"]}
	if len(members) > 0 {
		carry["members"] = members
	}
	guess := fork(flat)
	strategyUp(guess, carry)
	t, present := nested["type"]
	if g, ok := guess["type"]; ok != present || !equal(g, t) {
		carry["type"] = t
	}
	_, exists := nested["rollingUpdate"].(Tree)
	policy, isText := child(nested, "rollingUpdate")["podUpdatePolicy"].(string)
	had, hadText := child(guess, "rollingUpdate")["podUpdatePolicy"].(string)
	switch {
	case !exists && hadText:
		carry["rollingUpdate"] = false
	case isText && (!hadText || policy != had):
		carry["podUpdatePolicy"] = policy
	case !isText && hadText:
		carry["podUpdatePolicy"] = nil
	}
	if exists && len(child(nested, "rollingUpdate")) == 0 {
		carry["rollingUpdate"] = true
	}
	if len(carry) == 1 {
		return nil
	}
	return carry
}
