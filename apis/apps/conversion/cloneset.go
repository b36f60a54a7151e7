package conversion

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
)

const excludePreparingDeleteLabel = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"

// flatMembers are under updateStrategy in v1alpha1 and under updateStrategy.rollingUpdate in v1beta1.
func flatMembers() []string {
	return []string{"partition", "maxUnavailable", "maxSurge", "paused", "priorityStrategy", "scatterStrategy", "inPlaceUpdateStrategy"}
}

func cloneSetUp(t Tree) {
	reuseUp(t)
	if v, _ := getMeta(t, labels, excludePreparingDeleteLabel); v == "true" {
		if s := ensure(t, "spec", "scaleStrategy"); s != nil {
			s["excludePreparingDelete"] = true
		}
	}
	content := takeCarrier(t, CarrierKey(kindCloneSet), func(c Tree) bool { return child(c, "updateStrategy") != nil && len(c) == 1 })
	if u := child(t, "spec", "updateStrategy"); u != nil {
		strategyUp(u, child(content, "updateStrategy"))
	}
	preDownloadUp(t)
}

func cloneSetDown(t Tree) {
	reuseDown(t)
	exclude, isBool := child(t, "spec", "scaleStrategy")["excludePreparingDelete"].(bool)
	if isBool {
		delete(child(t, "spec", "scaleStrategy"), "excludePreparingDelete")
	}
	if exclude {
		setMeta(t, labels, excludePreparingDeleteLabel, "true")
	} else if v, _ := getMeta(t, labels, excludePreparingDeleteLabel); v == "true" && isReachable(t, "spec", "scaleStrategy") {
		removeMeta(t, labels, excludePreparingDeleteLabel)
	}
	preDownloadDown(t)
	if u := child(t, "spec", "updateStrategy"); u != nil {
		if content := strategyDown(u); content != nil {
			putCarrier(t, CarrierKey(kindCloneSet), Tree{"updateStrategy": content})
		}
	}
	dropEmpty(child(t, "spec"), "scaleStrategy")
}

func dropEmpty(t Tree, name string) {
	if m, ok := t[name].(Tree); ok && len(m) == 0 {
		delete(t, name)
	}
}

func reuseUp(t Tree) {
	s := ensure(t, "spec", "scaleStrategy")
	if s == nil {
		return
	}
	disabled, isBool := s["disablePVCReuse"].(bool)
	if has(s, "disablePVCReuse") && !isBool || has(s, "enablePVCReuse") {
		return
	}
	delete(s, "disablePVCReuse")
	s["enablePVCReuse"] = !disabled
}

func reuseDown(t Tree) {
	s := ensure(t, "spec", "scaleStrategy")
	if s == nil || has(s, "disablePVCReuse") {
		return
	}
	enabled, isBool := s["enablePVCReuse"].(bool)
	if has(s, "enablePVCReuse") && !isBool {
		return
	}
	delete(s, "enablePVCReuse")
	if !enabled {
		s["disablePVCReuse"] = true
	}
}

// strategyUp makes the nested form of the flat one, with the help of what was carried, if it still belongs to it.
func strategyUp(u, carried Tree) {
	if _, isObject := u["rollingUpdate"].(Tree); has(u, "rollingUpdate") && !isObject {
		return
	}
	if carried != nil && !reflect.DeepEqual(carried["for"], typeOf(u)) {
		carried = nil
	}
	rolling, _ := u["rollingUpdate"].(Tree)
	if rolling == nil {
		rolling = Tree{}
	}
	for _, name := range flatMembers() {
		move(u, rolling, name)
	}
	members, _ := carried["members"].([]any)
	for _, m := range members {
		if name, ok := m.(string); ok {
			move(u, rolling, name)
		}
	}
	if t, isText := u["type"].(string); isText {
		typeUp(u, rolling, t)
	}
	override(u, "type", carried)
	override(rolling, "podUpdatePolicy", carried)
	delete(u, "rollingUpdate")
	exists, told := carried["rollingUpdate"].(bool)
	if len(rolling) > 0 || told && exists {
		u["rollingUpdate"] = rolling
	}
}

func typeOf(u Tree) any { return u["type"] }

func typeUp(u, rolling Tree, t string) {
	switch t {
	case "":
		delete(u, "type")
	case "ReCreate", "InPlaceIfPossible", "InPlaceOnly":
		u["type"] = "RollingUpdate"
		if !has(rolling, "podUpdatePolicy") {
			rolling["podUpdatePolicy"] = t
		}
	}
}

// override sets a member to what was carried; null: to absent.
func override(t Tree, name string, carried Tree) {
	v, ok := has2(carried, name)
	switch {
	case !ok:
	case v == nil:
		delete(t, name)
	default:
		t[name] = v
	}
}

