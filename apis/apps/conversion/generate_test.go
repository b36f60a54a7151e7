package conversion

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// generator makes random objects of a kind: about half of them plausible, the others with wrong types, nulls, empty
// containers, unknown members, members of the other version and hand-written carriers.
type generator struct {
	r *rand.Rand
	// wild is the chance in percent that a place gets something else than what belongs there.
	wild int
}

func (g generator) one(n int) bool         { return g.r.IntN(n) == 0 }
func (g generator) pick(values ...any) any { return deepCopy(values[g.r.IntN(len(values))]) }

func (g generator) anything(depth int) any {
	switch n := g.r.IntN(11); {
	case n == 0:
		return nil
	case n == 1:
		return Tree{}
	case n == 2:
		return []any{}
	case n == 3:
		return g.one(2)
	case n == 4:
		return g.pick(json.Number("9007199254740993"), json.Number("0"), json.Number("-7"), json.Number("1.50"), json.Number("1e400"))
	case n == 5:
		return g.pick("", "x", "true", "7", "OnDelete", "ReCreate", "flat", "ä<&>\u2028", "20%", "{}")
	case n == 6 && depth > 0:
		return []any{g.anything(depth - 1), g.anything(depth - 1)}
	case depth > 0:
		return Tree{g.name(): g.anything(depth - 1), g.name(): g.anything(depth - 1)}
	}
	return json.Number("5")
}

// name is one that some mapping knows, or a stranger.
func (g generator) name() string {
	s, _ := g.pick("type", "rollingUpdate", "podUpdatePolicy", "partition", "paused", "inPlaceUpdateStrategy", "enablePVCReuse",
		"disablePVCReuse", "replicas", "name", "future", "a/b~c", "", "ä", "restore", "updateStrategy", "spec").(string)
	return s
}

func (g generator) or(v any) any {
	if g.r.IntN(100) < g.wild {
		return g.anything(2)
	}
	return v
}

// some sets each member with an even chance, and strangers now and then.
func (g generator) some(members map[string]func() any) Tree {
	t := Tree{}
	for _, k := range sortedKeys(members) {
		if g.one(2) {
			t[k] = g.or(members[k]())
		}
	}
	if g.r.IntN(100) < g.wild {
		t[g.name()] = g.anything(2)
	}
	return t
}

func (g generator) of(values ...any) func() any { return func() any { return g.pick(values...) } }

func (g generator) number() any { return json.Number(fmt.Sprint(g.r.IntN(4))) }

func (g generator) quantity() any {
	return g.pick(json.Number("0"), json.Number("3"), "20%", "33.3%", "7", nil)
}

func (g generator) object(kind, version string) Tree {
	obj := Tree{"apiVersion": Group + "/" + version, "kind": kind}
	if !g.one(12) {
		obj["metadata"] = g.metadata(kind)
	}
	specs := map[string]func() any{
		"CloneSet": g.cloneSet, "StatefulSet": g.statefulSet, "SidecarSet": g.sidecarSet, "AdvancedCronJob": g.cronJob,
		"UnitedDeployment": g.united, "BroadcastJob": func() any { return g.anything(3) },
	}
	if !g.one(20) {
		obj["spec"] = g.or(specs[kind]())
	}
	switch {
	case g.one(4):
	case kind == "UnitedDeployment":
		obj["status"] = g.or(g.unitedStatus())
	default:
		obj["status"] = g.or(g.some(map[string]func() any{
			"replicas": g.number, "updatedReadyReplicas": g.number, "updatedAvailableReplicas": g.number,
			"volumeClaims": g.of([]any{Tree{"volumeClaimName": "d"}}, []any{}),
		}))
	}
	if g.one(9) {
		obj["future"] = g.anything(2)
	}
	return obj
}

func (g generator) metadata(kind string) any {
	m := Tree{}
	if !g.one(8) {
		m["name"], m["finalizers"], m["generation"] = "x", []any{"a/b"}, json.Number("9007199254740993")
	}
	if g.one(2) {
		m["labels"] = g.labels()
	}
	if g.one(2) {
		m["annotations"] = g.annotations(kind)
	}
	if g.wild > 0 && g.one(15) {
		m[fmt.Sprint(g.pick("labels", "annotations"))] = g.pick(nil, Tree{}, json.Number("5"), "x", Tree{"k": json.Number("5")})
	}
	return g.or(m)
}

