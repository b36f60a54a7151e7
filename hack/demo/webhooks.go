package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	systemNamespace = "flotilla-system"
	hooksName       = "flotilla-mutating-webhook-configuration"
	authorities     = "flotilla-webhook-ca"
	servingPair     = "flotilla-webhook-tls"
)

// startWebhooks runs webhook-server and the cert-rotator, and waits until the API server can call them.
func startWebhooks(ctx context.Context, cluster *localcluster.Cluster) error {
	address, err := localcluster.FreeAddress()
	if err != nil {
		return err
	}
	health, err := localcluster.FreeAddress()
	if err != nil {
		return err
	}
	doing("starting webhook-server, and the cert-rotator, which makes certificates for it")
	// A certificate that was made before the authority was trusted would be refused for a moment; here nobody has time.
	err = start(ctx, cluster, "cert-manager", "--leader-elect=false", "--health-probe-bind-address=0", "--propagation-delay=1s")
	if err != nil {
		return err
	}
	err = start(ctx, cluster, "webhook-server", "--bind-address="+address, "--health-probe-bind-address="+health, "--shutdown-delay=1s")
	if err != nil {
		return err
	}
	doing("having the API server call it: six CRDs change, and it takes some seconds to read the schemas of each")
	if err := cluster.CallWebhooksAt(address); err != nil {
		return err
	}
	doing("waiting until hooks and conversion answer")
	return localcluster.Await(ctx, within, func(ctx context.Context) error {
		if _, err := localcluster.Get(ctx, "http://"+health+"/readyz"); err != nil {
			return fmt.Errorf("webhook-server: %w", err)
		}
		return speaks(cluster)
	})
}

// older is a CloneSet that is made through the older version of the API.
const older = "older"

// probe is a CloneSet of the older version, without what has a default.
const probe = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"` + older + `"},"spec":{"replicas":1,
"selector":{"matchLabels":{"app":"` + older + `"}},"updateStrategy":{"type":"InPlaceIfPossible"},
"template":{"metadata":{"labels":{"app":"` + older + `"}},"spec":{"containers":[{"name":"main","image":"registry.example/web:1.0"}]}}}}`

// speaks makes sure that both conversion and the hooks are called and answer.
func speaks(cluster *localcluster.Cluster) error {
	out, err := cluster.KubectlInput(probe, "apply", "--dry-run=server", "-n", "default", "-o", "jsonpath={.spec.updateStrategy.maxUnavailable}", "-f", "-")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if out != "20%" {
		return fmt.Errorf("nobody fills in defaults: maxUnavailable is %q", out)
	}
	return nil
}

func (d *demo) bothVersions(context.Context) (string, error) {
	if out, err := d.cluster.KubectlInput(probe, "apply", "-n", namespace, "-f", "-"); err != nil {
		return "", fmt.Errorf("applying the v1alpha1 manifest: %w: %s", err, out)
	}
	policy, err := d.read("clonesets.v1beta1.apps.kruise.io", older, "{.spec.updateStrategy.rollingUpdate.podUpdatePolicy}")
	if err != nil {
		return "", err
	}
	partition, err := d.read("clonesets.v1alpha1.apps.kruise.io", holding, "{.spec.updateStrategy.partition}")
	if err != nil {
		return "", err
	}
	if policy != "InPlaceIfPossible" || partition != "80%" {
		return "", fmt.Errorf("read back: podUpdatePolicy %q, partition %q", policy, partition)
	}
	return "type InPlaceIfPossible of v1alpha1 is podUpdatePolicy " + policy + " in v1beta1, and the canary's partition is " + partition + " in v1alpha1", nil
}

func (d *demo) read(resource, name, path string) (string, error) {
	out, err := d.cluster.Kubectl("get", resource, name, "-n", namespace, "-o", "jsonpath="+path)
	if err != nil {
		return "", fmt.Errorf("reading %s %s: %w: %s", resource, name, err, out)
	}
	return out, nil
}

func (d *demo) refusal(context.Context) (string, error) {
	const field = "spec.template.spec.containers[0].image"
	bad := strings.Replace(probe, `"image":"registry.example/web:1.0"`, `"image":""`, 1)
	out, err := d.cluster.KubectlInput(strings.Replace(bad, older, "refused", 1), "apply", "-n", namespace, "-f", "-")
	if err == nil || !strings.Contains(out, field) {
		return "", fmt.Errorf("kubectl apply said: %s", out)
	}
	fmt.Printf("  %s\n", strings.TrimSpace(out))
	return "the error is at " + field, nil
}

func (d *demo) repair(ctx context.Context) (string, error) {
	hooks := d.cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := hooks.Patch(ctx, hooksName, types.JSONPatchType, []byte(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`), metav1.PatchOptions{})
	if err != nil {
		return "", fmt.Errorf("wiping the caBundle: %w", err)
	}
	wiped := time.Now()
	err = localcluster.Await(ctx, within, func(ctx context.Context) error {
		c, err := hooks.Get(ctx, hooksName, metav1.GetOptions{})
		if err == nil && len(c.Webhooks[0].ClientConfig.CABundle) == 0 {
			err = errors.New("it is empty")
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("the caBundle: %w", err)
	}
	return fmt.Sprintf("it was back after %d ms", time.Since(wiped).Milliseconds()), nil
}

// rotate has another authority sign, and with that another certificate be served, while requests run that need both hooks
// and conversion.
func (d *demo) rotate(ctx context.Context) (string, error) {
	before, err := d.serial(ctx)
	if err != nil {
		return "", err
	}
	calls, stop := d.call(ctx)
	err = d.promote(ctx)
	if err == nil {
		err = localcluster.Await(ctx, within, func(ctx context.Context) error {
			now, err := d.serial(ctx)
			if err == nil && now == before {
				err = errors.New("the certificate is the same")
			}
			return err
		})
	}
	if err := errors.Join(err, stop()); err != nil {
		return "", err
	}
	return fmt.Sprintf("another authority signs, another certificate is served, and none of %d calls failed", calls()), nil
}

func (d *demo) promote(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		"certs.flotilla-k8s.io/promote-after": time.Now().UTC().Format(time.RFC3339),
	}}})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	_, err = d.cluster.Kube.CoreV1().Secrets(systemNamespace).Patch(ctx, authorities, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("asking for another authority: %w", err)
	}
	return nil
}

func (d *demo) serial(ctx context.Context) (string, error) {
	s, err := d.cluster.Kube.CoreV1().Secrets(systemNamespace).Get(ctx, servingPair, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the serving pair: %w", err)
	}
	return s.Annotations["certs.flotilla-k8s.io/serial"], nil
}

// call asks for a change that is not carried out, and reads in the older version, again and again, until stop is called. stop waits for a few calls more, so
// that some meet the new certificate.
func (d *demo) call(ctx context.Context) (calls func() int, stop func() error) {
	sets, converted := d.cluster.Flotilla.AppsV1beta1().CloneSets(namespace), d.cluster.Flotilla.AppsV1alpha1().CloneSets(namespace)
	count, end, failed := make(chan int, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		n, left := 0, 20
		for left > 0 && ctx.Err() == nil {
			select {
			case <-end:
				left--
			default:
			}
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"call":"%d"}}}`, n)
			_, err := sets.Patch(ctx, older, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil {
				_, err = converted.Get(ctx, older, metav1.GetOptions{})
			}
			if err != nil {
				failed <- fmt.Errorf("call %d: %w", n, err)
				count <- n
				return
			}
			n++
		}
		failed <- ctx.Err()
		count <- n
	}()
	return func() int { return <-count }, func() error {
		close(end)
		return <-failed
	}
}
