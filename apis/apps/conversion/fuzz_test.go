package conversion

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// generator makes objects of both versions: mostly as people write them, with wrong types, nulls, empty members and
// unknown members in between.
type generator struct{ *rand.Rand }

func (g generator) chance(n int) bool { return g.IntN(n) == 0 }

func (g generator) pick(values ...any) any { return values[g.IntN(len(values))] }

// anything is a value that no mapping expects.
func (g generator) anything(depth int) any {
	switch g.IntN(8) {
	case 0:
		return nil
	case 1:
		return json.Number("9007199254740993")
	case 2:
		return g.chance(2)
	case 3:
		return Tree{}
	case 4:
		return []any{}
	case 5:
		if depth > 0 {
			return Tree{"unknown": g.anything(depth - 1), "other": g.anything(depth - 1)}
		}
	case 6:
		if depth > 0 {
			return []any{g.anything(depth - 1)}
		}
	}
	return fmt.Sprint("text", g.IntN(3))
}

// may sets a member in one of two objects, seldom to something of a wrong type.
func (g generator) may(t Tree, name string, value func() any) {
	switch {
	case g.chance(2):
	case g.chance(12):
		t[name] = g.anything(2)
	default:
		t[name] = value()
	}
}

func (g generator) intOrPercent() any {
	return g.pick(json.Number("0"), json.Number("3"), "20%", "33.3%", json.Number("1"))
}

func (g generator) object(kind, version string) Tree {
	metadata := Tree{"name": "x"}
	t := Tree{"apiVersion": group + version, "kind": kind, "metadata": metadata}
	g.may(metadata, "finalizers", func() any { return []any{"a/b"} })
	if g.chance(2) {
		metadata[annotations] = Tree{"note": "yes"}
	}
	if g.chance(2) {
		metadata[labels] = Tree{"app": "web"}
	}
	spec := Tree{"selector": Tree{"matchLabels": Tree{"app": "web"}}}
	t["spec"] = spec
	if g.chance(3) {
		t["futureMember"] = g.anything(2)
		spec["futureMember"] = g.anything(2)
	}
	g.fill(kind, version, t, spec)
	return t
}

func (g generator) fill(kind, version string, t, spec Tree) {
	status := Tree{"observedGeneration": json.Number("3")}
	t["status"] = status
	switch kind {
	case kindCloneSet:
		g.cloneSet(t, spec, version == "v1alpha1")
	case kindStatefulSet:
		g.may(spec, "serviceName", func() any { return "db" })
		if version == "v1beta1" {
			for _, name := range onlyInBeta()["spec"] {
				g.may(spec, name, func() any {
					return g.pick(Tree{"start": json.Number("0")}, []any{json.Number("1"), "3-5"}, Tree{"maxUnavailable": "50%"})
				})
			}
			for _, name := range onlyInBeta()["status"] {
				g.may(status, name, func() any { return g.pick(json.Number("2"), json.Number("0"), []any{Tree{"volumeClaimName": "data"}}) })
			}
		}
	case kindSidecarSet:
		g.sidecarSet(t, spec, version == "v1alpha1")
	case kindAdvancedCronJob:
		template := Tree{}
		g.may(template, "jobTemplate", func() any { return Tree{"spec": g.anything(2)} })
		g.may(template, "broadcastJobTemplate", func() any { return Tree{"spec": g.anything(2)} })
		if version == "v1beta1" {
			g.may(template, imageListPullJobTemplate, func() any { return Tree{"spec": Tree{"images": []any{"a"}}} })
		}
		spec["template"] = template
	case kindUnitedDeployment:
		g.unitedDeployment(t, spec, status, version == "v1alpha1")
	}
}

func (g generator) strategy(flat bool) any {
	u := Tree{}
	members := u
	if !flat {
		members = Tree{}
	}
	for _, name := range []string{"partition", "maxUnavailable", "maxSurge"} {
		g.may(members, name, g.intOrPercent)
	}
	g.may(members, "paused", func() any { return g.chance(2) })
	g.may(members, "scatterStrategy", func() any { return []any{Tree{"key": "k", "value": "v"}} })
	g.may(members, "priorityStrategy", func() any { return Tree{"orderPriority": []any{Tree{"orderedKey": "k"}}} })
	g.may(members, "inPlaceUpdateStrategy", func() any { return g.pick(Tree{"gracePeriodSeconds": json.Number("3")}, Tree{}) })
	if g.chance(6) {
		members["future"] = g.anything(1)
	}
	if flat {
		g.may(u, "type", func() any { return g.pick("ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete", "Blue") })
		return u
	}
	g.may(u, "type", func() any { return g.pick("RollingUpdate", "OnDelete", "Blue") })
	g.may(members, "podUpdatePolicy", func() any { return g.pick("ReCreate", "InPlaceIfPossible", "InPlaceOnly", "Blue") })
	g.may(u, "rollingUpdate", func() any { return members })
	return u
}