// strategyDown makes the flat form of the nested one and returns what has to be carried to undo it; nil for nothing.
func strategyDown(u Tree) Tree {
	rolling, isObject := u["rollingUpdate"].(Tree)
	if has(u, "rollingUpdate") && !isObject {
		return nil
	}
	before, _ := deepCopy(u).(Tree)
	delete(u, "rollingUpdate")
	policy, policyIsText := rolling["podUpdatePolicy"].(string)
	members := []any{}
	for _, name := range sortedKeys(rolling) {
		switch {
		case name == "podUpdatePolicy" && policyIsText:
		case slices.Contains(flatMembers(), name):
			u[name] = rolling[name]
		default:
			u[name] = rolling[name]
			members = append(members, name)
		}
	}
	typeDown(u, policy)
	return toCarry(before, u, members)
}

func typeDown(u Tree, policy string) {
	t, isText := u["type"].(string)
	switch {
	case has(u, "type") && !isText:
	case t == "OnDelete":
	case policy != "":
		u["type"] = policy
	case t == "RollingUpdate" || has(u, "type") && t == "":
		// Without a type both forms mean ReCreate, and so nothing has to be said.
		u["type"] = "ReCreate"
	}
}

// toCarry compares the nested form with what the flat one would become.
func toCarry(nested, flat Tree, members []any) Tree {
	guess, _ := deepCopy(flat).(Tree)
	content := Tree{"for": typeOf(flat)}
	if len(members) > 0 {
		content["members"] = members
	}
	strategyUp(guess, content)
	difference(content, "type", nested, guess)
	difference(content, "podUpdatePolicy", child(nested, "rollingUpdate"), child(guess, "rollingUpdate"))
	_, was := nested["rollingUpdate"]
	withPolicy, _ := deepCopy(flat).(Tree)
	strategyUp(withPolicy, content)
	if _, is := withPolicy["rollingUpdate"]; was != is {
		content["rollingUpdate"] = was
	}
	if len(content) == 1 {
		return nil
	}
	return content
}

func difference(content Tree, name string, wanted, got Tree) {
	v, wantedThere := has2(wanted, name)
	w, gotThere := has2(got, name)
	switch {
	case wantedThere == gotThere && reflect.DeepEqual(v, w):
	case wantedThere:
		content[name] = v
	default:
		content[name] = nil
	}
}

// preDownload are the members of inPlaceUpdateStrategy that v1alpha1 has as annotations.
func preDownload() map[string]string {
	return map[string]string{
		"imagePreDownloadParallelism":         "apps.kruise.io/image-predownload-parallelism",
		"imagePreDownloadTimeoutSeconds":      "apps.kruise.io/image-predownload-timeout-seconds",
		"imagePreDownloadMinUpdatedReadyPods": "apps.kruise.io/image-predownload-min-updated-ready-pods",
	}
}

// parsePreDownload is the member that an annotation stands for; false if it stands for none.
func parsePreDownload(member, value string) (any, bool) {
	if n, err := strconv.ParseInt(value, 10, 32); err == nil {
		return json.Number(strconv.FormatInt(n, 10)), true
	}
	if member == "imagePreDownloadParallelism" && value != "" {
		return value, true
	}
	return nil, false
}

func preDownloadUp(t Tree) {
	for member, key := range preDownload() {
		value, ok := getMeta(t, annotations, key)
		if !ok {
			continue
		}
		if v, ok := parsePreDownload(member, value); ok {
			if s := ensure(t, "spec", "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy"); s != nil {
				s[member] = v
			}
		}
	}
}

func preDownloadDown(t Tree) {
	if !isReachable(t, "spec", "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy") {
		return
	}
	rolling := child(t, "spec", "updateStrategy", "rollingUpdate")
	s := child(rolling, "inPlaceUpdateStrategy")
	moved := false
	for member, key := range preDownload() {
		value, isNumber := "", false
		switch v := s[member].(type) {
		case json.Number:
			value, isNumber = v.String(), true
		case string:
			value = v
		}
		// A number that would come back as something else stays.
		if v, ok := parsePreDownload(member, value); ok && (!isNumber || v == s[member]) {
			setMeta(t, annotations, key, value)
			delete(s, member)
			moved = true
			continue
		}
		if present, ok := getMeta(t, annotations, key); ok && !has(s, member) {
			if _, parses := parsePreDownload(member, present); parses {
				removeMeta(t, annotations, key)
			}
		}
	}
	if !moved {
		return
	}
	// What held nothing else came from the annotations, or will.
	dropEmpty(rolling, "inPlaceUpdateStrategy")
	dropEmpty(child(t, "spec", "updateStrategy"), "rollingUpdate")
	dropEmpty(child(t, "spec"), "updateStrategy")
}

// isReachable says whether nothing but objects is in the way to the path.
func isReachable(t Tree, path ...string) bool {
	for _, name := range path {
		v, there := t[name]
		if !there {
			return true
		}
		object, ok := v.(Tree)
		if !ok {
			return false
		}
		t = object
	}
	return true
}

func sortedKeys(t Tree) []string {
	keys := make([]string, 0, len(t))
	for k := range t {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
