package webhook

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	flotillafake "github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned/fake"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/certs"
)

const (
	testHost     = "flotilla-webhook.flotilla-system.svc"
	testPatience = 20 * time.Second
)

// serving is a server on this machine.
type serving struct {
	*testing.T
	*Server
	kube     *fake.Clientset
	registry *prometheus.Registry
	issuer   *certs.Pair
	stop     context.CancelFunc
	ended    chan struct{}
}

func serve(t *testing.T, edit func(*Options)) *serving {
	t.Helper()
	issuer, err := certs.NewAuthority(rand.Reader, time.Now(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	s := &serving{T: t, kube: fake.NewClientset(), registry: prometheus.NewRegistry(), issuer: issuer, ended: make(chan struct{})}
	o := DefaultOptions()
	o.BindAddress, o.ShutdownDelay = "127.0.0.1:0", 100*time.Millisecond
	if edit != nil {
		edit(o)
	}
	s.Server, err = New(&app.Env{
		Log: logr.Discard(), Clock: clock.RealClock{}, Kube: s.kube, Flotilla: flotillafake.NewClientset(), Metrics: s.registry,
		WatchFailed: func(context.Context, *cache.Reflector, error) {},
	}, *o)
	require.NoError(t, err)
	s.Handle("/echo", Accept{Bytes: 1 << 20, Depth: maxDepth}, echo)
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	require.NoError(t, s.Start(ctx))
	go func() {
		defer close(s.ended)
		s.Work(ctx, 1)
	}()
	t.Cleanup(func() { stop(); <-s.ended })
	return s
}

// publish stores a pair that is valid for an hour.
func (s *serving) publish(version string) {
	s.Helper()
	pair := secret(s.T, s.issuer, testHost, time.Now(), time.Hour, version)
	pair.Name, pair.Namespace = "flotilla-webhook-tls", "flotilla-system"
	secrets := s.kube.CoreV1().Secrets(pair.Namespace)
	_, err := secrets.Create(s.Context(), pair, metav1.CreateOptions{})
	if err != nil {
		_, err = secrets.Update(s.Context(), pair, metav1.UpdateOptions{})
	}
	require.NoError(s, err)
}

func (s *serving) isReady() {
	s.Helper()
	require.Eventually(s, func() bool { return s.Ready() == nil }, testPatience, 10*time.Millisecond)
}

// sum adds up a metric over all series that have the value of a label; empty: over all.
func (s *serving) sum(name, value string) float64 {
	s.Helper()
	families, err := s.registry.Gather()
	require.NoError(s, err)
	total := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (value == "" || m.GetLabel()[0].GetValue() == value) {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return total
}

// client trusts the issuer.
func (s *serving) client() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.issuer.PEM())
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: testHost}}, Timeout: testPatience}
}

// answer is what a call tells of the connection that it was made on.
type answer struct {
	// serial is that of the certificate, last: the server asks not to come back.
	serial *big.Int
	last   bool
}

func (s *serving) call(c *http.Client) (answer, error) {
	r, err := c.Post("https://"+s.listener.Addr().String()+"/echo", "application/json", strings.NewReader("{}"))
	if err != nil {
		return answer{}, err
	}
	defer r.Body.Close()
	// A body that was not read would keep the connection from being used again.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return answer{}, err
	}
	if r.StatusCode != http.StatusOK {
		return answer{}, errors.New(r.Status)
	}
	return answer{r.TLS.PeerCertificates[0].SerialNumber, r.Close}, nil
}

func TestScenario001_002_ThePairMayComeLater(t *testing.T) {
	s := serve(t, nil)
	require.ErrorContains(t, s.Ready(), "flotilla-system/flotilla-webhook-tls")
	_, err := s.call(s.client())
	require.Error(t, err)
	require.Eventually(t, func() bool {
		return s.sum("flotilla_webhook_tls_handshake_errors_total", "no_certificate") > 0
	}, testPatience, 10*time.Millisecond)
	s.publish("1")
	s.isReady()
	_, err = s.call(s.client())
	require.NoError(t, err)
}

