package webhook

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// sum adds up the series of a metric that have all those labels.
func (l *lab) sum(metric string, labels ...string) int {
	l.Helper()
	n := 0
	for series, value := range l.measured() {
		has := strings.HasPrefix(series, metric+"{")
		for _, label := range labels {
			has = has && strings.Contains(series, label)
		}
		if has {
			n += value
		}
	}
	return n
}

// readAllTheTime reads the stored version until it is stopped, and says how often, and why it failed if it did.
func (l *lab) readAllTheTime() (stop func() (int, error)) {
	ctx, cancel := context.WithCancel(l.Context())
	type result struct {
		reads int
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		for ctx.Err() == nil && r.err == nil {
			if _, err := l.of("clonesets", "v1beta1").Get(ctx, "old-000", metav1.GetOptions{}); err != nil && ctx.Err() == nil {
				r.err = err
			}
			r.reads++
		}
		done <- r
	}()
	return func() (int, error) {
		cancel()
		r := <-done
		return r.reads, r.err
	}
}

func TestScenario037_AChangeOfACRDConvertsAllThatIsStored(t *testing.T) {
	const many = 5000
	const converted, requests = "flotilla_conversion_objects_total", "flotilla_webhook_requests_total"
	l := newLab(t, "clonesets")
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx := context.Background()
		require.NoError(t, l.of("clonesets", "v1beta1").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	})
	l.fill(many)
	stop := l.readAllTheTime()
	before := l.sum(converted, `result="converted"`)
	crd, err := l.crd(t.Context(), "clonesets")
	require.NoError(t, err)
	require.NoError(t, l.patchCRD(t.Context(), "clonesets", `[{"op":"add","path":"/spec/names/categories/-","value":"changed"}]`))
	// Nobody asks for them: the API server itself converts what it keeps of every version.
	harness.Eventually(t, "the conversion of all", harness.Patience, func(context.Context) error {
		if n := l.sum(converted, `result="converted"`) - before; n < many {
			return fmt.Errorf("%d of %d are converted", n, many)
		}
		return nil
	})
	harness.Eventually(t, "a complete list", harness.Patience, func(ctx context.Context) error {
		list, err := l.of("clonesets", "v1alpha1").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != many {
			err = fmt.Errorf("%d of %d are in it", len(list.Items), many)
		}
		return err
	})
	reads, err := stop()
	require.NoError(t, err, "the stored version needs no conversion")
	require.Positive(t, reads)
	require.Zero(t, l.sum(converted, `result="failed"`))
	require.Zero(t, l.sum(requests, `code="429"`))
	require.NoError(t, l.patchCRD(t.Context(), "clonesets", fmt.Sprintf(`[{"op":"remove","path":"/spec/names/categories/%d"}]`, len(crd.Spec.Names.Categories))))
}
