package local

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/sim"
	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

// furnish makes the objects that every cluster here has, and waits until the cluster can be worked with.
func furnish(ctx context.Context, a *api, c *state.Cluster, plan portPlan) error {
	for path, objects := range sim.Storage() {
		for _, object := range objects {
			if err := a.create(ctx, path, object); err != nil {
				return fmt.Errorf("creating the storage class: %w", err)
			}
		}
	}
	if err := createNodes(ctx, a, c.Options.SimNodes); err != nil {
		return err
	}
	waits := []struct {
		what  string
		check func(context.Context) error
	}{
		{"the default ServiceAccount", func(ctx context.Context) error {
			return a.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
		}},
		{"the controller manager", func(ctx context.Context) error { return healthy(ctx, plan.manager) }},
		{"the scheduler", func(ctx context.Context) error { return healthy(ctx, plan.scheduler) }},
		{"the nodes", func(ctx context.Context) error { return nodesReady(ctx, a, c.Options.SimNodes) }},
	}
	for _, w := range waits {
		if err := await(ctx, c, w.what, time.Minute, w.check); err != nil {
			return err
		}
	}
	return checkAlive(c)
}

// createNodes makes the Nodes, a few at a time.
func createNodes(ctx context.Context, a *api, n int) error {
	const parallel = 8
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs error
	)
	for first := range parallel {
		wg.Go(func() {
			for i := first; i < n; i += parallel {
				if err := a.create(ctx, "/api/v1/nodes", sim.Node(i)); err != nil {
					mu.Lock()
					errs = errors.Join(errs, fmt.Errorf("creating node %d: %w", i, err))
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return errs
}

type nodeList struct {
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Taints []struct {
				Key string `json:"key"`
			} `json:"taints"`
		} `json:"spec"`
		Status struct {
			Conditions []struct {
				Type   string `json:"type"`
				Status string `json:"status"`
			} `json:"conditions"`
		} `json:"status"`
	} `json:"items"`
}

// ready counts the nodes that Pods can be scheduled to.
func (l nodeList) ready() int {
	n := 0
	for _, node := range l.Items {
		if len(node.Spec.Taints) > 0 {
			continue
		}
		for _, c := range node.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				n++
			}
		}
	}
	return n
}

func nodesReady(ctx context.Context, a *api, want int) error {
	var list nodeList
	if err := a.get(ctx, "/api/v1/nodes", &list); err != nil {
		return err
	}
	if got := list.ready(); got < want {
		return fmt.Errorf("%d of %d nodes are ready", got, want)
	}
	return nil
}

// healthy asks a component that serves its health to everyone on the loopback address.
func healthy(ctx context.Context, port int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, loopback("https", port)+"/healthz", nil)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		// Nothing secret is sent, and a wrong answer does no harm.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("its health check answers HTTP %d", res.StatusCode)
	}
	return nil
}
