package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

const (
	authorities = "flotilla-webhook-ca"
	servingPair = "flotilla-webhook-tls"
)

// probe calls again and again until it is stopped.
type probe struct {
	calls, failed atomic.Int64
	first         atomic.Value
	cancel        context.CancelFunc
	group         sync.WaitGroup
}

// startProbe does both things that need webhook-server, 20 times a second: a dry run of a creation, which calls hooks and
// conversion, and a read through v1alpha1. The API server makes a new connection for each, so that each looks at the certificate.
func (l *lab) startProbe(n *line) *probe {
	ctx, cancel := context.WithCancel(l.Context())
	p := &probe{cancel: cancel}
	sets := l.of("clonesets", "v1alpha1")
	calls := []func() error{
		func() error {
			_, err := sets.Get(ctx, "web", metav1.GetOptions{})
			return err
		},
		func() error {
			o := cloneSet("v1alpha1", nil)
			o.SetName("probe")
			_, err := sets.Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		},
	}
	p.group.Go(func() {
		tick := time.NewTicker(time.Second / 20)
		defer tick.Stop()
		for {
			for _, call := range calls {
				n.renew()
				before := n.count()
				err := call()
				if ctx.Err() != nil {
					return
				}
				p.calls.Add(1)
				if err == nil && n.count() == before {
					err = errors.New("it was answered on an old connection")
				}
				if err != nil {
					p.failed.Add(1)
					p.first.CompareAndSwap(nil, err.Error())
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	l.Cleanup(func() { p.stop() })
	return p
}

func (p *probe) stop() {
	p.cancel()
	p.group.Wait()
}

// serial is that of the serving certificate.
func (l *lab) serial(ctx context.Context) (string, error) {
	s, err := cluster.Kube.CoreV1().Secrets(system).Get(ctx, servingPair, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return s.Annotations["certs.flotilla-k8s.io/serial"], nil
}

// ask asks the rotator for something, and waits for what it must bring: another serving certificate.
func (l *lab) ask(request string) {
	l.Helper()
	before, err := l.serial(l.Context())
	require.NoError(l, err)
	// Requests name a time to the second, and count for what was made before it.
	timer := time.NewTimer(1100 * time.Millisecond)
	<-timer.C
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"certs.flotilla-k8s.io/%s":%q}}}`, request, time.Now().UTC().Format(time.RFC3339))
	_, err = cluster.Kube.CoreV1().Secrets(system).Patch(l.Context(), authorities, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(l, err)
	harness.Eventually(l, "another certificate after "+request, harness.Patience, func(ctx context.Context) error {
		now, err := l.serial(ctx)
		if err == nil && now == before {
			err = errors.New("it is the same")
		}
		return err
	})
}

// TestScenario017_NoCallFailsWhileCertificatesRotate sees three authorities begin to sign and fifteen renewals. How often that
// happens by itself, and that no bundle grows then, is played in the rotator's own tests.
func TestScenario017_NoCallFailsWhileCertificatesRotate(t *testing.T) {
	l := newLab(t, "clonesets")
	n := newLine(t, l.server)
	l.through(n)
	l.admit()
	_, err := l.of("clonesets", "v1beta1").Create(t.Context(), cloneSet("v1beta1", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	p := l.startProbe(n)
	for range 3 {
		for range 5 {
			l.ask("renew-serving-after")
		}
		l.ask("promote-after")
	}
	last := p.calls.Load()
	harness.Eventually(t, "calls after the last rotation", harness.Patience, func(context.Context) error {
		if p.calls.Load() < last+20 {
			return errors.New("too few")
		}
		return nil
	})
	p.stop()
	require.Zero(t, p.failed.Load(), "of %d calls; the first: %v", p.calls.Load(), p.first.Load())
	require.GreaterOrEqual(t, n.count(), p.calls.Load())
	t.Logf("%d calls on %d connections", p.calls.Load(), n.count())
	loaded := l.counted(`flotilla_webhook_cert_reloads_total{result="loaded"}`)
	require.Equal(t, 1+3*6, loaded, "each has been served")
}

// TestScenario040_InformersOfOthersRecoverFromAnEmptyBundle has two programs watch CloneSets in v1alpha1: one that was there
// before, whose watch the API server may go on with, and one that comes meanwhile.
func TestScenario040_InformersOfOthersRecoverFromAnEmptyBundle(t *testing.T) {
	l := newLab(t, "clonesets")
	begin := func() cache.SharedIndexInformer {
		factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(l.objects, 0, l.namespace, nil)
		informer := factory.ForResource(schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1alpha1", Resource: "clonesets"}).Informer()
		factory.Start(t.Context().Done())
		return informer
	}
	create := func(name string) {
		t.Helper()
		o := cloneSet("v1beta1", nil)
		o.SetName(name)
		_, err := l.of("clonesets", "v1beta1").Create(t.Context(), o, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	all := []cache.SharedIndexInformer{begin()}
	see := func(name string) {
		t.Helper()
		harness.Eventually(t, name+" in all informers", harness.Patience, func(context.Context) error {
			for i, informer := range all {
				if _, there, err := informer.GetStore().GetByKey(l.namespace + "/" + name); err != nil || !there {
					return fmt.Errorf("it is not in informer %d: %w", i, err)
				}
			}
			return nil
		})
	}
	create("before")
	see("before")

	l.rotator.Kill()
	require.NoError(t, l.patchCRD(t.Context(), "clonesets", `[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":""}]`))
	isBroken := func(ctx context.Context) error {
		if _, err := l.of("clonesets", "v1alpha1").Get(ctx, "before", metav1.GetOptions{}); err == nil {
			return errors.New("it can be read")
		}
		return nil
	}
	harness.Eventually(t, "the failure of v1alpha1", harness.Patience, isBroken)
	all = append(all, begin())
	// Who speaks the stored version is not affected.
	create("meanwhile")
	harness.Consistently(t, "the failure of v1alpha1", 10*time.Second, func(ctx context.Context) error {
		if all[1].HasSynced() {
			return errors.New("an informer could begin")
		}
		return isBroken(ctx)
	})
	l.rotate()
	see("meanwhile")
	create("after")
	see("after")
}

// TestScenario064_TheRotatorNeedsNoConversion begins with nothing while nobody converts what is stored.
func TestScenario064_TheRotatorNeedsNoConversion(t *testing.T) {
	l := newLab(t, "clonesets")
	l.storeAsBefore(1000)
	l.process.Kill()
	l.rotator.Kill()
	for _, name := range []string{authorities, servingPair} {
		require.NoError(t, cluster.Kube.CoreV1().Secrets(system).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	require.NoError(t, l.patchCRD(t.Context(), "clonesets", `[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":""}]`))
	harness.Eventually(t, "that nothing can be read", harness.Patience, func(ctx context.Context) error {
		if _, err := l.of("clonesets", "v1beta1").Get(ctx, "old-000", metav1.GetOptions{}); err == nil || apierrors.IsNotFound(err) {
			return fmt.Errorf("it can: %w", err)
		}
		return nil
	})
	l.rotate()
	harness.Eventually(t, "publishing", harness.Patience, func(ctx context.Context) error {
		ca, err := cluster.Kube.CoreV1().Secrets(system).Get(ctx, authorities, metav1.GetOptions{})
		if err != nil {
			return err
		}
		crd, err := l.crd(ctx, "clonesets")
		if err != nil {
			return err
		}
		if bundle := ca.Data["bundle.crt"]; len(bundle) == 0 || string(bundle) != string(crd.Spec.Conversion.Webhook.ClientConfig.CABundle) {
			return errors.New("the CRD does not hold the bundle")
		}
		tls, err := cluster.Kube.CoreV1().Secrets(system).Get(ctx, servingPair, metav1.GetOptions{})
		if err == nil && len(tls.Data[corev1.TLSCertKey]) == 0 {
			err = errors.New("there is no serving certificate")
		}
		return err
	})
	l.serve()
	l.isReady()
	list, err := l.of("clonesets", "v1beta1").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1000)
	// What is stored in the older version can be removed only while somebody converts it.
	require.NoError(t, l.of("clonesets", "v1beta1").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
}
