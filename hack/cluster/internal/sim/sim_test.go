package sim

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestConfigIsOneOptionsObjectAndAStagePerRule(t *testing.T) {
	documents := bytes.Split(Config(), []byte("---\n"))[1:]
	if len(documents) != 1+len(stages()) {
		t.Fatalf("%d documents", len(documents))
	}
	for i, d := range documents {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ Selector map[string]any }
		}
		if err := yaml.Unmarshal(d, &o); err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
		if i == 0 && o.Kind != "KwokConfiguration" || i > 0 && (o.Kind != "Stage" || o.Spec.Selector == nil) {
			t.Errorf("document %d is %+v", i, o)
		}
	}
}

func TestAStageMatchesOnlyWhenAllItsExpressionsAreTrue(t *testing.T) {
	raw, err := json.Marshal(stage{name: "x", kind: "Pod", when: []string{"first", "second"}}.object())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), `"operator":"In","values":["true"]`); n != 2 {
		t.Errorf("%d expressions in %s", n, raw)
	}
}

func TestNodesAreSpreadOverZonesAndHaveAddressesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	zones := map[string]int{}
	for i := range 1000 {
		ip := nodeIP(i)
		if seen[ip] {
			t.Fatalf("node %d has the address of another one: %s", i, ip)
		}
		seen[ip] = true
		labels := Node(i)["metadata"].(object)["labels"].(object)
		zones[labels["topology.kubernetes.io/zone"].(string)]++
	}
	if len(zones) != 3 || zones["zone-a"] < 333 || zones["zone-b"] < 333 || zones["zone-c"] < 333 {
		t.Errorf("zones: %v", zones)
	}
}

func TestVersionIsStable(t *testing.T) {
	if first, second := Version(), Version(); first != second {
		t.Error("two calls differ")
	}
}
