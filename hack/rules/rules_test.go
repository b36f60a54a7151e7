// Package rules checks the example alerts with the parser of Prometheus. It is a module of its own, so that the parser is nobody else's
// dependency.
package rules

import (
	"log/slog"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func TestAlertsAreRulesOfPrometheus(t *testing.T) {
	groups, errs := rulefmt.ParseFile("../../deploy/alerts/flotilla.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if len(errs) > 0 {
		return
	}
	alerts := map[string]bool{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || alerts[r.Alert] {
				t.Errorf("group %s: alert %q has no name, or one that another has", g.Name, r.Alert)
			}
			alerts[r.Alert] = true
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("alert %s: must have a severity and a summary", r.Alert)
			}
		}
	}
	if len(alerts) < 13 {
		t.Errorf("%d alerts: some of the specification's are missing", len(alerts))
	}
}
