package deploy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// run starts a binary of bin/ with the arguments of a Deployment, as the ServiceAccount that the Deployment names, until the test ends. More
// arguments say what is different on this machine.
func run(t *testing.T, from objects, deployment, binary string, more ...string) *localcluster.Process {
	t.Helper()
	d := into[appsv1.Deployment](t, from, "Deployment", system, deployment)
	p, err := start(t.Context(), &d.Spec.Template.Spec, t.TempDir(), binary, more...)
	require.NoError(t, err)
	t.Cleanup(func() { end(t, p, binary) })
	return p
}

// start runs what a Pod would run.
func start(ctx context.Context, pod *corev1.PodSpec, dir, binary string, more ...string) (*localcluster.Process, error) {
	kubeconfig, err := cluster.KubeconfigFor(ctx, pod.ServiceAccountName, dir)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, a := range pod.Containers[0].Args {
		a = strings.ReplaceAll(a, "$(POD_NAMESPACE)", system)
		if strings.Contains(a, "$(") {
			return nil, fmt.Errorf("nobody knows what %s is here", a)
		}
		args = append(args, a)
	}
	return cluster.Start(binary, dir, append(append(args, "--kubeconfig="+kubeconfig), more...)...)
}

func end(t *testing.T, p *localcluster.Process, binary string) {
	p.Kill()
	if t.Failed() {
		t.Logf("end of %s's log:\n%s", binary, p.Tail(40))
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(harness.FreeAddress(t))
	require.NoError(t, err)
	return port
}

// TestScenario081_TheProcessesWorkByTheirManifests runs webhook-server on the network of this machine, on ports that were chosen, and the
// cert-rotator, with the arguments and the rights that the manifests give them.
func TestScenario081_TheProcessesWorkByTheirManifests(t *testing.T) {
	clean(t)
	webhooks, metrics, health := freePort(t), freePort(t), freePort(t)
	values := []string{
		"template", "flotilla", chart(), "--set", "webhookServer.hostNetwork=true",
		"--set", "webhookServer.ports.webhooks=" + webhooks + ",webhookServer.ports.metrics=" + metrics + ",webhookServer.ports.health=" + health,
	}
	manifests := helm(t, values...)
	kubectl(t, manifests, "apply", "--server-side", "--force-conflicts", "-f", "-")
	from := parse(t, manifests)
	here := []string{"--health-probe-bind-address=" + harness.FreeAddress(t), "--metrics-bind-address=0", "--pprof-bind-address=0"}
	run(t, from, "webhook-server", "webhook-server")
	run(t, from, "cert-rotator", "cert-manager", here...)
	harness.Eventually(t, "readiness of webhook-server", harness.Patience, func(ctx context.Context) error {
		_, err := localcluster.Get(ctx, "http://127.0.0.1:"+health+"/readyz")
		return err
	})
	text, err := localcluster.Get(t.Context(), "http://127.0.0.1:"+metrics+"/metrics")
	require.NoError(t, err)
	require.Contains(t, text, "flotilla_webhook_serving_cert_not_after_timestamp_seconds{")

	t.Log("every hook has a bundle that trusts what is served")
	api := cluster.Kube.AdmissionregistrationV1()
	harness.Eventually(t, "bundles", harness.Patience, func(ctx context.Context) error {
		m, err := api.MutatingWebhookConfigurations().Get(ctx, mutating, metav1.GetOptions{})
		if err != nil {
			return err
		}
		v, err := api.ValidatingWebhookConfigurations().Get(ctx, validating, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, w := range m.Webhooks {
			err = errors.Join(err, trusts(ctx, w.ClientConfig.CABundle, "127.0.0.1:"+webhooks))
		}
		for _, w := range v.Webhooks {
			err = errors.Join(err, trusts(ctx, w.ClientConfig.CABundle, "127.0.0.1:"+webhooks))
		}
		return err
	})
	t.Log("and everything is published, CRDs included")
	harness.Eventually(t, "all that the rotator calls published", harness.Patience, func(ctx context.Context) error {
		status := run(t, from, "cert-rotator", "cert-manager", "status")
		select {
		case <-status.Done():
		case <-ctx.Done():
			return errors.New("no answer")
		}
		if status.ExitCode() != 0 {
			return errors.New(status.Tail(5))
		}
		return nil
	})
}

// trusts makes a handshake as the API server does.
func trusts(ctx context.Context, bundle []byte, address string) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return errors.New("a bundle is empty")
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "flotilla-webhook." + system + ".svc", MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}
