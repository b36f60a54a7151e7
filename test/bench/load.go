package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// caller posts reviews to webhook-server as the API server does: over TLS, on connections that are kept.
type caller struct {
	base   string
	client *http.Client
}

// callWithin bounds one call, as the API server does with conversions.
const callWithin = 30 * time.Second

// newCaller trusts what the serving pair says its issuer is, which every caBundle trusts as well.
func (b *bench) newCaller(ctx context.Context, address string) (*caller, error) {
	pair, err := b.cluster.Kube.CoreV1().Secrets(systemNamespace).Get(ctx, servingPair, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the serving pair: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pair.Data["ca.crt"]) {
		return nil, fmt.Errorf("no issuer in Secret %s", servingPair)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 100,
	}
	return &caller{base: "https://" + address, client: &http.Client{Transport: transport, Timeout: callWithin}}, nil
}

// post returns the answer; any code but 200 is an error.
func (c *caller) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path+"?timeout=10s", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("building a request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", path, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, answer)
	}
	return answer, err
}

// tally collects what calls took and which failed. Its zero value is ready.
type tally struct {
	mu     sync.Mutex
	took   []time.Duration
	failed []error
}

func (t *tally) time(do func() error) {
	start := time.Now()
	err := do()
	took := time.Since(start)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failed = append(t.failed, err)
		return
	}
	t.took = append(t.took, took)
}

// first is the first failure, if there was any.
func (t *tally) first() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failed) > 0 {
		return fmt.Errorf("%d of %d calls failed, the first: %w", len(t.failed), len(t.failed)+len(t.took), t.failed[0])
	}
	return nil
}

// quantile is in milliseconds.
func (t *tally) quantile(q float64) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.took)
	return milliseconds(quantile(t.took, q))
}

// each does n things, so many at a time, and returns the first error.
func each(n, atOnce int, do func(i int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs <- do(i)
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// paced begins a call at every tick, whether or not the earlier ones have been answered, until the context ends. It returns
// when all have been.
func paced(ctx context.Context, perSecond int, do func(i int)) {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			wg.Go(func() { do(i) })
		}
	}
}
