package conversion

import (
	"encoding/json"
	"fmt"
	"testing"
)

// BenchmarkConvert decodes, converts and encodes an object of 8 KiB, as one review does.
func BenchmarkConvert(b *testing.B) {
	for _, kind := range kinds() {
		for _, version := range []string{V1alpha1, V1beta1} {
			containers := []any{}
			for i := range 28 {
				containers = append(containers, Tree{"name": fmt.Sprint("c", i), "image": "registry.example/app:v1", "env": []any{
					Tree{"name": "A", "value": "a value of usual length"}, Tree{"name": "B", "value": "another value of usual length"},
				}, "resources": Tree{"limits": Tree{"cpu": "1", "memory": "1Gi"}, "requests": Tree{"cpu": "1", "memory": "1Gi"}}})
			}
			data, err := Encode(Tree{
				"apiVersion": Group + "/" + version, "kind": kind,
				"metadata": Tree{"name": "x", "labels": Tree{"app": "web"}},
				"spec": Tree{
					"replicas": json.Number("3"), "template": Tree{"spec": Tree{"containers": containers}}, "reserveOrdinals": []any{json.Number("1")},
					"updateStrategy": Tree{"type": "RollingUpdate", "rollingUpdate": Tree{"podUpdatePolicy": "InPlaceIfPossible", "partition": json.Number("1")}},
				},
			})
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s from %s", kind, version), func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					obj, err := Decode(data)
					if err != nil {
						b.Fatal(err)
					}
					out, err := Convert(obj, Group+"/"+other(version))
					if err != nil {
						b.Fatal(err)
					}
					if _, err := Encode(out); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
