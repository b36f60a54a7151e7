package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	systemNamespace = "flotilla-system"
	benchNamespace  = "bench-webhook"
	servingPair     = "flotilla-webhook-tls"
	authorities     = "flotilla-webhook-ca"
	mutatingHooks   = "flotilla-mutating-webhook-configuration"
	validatingHooks = "flotilla-validating-webhook-configuration"
	conversionPath  = "/convert"
	mutationPath    = "/mutate-apps-kruise-io-cloneset"
	validationPath  = "/validate-apps-kruise-io-cloneset"
)

// hooks are webhook-server and the cert-rotator, at work for the API server, and what has been measured of them.
type hooks struct {
	*bench
	server, rotator *component
	address         string
	caller          *caller
	verdicts        verdicts
}

// component is a process with the addresses at which it tells of itself.
type component struct {
	name                   string
	args                   []string
	process                *localcluster.Process
	health, metrics, pprof string
}

// webhooks measures the chosen parts.
func (b *bench) webhooks(ctx context.Context) (out verdicts, err error) {
	h := &hooks{bench: b}
	defer func() { err = errors.Join(err, h.stop()) }()
	if err := h.start(ctx); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{
		{partIdle, h.idleMemory}, {partConversion, h.conversion}, {partAdmission, h.admission}, {partRotation, h.rotation},
		{partRepair, h.repair}, {partSecrets, h.secrets}, {partStorage, h.storage},
	} {
		if !b.options.has(part.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "Measuring %s of the webhooks\n", part.name)
		if err := part.do(ctx); err != nil {
			return h.verdicts, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return h.verdicts, nil
}

// start brings both up and waits until the API server can call the webhooks.
func (h *hooks) start(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: benchNamespace}}
	if _, err := h.cluster.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", benchNamespace, err)
	}
	var err error
	if h.address, err = localcluster.FreeAddress(); err != nil {
		return err
	}
	if h.rotator, err = h.run(ctx, "cert-manager"); err != nil {
		return err
	}
	if h.server, err = h.run(ctx, "webhook-server", "--bind-address="+h.address, "--shutdown-delay=1s"); err != nil {
		return err
	}
	if err := h.cluster.CallWebhooksAt(h.address); err != nil {
		return err
	}
	// A list of nothing converts nothing: only an object shows that the API server trusts the server.
	alpha := h.cluster.Flotilla.AppsV1alpha1().CloneSets(benchNamespace)
	err = localcluster.Await(ctx, within, func(ctx context.Context) error {
		set, err := h.dryRun(ctx)
		if err != nil {
			return err
		}
		if set.Spec.RevisionHistoryLimit == nil {
			return errors.New("nobody fills in defaults")
		}
		_, err = alpha.List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("waiting for the webhooks: %w\n%s", err, h.server.process.Tail(20))
	}
	h.caller, err = h.newCaller(ctx, h.address)
	return err
}

// run starts a component and waits until it is ready. A second call of the same begins anew.
func (h *hooks) run(ctx context.Context, name string, args ...string) (*component, error) {
	c := &component{name: name, args: args}
	kubeconfig, err := h.cluster.KubeconfigFor(ctx, name, h.cluster.Dir)
	if err != nil {
		return nil, err
	}
	for _, address := range []*string{&c.health, &c.metrics, &c.pprof} {
		if *address, err = localcluster.FreeAddress(); err != nil {
			return nil, err
		}
	}
	c.process, err = h.cluster.Start(name, h.cluster.Dir, append([]string{
		"--kubeconfig", kubeconfig, "--leader-elect=false", "--health-probe-bind-address=" + c.health, "--metrics-bind-address=" + c.metrics,
		"--pprof-bind-address=" + c.pprof,
	}, args...)...)
	if err != nil {
		return nil, err
	}
	return c, localcluster.Await(ctx, within, func(ctx context.Context) error {
		_, err := localcluster.Get(ctx, "http://"+c.health+"/readyz")
		return err
	})
}

func (h *hooks) stop() error {
	var errs []error
	for _, c := range []*component{h.server, h.rotator} {
		if c != nil && c.process != nil {
			errs = append(errs, c.process.Stop(30*time.Second))
		}
	}
	return errors.Join(errs...)
}
