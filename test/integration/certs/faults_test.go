package certs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/internal/certs"
	"github.com/flotilla-k8s/flotilla/test/harness"
)

// oneCRD keeps the number of targets small where every write of every target counts.
const oneCRD = "--crd=" + clonesets

// ask sets an annotation of the authorities' Secret to now.
func (l *lab) ask(key string) { l.askAt(key, time.Now()) }

func (l *lab) askAt(key string, at time.Time) {
	l.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"certs.flotilla-k8s.io/%s":%q}}}`, key, at.UTC().Format(time.RFC3339))
	_, err := cluster.Kube.CoreV1().Secrets(namespace).Patch(context.Background(), caSecret, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(l, err)
}

// published says what is missing until the bundle of the Secret, of that many certificates, is in both targets, and the serving
// pair is by the signer.
func (l *lab) published(ctx context.Context, certificates int) error {
	ca, err := l.secret(ctx, caSecret)
	if err != nil {
		return err
	}
	if n := certificatesIn(ca.Data["bundle.crt"]); n != certificates {
		return fmt.Errorf("%d certificates in the bundle", n)
	}
	crd, err := l.crdBundle(ctx)
	if err != nil {
		return err
	}
	hooks, err := l.hooks(ctx)
	if err != nil {
		return err
	}
	for _, bundle := range [][]byte{crd, hooks.Webhooks[0].ClientConfig.CABundle} {
		if !bytes.Equal(bundle, ca.Data["bundle.crt"]) {
			return errors.New("a target does not hold the bundle")
		}
	}
	return l.verifies(ctx, ca.Data["current.crt"])
}

// guard checks all the time, until it is stopped, that all targets trust the serving pair. It begins when they do.
func (l *lab) guard() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		var failed error
		for trusted := false; ctx.Err() == nil; {
			bundle, err := l.crdBundle(ctx)
			if err == nil {
				err = l.verifies(ctx, bundle)
			}
			if err == nil {
				trusted = true
			} else if trusted && failed == nil && ctx.Err() == nil {
				failed = err
			}
		}
		done <- failed
	}()
	return func() error {
		cancel()
		return <-done
	}
}

func TestScenario019And020_KilledBeforeAndAfterEveryWrite(t *testing.T) {
	l := newLab(t)
	l.configure()
	g := newGate(t)
	stop := l.guard()
	flags := []string{oneCRD, "--propagation-delay=1s", "--revoke-overlap=2s"}
	p := g.start(l, flags...)
	g.kill(true)
	kills := 0
	for _, phase := range []struct {
		annotation   string
		certificates int
		// kills are two for each write.
		kills int
	}{
		{"", 2, 12}, {"renew-serving-after", 2, 2}, {"promote-after", 3, 8}, {"revoke-before", 2, 12},
	} {
		time.Sleep(time.Second) // what was asked for is younger than what there is, in whole seconds
		before, err := l.secret(t.Context(), tlsSecret)
		if phase.annotation != "" {
			require.NoError(t, err)
			l.ask(phase.annotation)
		}
		first := kills
		harness.Eventually(t, phase.annotation, 3*harness.Patience, func(ctx context.Context) error {
			select {
			case <-p.Done():
				kills++
				p = g.start(l, flags...)
				g.kill(kills%2 == 0)
			default:
			}
			after, err := l.secret(ctx, tlsSecret)
			if err == nil && phase.annotation != "" && bytes.Equal(before.Data["tls.crt"], after.Data["tls.crt"]) {
				err = errors.New("the serving pair is the one from before")
			}
			if err != nil {
				return err
			}
			return l.published(ctx, phase.certificates)
		})
		require.GreaterOrEqual(t, kills-first, phase.kills-3, "killed at each write of %q", phase.annotation)
	}
	require.NoError(t, stop(), "trust at every moment")
}

func TestScenario053And054_WhatHasExpiredIsReplacedAtTheStart(t *testing.T) {
	for name, nextUntil := range map[string]time.Duration{"53 the successor has not": 1000 * 24 * time.Hour, "54 everything has": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.configure()
			now := time.Now()
			authority := func(until time.Duration) *certs.Pair {
				a, err := certs.NewAuthority(rand.Reader, now.Add(-200*24*time.Hour), now.Add(until))
				require.NoError(t, err)
				return a
			}
			a := &certs.Authorities{Current: authority(-time.Minute), Next: authority(nextUntil), SigningSince: now.Add(-100 * 24 * time.Hour)}
			leaf, err := certs.Issue(rand.Reader, a.Current, []string{"flotilla-webhook.flotilla-system.svc"}, now.Add(-100*24*time.Hour), now.Add(-time.Minute))
			require.NoError(t, err)
			data, err := a.Encode(now.Add(-200 * 24 * time.Hour))
			require.NoError(t, err)
			serving, err := (&certs.Serving{Pair: leaf, Issuer: &a.Current.Certificate}).Encode()
			require.NoError(t, err)
			for name, data := range map[string]map[string][]byte{caSecret: data, tlsSecret: serving} {
				_, err := cluster.Kube.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			// Everybody trusts what there was.
			bundle := base64.StdEncoding.EncodeToString(slices.Concat(a.Current.PEM(), a.Next.PEM()))
			l.patchCRD(fmt.Sprintf(`[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":%q}]`, bundle))
			l.patchHooks(fmt.Sprintf(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":%q}]`, bundle))
			mark := l.mark()
			l.start(oneCRD)
			if nextUntil < 0 {
				l.trustedWithin(10*time.Second, true)
				return
			}
			l.within(3*time.Second, "a certificate by the successor", func(ctx context.Context) error { return l.verifies(ctx, a.Next.PEM()) })
			l.trustedWithin(5*time.Second, true)
			harness.Eventually(t, "publishing", harness.Patience, func(ctx context.Context) error {
				ca, err := l.secret(ctx, caSecret)
				if err != nil {
					return err
				}
				return l.published(ctx, certificatesIn(ca.Data["bundle.crt"]))
			})
			var written []string
			var issued, patched int
			harness.Eventually(t, "the log of it", harness.Patience, func(context.Context) error {
				written = l.written(mark)
				issued, patched = slices.Index(written, wroteTLS), slices.IndexFunc(written, func(w string) bool { return strings.HasPrefix(w, "patch ") })
				if patched < 0 {
					return fmt.Errorf("no target is patched by %v", written)
				}
				return nil
			})
			require.GreaterOrEqual(t, issued, 0, written)
			require.Greater(t, patched, issued, "the certificate comes before any target is patched: %v", written)
		})
	}
}

