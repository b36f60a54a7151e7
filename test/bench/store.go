package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	// rotatorMemory is in MiB, whatever else is in the cluster.
	rotatorMemory = 30
	// alphaWithin is in seconds.
	alphaWithin = 15
	// burstMemory is what webhook-server may need while all objects are converted again, in MiB.
	burstMemory = 128
	// secretsAtOnce are more than other requests: they cost nobody anything.
	secretsAtOnce = 50
)

// secrets fills the cluster with what is not the rotator's, and begins with another rotator, which has to find its own.
func (h *hooks) secrets(ctx context.Context) error {
	secrets := h.cluster.Kube.CoreV1().Secrets(benchNamespace)
	start := time.Now()
	err := each(h.options.secrets, secretsAtOnce, func(i int) error {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("secret-", i)}, Data: map[string][]byte{"a": []byte("b")}}
		if _, err := secrets.Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a Secret: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	figure := fmt.Sprintf("cert-rotator, %d other Secrets", h.options.secrets)
	h.verdicts.tell(partSecrets, fmt.Sprintf("seconds to create %d Secrets", h.options.secrets), time.Since(start).Seconds())
	if err := h.memory(ctx, h.rotator, partSecrets, figure, rotatorMemory); err != nil {
		return err
	}
	if err := h.rotator.process.Stop(30 * time.Second); err != nil {
		return fmt.Errorf("stopping the rotator: %w", err)
	}
	if h.rotator, err = h.run(ctx, h.rotator.name, h.rotator.args...); err != nil {
		return err
	}
	return h.memory(ctx, h.rotator, partSecrets, figure+", begun anew", rotatorMemory)
}

// storage changes a CRD whose objects have to be converted again then, all of them, for every version that is not stored.
func (h *hooks) storage(ctx context.Context) error {
	if err := h.store(ctx); err != nil {
		return err
	}
	n := h.options.stored
	var took time.Duration
	var reads reader
	m, err := h.measured(ctx, h.server, func() error {
		before, err := scrape(ctx, h.server.metrics)
		if err != nil {
			return err
		}
		stop := reads.begin(ctx, h)
		defer stop()
		start := time.Now()
		if err := h.changeCRD(ctx); err != nil {
			return err
		}
		err = localcluster.Await(ctx, within, func(ctx context.Context) error { return h.again(ctx, before, n) })
		took = time.Since(start)
		return err
	})
	if err != nil {
		return err
	}
	part := fmt.Sprintf("change of a CRD, %d objects stored", n)
	h.verdicts.least(part, "objects converted again", m.metrics.sum(converted, `result="converted"`), float64(n))
	h.verdicts.most(part, "conversions that failed", m.metrics.sum(converted, `result="failed"`), 0)
	h.verdicts.most(part, "reviews answered 429", m.metrics.sum(requests, `code="429"`), 0)
	h.verdicts.most(part, "seconds until all are converted and a v1alpha1 LIST is complete", took.Seconds(), alphaWithin)
	h.verdicts.most(part, fmt.Sprintf("failed of %d v1beta1 reads meanwhile", reads.all.Load()), float64(reads.failed.Load()), 0)
	h.verdicts.most(part, "peak RSS of webhook-server, MiB", m.peak, burstMemory)
	return nil
}

const (
	converted = "flotilla_conversion_objects_total"
	requests  = "flotilla_webhook_requests_total"
)

// store creates the objects. The hooks are of no use for that, and go.
func (h *hooks) store(ctx context.Context) error {
	admission := h.cluster.Kube.AdmissionregistrationV1()
	if err := admission.MutatingWebhookConfigurations().Delete(ctx, mutatingHooks, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("removing the hooks: %w", err)
	}
	if err := admission.ValidatingWebhookConfigurations().Delete(ctx, validatingHooks, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("removing the hooks: %w", err)
	}
	sets := h.cluster.Flotilla.AppsV1beta1().CloneSets(benchNamespace)
	start := time.Now()
	err := each(h.options.stored, atOnce, func(i int) error {
		if _, err := sets.Create(ctx, grown(fmt.Sprint("stored-", i), benchNamespace, kib), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a CloneSet: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.verdicts.tell(partStorage, fmt.Sprintf("seconds to create %d CloneSets through the API server", h.options.stored), time.Since(start).Seconds())
	return localcluster.Await(ctx, within, func(ctx context.Context) error { return h.complete(ctx, h.options.stored) })
}

// changeCRD changes something that no object notices.
func (h *hooks) changeCRD(ctx context.Context) error {
	crds, err := apiextensions.NewForConfig(h.cluster.Config)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	patch := []byte(`[{"op":"add","path":"/spec/names/categories","value":["bench"]}]`)
	_, err = crds.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, "clonesets.apps.kruise.io", types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("changing the CRD: %w", err)
	}
	return nil
}

// again tells whether all have been converted since then and can be listed.
func (h *hooks) again(ctx context.Context, before samples, n int) error {
	now, err := scrape(ctx, h.server.metrics)
	if err != nil {
		return err
	}
	if done := now.since(before).sum(converted); done < float64(n) {
		return fmt.Errorf("%g of %d objects have been converted", done, n)
	}
	return h.complete(ctx, n)
}

// complete wants n objects in a list of v1alpha1.
func (h *hooks) complete(ctx context.Context, n int) error {
	list, err := h.cluster.Flotilla.AppsV1alpha1().CloneSets(benchNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) != n {
		return fmt.Errorf("%d of %d objects are in the list", len(list.Items), n)
	}
	return nil
}

// reader reads one object of the stored version again and again.
type reader struct{ all, failed atomic.Int64 }

// begin reads until stop is called.
func (r *reader) begin(ctx context.Context, h *hooks) (stop func()) {
	load, end := context.WithCancel(ctx)
	done := make(chan struct{})
	sets := h.cluster.Flotilla.AppsV1beta1().CloneSets(benchNamespace)
	go func() {
		defer close(done)
		paced(load, 50, func(int) {
			r.all.Add(1)
			if _, err := sets.Get(ctx, "stored-0", metav1.GetOptions{}); err != nil {
				r.failed.Add(1)
			}
		})
	}()
	return func() {
		end()
		<-done
	}
}
