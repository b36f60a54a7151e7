package conversion

import (
	"encoding/json"
	"fmt"
	"testing"
)

// BenchmarkConvert converts the text of an object of 8 KiB, as one review does, and for comparison by decoding all of it.
func BenchmarkConvert(b *testing.B) {
	for _, kind := range kinds() {
		for _, version := range []string{V1alpha1, V1beta1} {
			containers := []any{}
			for i := range 28 {
				containers = append(containers, Tree{"name": fmt.Sprint("c", i), "image": "registry.example/app:v1", "env": []any{
					Tree{"name": "A", "value": "a value of usual length"}, Tree{"name": "B", "value": "another value of usual length"},
				}, "resources": Tree{"limits": Tree{"cpu": "1", "memory": "1Gi"}, "requests": Tree{"cpu": "1", "memory": "1Gi"}}})
			}
			rolling := Tree{"podUpdatePolicy": "InPlaceIfPossible", "partition": json.Number("1")}
			spec := Tree{"replicas": json.Number("3"), "template": Tree{"spec": Tree{"containers": containers}}, "updateStrategy": Tree{"type": "RollingUpdate", "rollingUpdate": rolling}}
			switch {
			case kind == "CloneSet" && version == V1alpha1:
				spec["updateStrategy"] = Tree{"type": "InPlaceIfPossible", "partition": json.Number("1")}
			case version == V1beta1:
				spec["reserveOrdinals"] = []any{json.Number("1")}
			}
			data, err := Encode(Tree{
				"apiVersion": Group + "/" + version, "kind": kind, "metadata": Tree{"name": "x", "labels": Tree{"app": "web"}}, "spec": spec,
			})
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s from %s as text", kind, version), func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := asText(data, Group+"/"+other(version)); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%s from %s as a tree", kind, version), func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					if err := asTree(data, Group+"/"+other(version)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func asTree(data []byte, desired string) error {
	obj, err := Decode(data)
	if err != nil {
		return err
	}
	out, err := Convert(obj, desired)
	if err != nil {
		return err
	}
	_, err = Encode(out)
	return err
}
