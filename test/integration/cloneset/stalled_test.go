package cloneset

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/harness"
)

// What only the controller can judge: the schema cannot compare expressions with labels.
func TestASpecThatCannotWorkIsReportedAndTouchesNothing(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(2, func(s *v1beta1.CloneSet) {
		s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}
	}))
	e.until("Stalled", func(s *v1beta1.CloneSet) bool {
		status, reason := condition(s, "Stalled")
		return status == "True" && reason != ""
	})
	require.Empty(t, e.active())
	harness.Eventually(t, "an event", harness.Patience, func(ctx context.Context) error {
		events, err := cluster.Kube.CoreV1().Events(e.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=web,type=Warning"})
		if err == nil && len(events.Items) == 0 {
			return fmt.Errorf("no Warning yet")
		}
		return err
	})

	e.patch(`{"spec":{"template":{"metadata":{"labels":{"tier":"front"}}}}}`)
	set := e.available(2)
	status, _ := condition(set, "Stalled")
	require.Equal(t, "False", status)
}
