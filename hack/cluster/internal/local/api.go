package local

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// api is the little of the Kubernetes API that the command itself needs. client-go would make it slow to build.
type api struct {
	server string
	client *http.Client
}

// newAPI connects as the user of a kubeconfig that writeKubeconfig wrote.
func newAPI(path string) (*api, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	var k kubeconfig
	if err := yaml.Unmarshal(raw, &k); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(k.Clusters) != 1 || len(k.Users) != 1 {
		return nil, fmt.Errorf("reading %s: it is not the one that was written for this cluster", path)
	}
	user, cluster := k.Users[0].User, k.Clusters[0].Cluster
	pair, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cluster.CertificateAuthorityData)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8,
	}
	return &api{server: cluster.Server, client: &http.Client{Transport: transport, Timeout: 10 * time.Second}}, nil
}

// get reads an object, or just the answer if into is nil.
func (a *api) get(ctx context.Context, path string, into any) error {
	return a.do(ctx, http.MethodGet, path, nil, into)
}

// create makes an object. One that exists already is left as it is.
func (a *api) create(ctx context.Context, path string, object any) error {
	err := a.do(ctx, http.MethodPost, path, object, nil)
	if status := (*statusError)(nil); errors.As(err, &status) && status.code == http.StatusConflict {
		return nil
	}
	return err
}

type statusError struct {
	path string
	code int
	body string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: HTTP %d: %s", e.path, e.code, e.body)
}

func (a *api) do(ctx context.Context, method, path string, object, into any) error {
	var body io.Reader
	if object != nil {
		raw, err := json.Marshal(object)
		if err != nil {
			return fmt.Errorf("encoding an object for %s: %w", path, err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.server+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", path, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		return &statusError{path: path, code: res.StatusCode, body: string(raw)}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(raw, into)
}