func (g generator) cloneSet(t, spec Tree, alpha bool) {
	g.may(spec, "replicas", func() any { return json.Number("3") })
	g.may(spec, "updateStrategy", func() any { return g.strategy(alpha) })
	scale := Tree{}
	g.may(scale, "podsToDelete", func() any { return []any{"a"} })
	if alpha {
		g.may(scale, "disablePVCReuse", func() any { return g.chance(2) })
		if g.chance(3) {
			setMeta(t, labels, excludePreparingDeleteLabel, g.pick("true", "false", "").(string))
		}
		for _, key := range preDownload() {
			if g.chance(4) {
				setMeta(t, annotations, key, g.pick("1", "20%", "x", "").(string))
			}
		}
		g.hostile(t, kindCloneSet)
	} else {
		g.may(scale, "enablePVCReuse", func() any { return g.chance(2) })
		g.may(scale, "excludePreparingDelete", func() any { return g.chance(2) })
		s := child(spec, "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy")
		for member := range preDownload() {
			if s != nil && g.chance(3) {
				s[member] = g.pick(json.Number("2"), json.Number("0"), g.anything(1))
			}
		}
	}
	g.may(spec, "scaleStrategy", func() any { return scale })
}

// hostile adds a carrier that somebody has written by hand.
func (g generator) hostile(t Tree, kind string) {
	if g.chance(5) {
		setMeta(t, annotations, CarrierKey(kind), g.pick("", "no JSON", "[]", "null", TooLarge, `{"spec":5}`, `{"x":{}}`).(string))
	}
}

func (g generator) sidecarSet(t, spec Tree, alpha bool) {
	selector := func() any {
		return g.pick(Tree{}, selectorOf("n1"), Tree{"matchLabels": Tree{"a": "b"}})
	}
	g.may(spec, "namespaceSelector", selector)
	if alpha {
		g.may(spec, "namespace", func() any { return g.pick("n1", "n2") })
	} else {
		g.may(spec, "customVersion", func() any { return g.pick("1", "2") })
	}
	if g.chance(3) {
		setMeta(t, labels, customVersionLabel, g.pick("1", "3", "").(string))
	}
}

func (g generator) unitedDeployment(t, spec, status Tree, alpha bool) {
	spec["topology"] = Tree{"subsets": []any{Tree{"name": "b"}, Tree{"name": "a"}}}
	if g.chance(2) {
		template := Tree{"metadata": Tree{"labels": Tree{"app": "web"}}}
		flat := alpha && g.chance(2)
		child := Tree{}
		g.may(child, "updateStrategy", func() any { return g.strategy(flat) })
		template["spec"] = child
		if g.chance(3) {
			setMeta(template, labels, excludePreparingDeleteLabel, "true")
		}
		spec["template"] = Tree{"cloneSetTemplate": template}
	}
	entries := []any{}
	replicas, partitions := Tree{}, Tree{}
	for _, name := range []string{"a", "b", ""} {
		if g.chance(2) {
			continue
		}
		entry := Tree{}
		if name != "" {
			entry["name"] = name
		}
		g.may(entry, "replicas", func() any { return g.pick(json.Number("2"), json.Number("0")) })
		g.may(entry, "partition", func() any { return g.pick(json.Number("1"), json.Number("0")) })
		g.may(entry, "conditions", func() any { return []any{} })
		entries = append(entries, entry)
		if name != "" {
			replicas[name], partitions[name] = count(entry, "replicas"), count(entry, "partition")
		}
	}
	if len(entries) > 0 {
		status["subsetStatuses"] = entries
	}
	if !alpha {
		g.may(status, "updatedRevision", func() any { return "x-1" })
		return
	}
	// The maps agree with the list, as they do in what controllers write.
	update := Tree{}
	if len(replicas) > 0 {
		status["subsetReplicas"], update["currentPartitions"] = replicas, partitions
	}
	if g.chance(2) {
		update["updatedRevision"] = "x-1"
	}
	if len(entries) > 0 || has(update, "updatedRevision") {
		status["updateStatus"] = update
	}
}