func (g generator) labels() Tree {
	return g.textMap(map[string]func() any{
		"app":                       g.of("web"),
		excludePreparingDeleteLabel: g.of("true", "true", "false", ""),
		customVersionLabel:          g.of("v1", "v2", ""),
	})
}

func (g generator) annotations(kind string) Tree {
	m := map[string]func() any{
		"note":                            g.of("text"),
		CarrierKey("CloneSet", V1beta1):   g.hostile,
		CarrierKey("StatefulSet", "none"): g.hostile,
		shapeAnnotation:                   g.of("flat", "nested", ""),
	}
	for _, p := range preDownloads() {
		m[p.annotation] = g.of("3", "20%", "", "007", "-1", "99999999999", "x")
	}
	if g.wild > 0 {
		m[CarrierKey(kind, V1beta1)] = g.hostile
		m[CarrierKey(kind, V1alpha1)] = g.hostile
	}
	return g.textMap(m)
}

// textMap is a map of strings, as labels and annotations are.
func (g generator) textMap(members map[string]func() any) Tree {
	t := Tree{}
	for _, k := range sortedKeys(members) {
		if g.one(3) {
			t[k] = members[k]()
		}
	}
	return t
}

// hostile is a carrier that somebody wrote by hand.
func (g generator) hostile() any {
	if g.one(3) {
		return g.pick("", "{", "null", "[]", "5", "{}", TooLarge, `{"a":1}{"b":2}`, `"x"`, " {} ")
	}
	c := Tree{
		"updateStrategy": Tree{
			"for": g.pick("OnDelete", "ReCreate", nil), "type": g.anything(1), "podUpdatePolicy": g.anything(1),
			"rollingUpdate": g.anything(1), "members": g.pick([]any{"future", "type", json.Number("5")}, g.anything(1)),
		},
		"spec":   g.pick(g.statefulSet(), Tree{"template": Tree{imageListPullJobTemplate: g.anything(2)}}, g.anything(2)),
		"status": g.anything(2), "namespace": g.anything(1), "label": g.pick("v1", "!", g.anything(1)),
		"customVersion": g.pick("v1", "v2", "", "!"), "namespaceSelector": g.anything(2),
		restoreMember: Tree{
			fmt.Sprint(g.pick("/spec", "/spec/scaleStrategy", "/kind", "/metadata/name", "/metadata", "x", "", "/",
				"/metadata/labels/a", "/spec/template", "/spec/template/future", "/status/replicas", "/metadata/labels/"+"apps.kruise.io~1sidecarset-custom-version", "/status")): g.pick(
				Tree{"to": g.anything(2)}, Tree{"from": g.anything(1), "to": "!!"}, Tree{}, g.anything(1)),
		},
	}
	for _, k := range sortedKeys(c) {
		if !g.one(3) {
			delete(c, k)
		}
	}
	data, err := Encode(c)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (g generator) flatMembers() map[string]func() any {
	return map[string]func() any{
		"partition": g.quantity, "maxUnavailable": g.quantity, "maxSurge": g.quantity,
		"paused": g.of(true, false), "priorityStrategy": g.of(Tree{}, Tree{"weightPriority": []any{Tree{"weight": json.Number("5")}}}),
		"scatterStrategy": g.of([]any{}, []any{Tree{"key": "a", "value": "b"}}),
		"inPlaceUpdateStrategy": func() any {
			return g.some(map[string]func() any{
				"gracePeriodSeconds": g.number, "imagePreDownloadParallelism": g.quantity,
				"imagePreDownloadTimeoutSeconds": g.number, "imagePreDownloadMinUpdatedReadyPods": g.number,
			})
		},
	}
}

func (g generator) strategy() any {
	flat := map[string]func() any{}
	if g.one(2) {
		flat = g.flatMembers()
	}
	flat["type"] = g.of("RollingUpdate", "OnDelete", "ReCreate", "InPlaceIfPossible", "InPlaceOnly", "", "Foo")
	if g.one(2) {
		nested := g.flatMembers()
		nested["podUpdatePolicy"] = g.of("ReCreate", "InPlaceIfPossible", "InPlaceOnly", "", "Foo", "OnDelete")
		flat["rollingUpdate"] = func() any { return g.some(nested) }
	}
	return g.some(flat)
}

func (g generator) cloneSet() any {
	return g.some(map[string]func() any{
		"replicas": g.number, "selector": g.of(Tree{"matchLabels": Tree{"app": "web"}}), "updateStrategy": g.strategy,
		"scaleStrategy": func() any {
			return g.some(map[string]func() any{
				"enablePVCReuse": g.of(true, false), "disablePVCReuse": g.of(true, false),
				"excludePreparingDelete": g.of(true, false), "podsToDelete": g.of([]any{"a"}),
			})
		},
		"template": func() any { return g.anything(3) },
	})
}

func (g generator) statefulSet() any {
	return g.some(map[string]func() any{
		"replicas": g.number, "reserveOrdinals": g.of([]any{json.Number("1"), "3-5"}, []any{}), "lifecycle": g.of(Tree{}, Tree{"preDelete": Tree{}}),
		"scaleStrategy": g.of(Tree{}, Tree{"maxUnavailable": "20%"}), "ordinals": g.of(Tree{"start": json.Number("0")}),
		"persistentVolumeClaimRetentionPolicy": g.of(Tree{"whenDeleted": "Retain"}), "volumeClaimUpdateStrategy": g.of(Tree{"type": "OnDelete"}),
		"updateStrategy": g.strategy,
	})
}

func (g generator) sidecarSet() any {
	return g.some(map[string]func() any{
		"namespace": g.of("ns1", "ns2", ""), "customVersion": g.of("v1", "v2", "", "not a label!"),
		"namespaceSelector": g.of(Tree{"matchLabels": Tree{namespaceLabel: "ns1"}}, Tree{"matchLabels": Tree{"tier": "a"}}, Tree{},
			Tree{"matchExpressions": []any{Tree{"key": namespaceLabel, "operator": "In", "values": []any{"ns1"}}}}),
		"containers": func() any { return g.anything(3) },
	})
}

func (g generator) cronJob() any {
	return g.some(map[string]func() any{
		"schedule": g.of("* * * * *"),
		"template": func() any {
			return g.some(map[string]func() any{
				"jobTemplate": func() any { return g.anything(3) }, "broadcastJobTemplate": func() any { return g.anything(3) },
				imageListPullJobTemplate: g.of(Tree{}, Tree{"spec": Tree{"images": []any{"a"}}}),
			})
		},
	})
}

func (g generator) united() any {
	return g.some(map[string]func() any{
		"topology": g.of(Tree{"subsets": []any{Tree{"name": "z"}, Tree{"name": "a"}}}),
		"template": func() any {
			return g.some(map[string]func() any{
				"cloneSetTemplate": func() any {
					return g.some(map[string]func() any{
						"spec": g.cloneSet,
						"metadata": func() any {
							return Tree{"labels": g.or(g.labels()), "annotations": g.or(g.annotations("UnitedDeployment"))}
						},
					})
				},
				"statefulSetTemplate": func() any { return g.anything(3) },
			})
		},
	})
}

func (g generator) unitedStatus() any {
	counts := func() any { return g.some(map[string]func() any{"a": g.number, "b": g.number, "z": g.number}) }
	return g.some(map[string]func() any{
		"updatedRevision": g.of("r1", "r2", ""), "subsetReplicas": counts,
		"updateStatus": func() any {
			return g.some(map[string]func() any{"updatedRevision": g.of("r1", "r2", ""), "currentPartitions": counts})
		},
		"subsetStatuses": func() any {
			list := []any{}
			for range g.r.IntN(4) {
				list = append(list, g.or(g.some(map[string]func() any{
					"name": g.of("a", "b", "z", ""), "replicas": g.number, "partition": g.number, "readyReplicas": g.number,
				})))
			}
			return list
		},
	})
}