func TestScenario003_006_AnotherPairIsServedAndADeletionChangesNothing(t *testing.T) {
	s := serve(t, nil)
	s.publish("1")
	s.isReady()
	old := s.client()
	r, err := s.call(old)
	require.NoError(t, err)
	first := r.serial
	s.publish("2")
	require.Eventually(t, func() bool { return s.keeper.Leaf().SerialNumber.Cmp(first) != 0 }, testPatience, 10*time.Millisecond)
	r, err = s.call(old)
	require.NoError(t, err)
	require.Equal(t, first, r.serial, "the open connection goes on")
	r, err = s.call(s.client())
	require.NoError(t, err)
	require.Equal(t, s.keeper.Leaf().SerialNumber, r.serial)
	require.InDelta(t, 2, s.sum("flotilla_webhook_cert_reloads_total", reloadLoaded), 0)
	require.InDelta(t, s.keeper.Leaf().NotAfter.Unix(), s.sum("flotilla_webhook_serving_cert_not_after_timestamp_seconds", ""), 0, "only the pair in use is told of")

	require.NoError(t, s.kube.CoreV1().Secrets("flotilla-system").Delete(t.Context(), "flotilla-webhook-tls", metav1.DeleteOptions{}))
	_, err = s.call(s.client())
	require.NoError(t, err)
	require.NoError(t, s.Ready())
}

func TestScenario011_NoCallIsLostWhenAProcessEnds(t *testing.T) {
	s := serve(t, func(o *Options) { o.ShutdownDelay = 300 * time.Millisecond })
	s.publish("1")
	s.isReady()
	var calls, failed atomic.Int64
	var group sync.WaitGroup
	for range 30 {
		group.Go(func() {
			c := s.client()
			for {
				r, err := s.call(c)
				if err != nil {
					failed.Add(1)
					return
				}
				calls.Add(1)
				if r.last {
					// Endpoints name another one by now.
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { return calls.Load() > 300 }, testPatience, time.Millisecond)
	s.stop()
	group.Wait()
	<-s.ended
	require.Zero(t, failed.Load(), "of %d calls", calls.Load())
	require.ErrorContains(t, s.Ready(), "shutting down")
}

func TestScenario013_IPv6Alone(t *testing.T) {
	s := serve(t, func(o *Options) { o.BindAddress = "[::1]:0" })
	s.publish("1")
	s.isReady()
	_, err := s.call(s.client())
	require.NoError(t, err)
}

// writeVolume swaps a directory of files as the kubelet does.
func writeVolume(t *testing.T, dir string, s *corev1.Secret) {
	t.Helper()
	data := filepath.Join(dir, s.ResourceVersion)
	require.NoError(t, os.Mkdir(data, 0o700))
	for name, raw := range s.Data {
		require.NoError(t, os.WriteFile(filepath.Join(data, name), raw, 0o600))
	}
	link := filepath.Join(dir, "new")
	require.NoError(t, os.Symlink(data, link))
	require.NoError(t, os.Rename(link, filepath.Join(dir, "data")))
}

func TestScenario009_FilesAreReadAgain(t *testing.T) {
	issuer, err := certs.NewAuthority(rand.Reader, time.Now(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	dir := t.TempDir()
	fakeClock := clocktesting.NewFakeClock(time.Now())
	k := NewKeeper(testHost, time.Now, func(string) {})
	answers := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		fromFiles(ctx, fakeClock, filepath.Join(dir, "data", "tls.crt"), filepath.Join(dir, "data", "tls.key"), func(o offered) bool {
			err, _ := k.Load(o)
			answers <- err
			return err == nil
		})
	}()
	next := func(after time.Duration) error {
		require.Eventually(t, fakeClock.HasWaiters, testPatience, time.Millisecond)
		fakeClock.Step(after)
		return <-answers
	}
	require.LessOrEqual(t, pollFiles, 10*time.Second, "with a second to read them")
	require.ErrorContains(t, <-answers, "tls.")
	writeVolume(t, dir, secret(t, issuer, testHost, time.Now(), time.Hour, "1"))
	require.NoError(t, next(pollAgain))
	first := k.Leaf().SerialNumber
	writeVolume(t, dir, secret(t, issuer, "other.ns.svc", time.Now(), time.Hour, "2"))
	require.Error(t, next(pollFiles))
	require.Equal(t, first, k.Leaf().SerialNumber)
	writeVolume(t, dir, secret(t, issuer, testHost, time.Now(), time.Hour, "3"))
	require.NoError(t, next(pollAgain))
	require.NotEqual(t, first, k.Leaf().SerialNumber)
	cancel()
	<-done
}