func TestScenario056And057_ClocksThatDiffer(t *testing.T) {
	l := newLab(t)
	l.configure()
	g := newGate(t)
	g.setClock(10 * time.Minute)
	stop := l.guard()
	p := g.start(l, oneCRD, "--propagation-delay=1s", "--revoke-overlap=1s")
	l.trusted(true)
	harness.Eventually(t, "the event ClockSkew", harness.Patience, func(ctx context.Context) error { return l.told(ctx, "ClockSkew") })
	// It is the API server's clock that counts, as the rotator sees it.
	// A second later, that is: requests count for what was made in a second before theirs.
	l.askAt("promote-after", time.Now().Add(10*time.Minute+time.Second))
	harness.Eventually(t, "a promotion", harness.Patience, func(ctx context.Context) error { return l.published(ctx, 3) })
	p.Kill()
	g.setClock(-10 * time.Minute)
	p = g.start(l, oneCRD, "--propagation-delay=1s", "--revoke-overlap=1s")
	l.patchCRD(`[{"op":"test","path":"/spec/conversion/strategy","value":"Webhook"}]`)
	harness.Eventually(t, "rest", harness.Patience, func(ctx context.Context) error { return l.published(ctx, 3) })
	p.Kill()
	before := l.versions()
	g.setClock(366 * 24 * time.Hour)
	g.start(l, oneCRD)
	require.NoError(t, stop(), "trust at every moment")
	// That it works is seen by a repair; that it rotates nothing by the rest being as it was.
	l.patchCRD(`[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":""}]`)
	harness.Eventually(t, "a repair", harness.Patience, func(ctx context.Context) error { return l.published(ctx, 3) })
	require.Equal(t, before[:3], l.versions()[:3])
}

// told says whether there is an event of that reason.
func (l *lab) told(ctx context.Context, reason string) error {
	events, err := cluster.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err == nil && len(events.Items) == 0 {
		err = fmt.Errorf("no event %s", reason)
	}
	return err
}

// versions are those of all that a rotator may write: the Secrets, the configuration, the CRD.
func (l *lab) versions() []string {
	l.Helper()
	ca, err := l.secret(l.Context(), caSecret)
	require.NoError(l, err)
	tls, err := l.secret(l.Context(), tlsSecret)
	require.NoError(l, err)
	hooks, err := l.hooks(l.Context())
	require.NoError(l, err)
	crd, err := l.crds.ApiextensionsV1().CustomResourceDefinitions().Get(l.Context(), clonesets, metav1.GetOptions{})
	require.NoError(l, err)
	return []string{ca.ResourceVersion, tls.ResourceVersion, hooks.ResourceVersion, crd.ResourceVersion}
}

func TestScenario058_AnAPIServerThatWasAwayCausesNoWrite(t *testing.T) {
	l := newLab(t)
	l.configure()
	g := newGate(t)
	p := g.start(l)
	l.trusted(true)
	harness.Eventually(t, "rest", harness.Patience, func(ctx context.Context) error { return l.published(ctx, 2) })
	before := l.versions()
	g.shut(true)
	harness.Eventually(t, "it notices", harness.Patience, func(context.Context) error {
		if !strings.Contains(p.Tail(500), "cannot be reached") {
			return errors.New("it says nothing")
		}
		return nil
	})
	g.shut(false)
	harness.Eventually(t, "it comes back", harness.Patience, func(context.Context) error {
		if !strings.Contains(p.Tail(500), "answers again") {
			return errors.New("it says nothing")
		}
		return nil
	})
	require.Equal(t, before, l.versions())
	l.patchCRD(`[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":""}]`)
	harness.Eventually(t, "a repair", harness.Patience, func(ctx context.Context) error { return l.published(ctx, 2) })
	require.Equal(t, before[:3], l.versions()[:3])
}

func TestScenario060_ALeaderThatWasStoppedEnds(t *testing.T) {
	l := newLab(t)
	l.configure()
	// A pass may take five seconds: the lease lasts longer than that after its holder would have noticed that it was lost.
	flags := []string{
		oneCRD, "--propagation-delay=0s", "--leader-elect=true", "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=2s",
		"--leader-elect-retry-period=500ms",
	}
	first := l.start(flags...)
	l.trusted(true)
	l.start(flags...)
	require.NoError(t, syscall.Kill(first.Pid(), syscall.SIGSTOP))
	// The authorities may have been made in this very second.
	l.askAt("promote-after", time.Now().Add(time.Second))
	harness.Eventually(t, "the other one promotes", harness.Patience, func(ctx context.Context) error { return l.published(ctx, 3) })
	before := l.versions()
	require.NoError(t, syscall.Kill(first.Pid(), syscall.SIGCONT))
	select {
	case <-first.Done():
	case <-time.After(harness.Patience):
		t.Fatal("it goes on")
	}
	require.Equal(t, 0, first.ExitCode())
	require.Equal(t, before, l.versions())
}
