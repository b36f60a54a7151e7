package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	rotationCalls = 50                     // a second
	repairTail    = 1000                   // milliseconds
	repairPace    = 550 * time.Millisecond // the rotator repairs a configuration twice a second at most
)

// dryRun has both hooks and conversion called, and stores nothing.
func (h *hooks) dryRun(ctx context.Context) (*v1alpha1.CloneSet, error) {
	set := &v1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{GenerateName: "call-"}}
	set.Spec.Replicas = ptr.To(int32(0))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template = template(imageA)
	return h.cluster.Flotilla.AppsV1alpha1().CloneSets(benchNamespace).Create(ctx, set, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// rotation has another authority sign while calls go on.
func (h *hooks) rotation(ctx context.Context) error {
	var before publication
	err := localcluster.Await(ctx, within, func(ctx context.Context) (err error) {
		before, err = h.published(ctx)
		return err
	})
	if err != nil {
		return err
	}
	var calls tally
	load, end := context.WithCancel(ctx)
	defer end()
	done := make(chan struct{})
	go func() {
		defer close(done)
		paced(load, rotationCalls, func(int) {
			calls.time(func() error {
				// Not the context of the load: a call that has begun is to be answered.
				_, err := h.dryRun(ctx)
				return err
			})
		})
	}()
	start := time.Now()
	err = h.promote(ctx)
	if err == nil {
		err = localcluster.Await(ctx, within, func(ctx context.Context) error {
			now, err := h.published(ctx)
			if err == nil && (bytes.Equal(now.bundle, before.bundle) || now.serial == before.serial) {
				err = errors.New("the rotation has not begun")
			}
			return err
		})
	}
	took := time.Since(start)
	if err == nil {
		// What follows the last write belongs to it.
		err = pause(ctx, h.options.load)
	}
	end()
	<-done
	if err != nil {
		return err
	}
	part := fmt.Sprintf("rotation of the authority, %d calls a second", rotationCalls)
	h.verdicts.failures(part, &calls)
	h.verdicts.tell(part, "seconds until another one signs and all targets know its successor", took.Seconds())
	h.verdicts.tell(part, "p99 of a call to the API server, ms", calls.quantile(0.99))
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// publication is what is in use.
type publication struct {
	bundle []byte
	serial string
}

// published reads what is in use, and makes sure that every target has it.
func (h *hooks) published(ctx context.Context) (p publication, err error) {
	secrets := h.cluster.Kube.CoreV1().Secrets(systemNamespace)
	ca, err := secrets.Get(ctx, authorities, metav1.GetOptions{})
	if err != nil {
		return p, fmt.Errorf("reading the authorities: %w", err)
	}
	pair, err := secrets.Get(ctx, servingPair, metav1.GetOptions{})
	if err != nil {
		return p, fmt.Errorf("reading the serving pair: %w", err)
	}
	if !bytes.Contains(ca.Data["current.crt"], pair.Data["ca.crt"]) {
		return p, errors.New("the serving pair is not by the present authority")
	}
	p = publication{bundle: ca.Data["bundle.crt"], serial: pair.Annotations["certs.flotilla-k8s.io/serial"]}
	bundles, err := h.bundles(ctx)
	if err != nil {
		return p, err
	}
	for target, bundle := range bundles {
		if !bytes.Equal(bundle, p.bundle) {
			return p, fmt.Errorf("%s has another bundle", target)
		}
	}
	return p, nil
}

// bundles are those of all targets: of each, the first.
func (h *hooks) bundles(ctx context.Context) (map[string][]byte, error) {
	out := map[string][]byte{}
	admission := h.cluster.Kube.AdmissionregistrationV1()
	m, err := admission.MutatingWebhookConfigurations().Get(ctx, mutatingHooks, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the hooks: %w", err)
	}
	out[m.Name] = m.Webhooks[0].ClientConfig.CABundle
	v, err := admission.ValidatingWebhookConfigurations().Get(ctx, validatingHooks, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the hooks: %w", err)
	}
	out[v.Name] = v.Webhooks[0].ClientConfig.CABundle
	extensions, err := apiextensions.NewForConfig(h.cluster.Config)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	crds, err := extensions.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the CRDs: %w", err)
	}
	for i := range crds.Items {
		if c := crds.Items[i].Spec.Conversion; c != nil && c.Webhook != nil && strings.HasSuffix(crds.Items[i].Name, ".apps.kruise.io") {
			out[crds.Items[i].Name] = c.Webhook.ClientConfig.CABundle
		}
	}
	return out, nil
}

// promote asks for another authority.
func (h *hooks) promote(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"certs.flotilla-k8s.io/promote-after":%q}}}`, time.Now().UTC().Format(time.RFC3339))
	_, err := h.cluster.Kube.CoreV1().Secrets(systemNamespace).Patch(ctx, authorities, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("asking for another authority: %w", err)
	}
	return nil
}

// repair wipes a caBundle again and again and sees when it is back.
func (h *hooks) repair(ctx context.Context) error {
	hooks := h.cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	watcher, err := hooks.Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: mutatingHooks}))
	if err != nil {
		return fmt.Errorf("watching the hooks: %w", err)
	}
	defer watcher.Stop()
	var repairs tally
	for range h.options.repairs {
		next := time.NewTimer(repairPace)
		repairs.time(func() error {
			_, err := hooks.Patch(ctx, mutatingHooks, types.JSONPatchType, []byte(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`), metav1.PatchOptions{})
			if err != nil {
				return fmt.Errorf("wiping the caBundle: %w", err)
			}
			return restored(watcher)
		})
		if err := repairs.first(); err != nil {
			return err
		}
		<-next.C
	}
	part := fmt.Sprintf("repair of a wiped caBundle, %d times", h.options.repairs)
	h.verdicts.tell(part, "p50 from the wiping write, ms", repairs.quantile(0.5))
	h.verdicts.most(part, "p99 from the wiping write, ms", repairs.quantile(0.99), repairTail)
	return nil
}

// restored waits until the bundle is wiped and is back.
func restored(watcher watch.Interface) error {
	wiped := false
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		select {
		case e, ok := <-watcher.ResultChan():
			c, isOne := e.Object.(*admissionregistrationv1.MutatingWebhookConfiguration)
			if !ok || !isOne {
				return fmt.Errorf("the watch broke: %v", e.Object)
			}
			empty := len(c.Webhooks[0].ClientConfig.CABundle) == 0
			if wiped && !empty {
				return nil
			}
			wiped = wiped || empty
		case <-timer.C:
			return fmt.Errorf("nobody repaired it within %s", within)
		}
	}
}