// canonical makes equal what the documentation of the package says is the same.
func canonical(t Tree) Tree {
	out := deepCopy(t).(Tree)
	spec := child(out, "spec")
	zero := func(t Tree, name string, value any) {
		if v, ok := t[name]; ok && reflect.DeepEqual(v, value) {
			delete(t, name)
		}
	}
	switch text(out, "kind") {
	case kindCloneSet:
		if text(out, "apiVersion") == v1beta1 {
			dropMirrors(out)
		}
		canonicalStrategy(out)
		scale := child(spec, "scaleStrategy")
		zero(scale, "disablePVCReuse", false)
		zero(scale, "enablePVCReuse", false)
		zero(scale, "excludePreparingDelete", false)
		dropEmpty(spec, "scaleStrategy")
	case kindUnitedDeployment:
		template := child(spec, "template", "cloneSetTemplate")
		child := child(template, "spec")
		scale, _ := child["scaleStrategy"].(Tree)
		zero(scale, "disablePVCReuse", false)
		dropEmpty(child, "scaleStrategy")
	}
	return out
}

// dropMirrors: on v1beta1 objects the label and the annotations only repeat members, and may or may not be there.
func dropMirrors(t Tree) {
	if v, _ := getMeta(t, labels, excludePreparingDeleteLabel); v == "true" {
		removeMeta(t, labels, excludePreparingDeleteLabel)
	}
	for member, key := range preDownload() {
		if v, ok := getMeta(t, annotations, key); ok {
			if _, parses := parsePreDownload(member, v); parses {
				removeMeta(t, annotations, key)
			}
		}
	}
}

// canonicalStrategy: pre-download members of v1alpha1 have their annotation's meaning, and leave no empty object behind.
func canonicalStrategy(t Tree) {
	u := child(t, "spec", "updateStrategy")
	for _, holder := range []Tree{u, child(u, "rollingUpdate")} {
		s := child(holder, "inPlaceUpdateStrategy")
		for member := range preDownload() {
			if v, ok := s[member].(string); ok {
				if n, parses := parsePreDownload(member, v); parses {
					s[member] = n
				}
			}
		}
		dropEmpty(holder, "inPlaceUpdateStrategy")
	}
	dropEmpty(u, "rollingUpdate")
	dropEmpty(child(t, "spec"), "updateStrategy")
}

const objectsPerKind = 10000

func TestThereAndBackIsTheSameObject(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("FLOTILLA_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d", seed)
	for _, kind := range []string{kindCloneSet, kindStatefulSet, kindSidecarSet, kindBroadcastJob, kindAdvancedCronJob, kindUnitedDeployment} {
		for _, way := range [][2]string{{"v1alpha1", "v1beta1"}, {"v1beta1", "v1alpha1"}} {
			t.Run(kind+" from "+way[0], func(t *testing.T) {
				t.Parallel()
				g := generator{rand.New(rand.NewPCG(seed, 7))}
				for range objectsPerKind {
					thereAndBack(t, g.object(kind, way[0]), group+way[0], group+way[1])
				}
			})
		}
	}
}

func thereAndBack(t *testing.T, x Tree, from, to string) {
	t.Helper()
	before, err := Encode(x)
	require.NoError(t, err)
	y, err := Convert(x, to)
	require.NoError(t, err)
	after, err := Encode(x)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the input is changed")
	again, err := Convert(x, to)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(y, again), "not deterministic")
	back, err := Convert(y, from)
	require.NoError(t, err)
	if diff := cmp.Diff(canonical(x), canonical(back)); diff != "" {
		there, _ := Encode(y)
		t.Fatalf("%s\nbecame %s\nand back (-before +after):\n%s", before, there, diff)
	}
	scramble(back)
	scramble(y)
	after, err = Encode(x)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the result shares something with the input")
}

// scramble changes everything that can be reached.
func scramble(v any) {
	switch t := v.(type) {
	case Tree:
		for k, v := range t {
			scramble(v)
			t[k] = "scrambled"
		}
	case []any:
		for i := range t {
			scramble(t[i])
			t[i] = "scrambled"
		}
	}
}
