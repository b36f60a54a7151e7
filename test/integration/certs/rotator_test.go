package certs

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/internal/certs"
	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	namespace     = "flotilla-system"
	caSecret      = "flotilla-webhook-ca"
	tlsSecret     = "flotilla-webhook-tls"
	configuration = "flotilla-validating-webhook-configuration"
	mutating      = "flotilla-mutating-webhook-configuration"
	clonesets     = "clonesets.apps.kruise.io"
)

// lab is one test's view of the cluster. The rotator's objects are the cluster's, so tests run one after the other.
type lab struct {
	*testing.T
	crds apiextensions.Interface
}

func newLab(t *testing.T) *lab {
	t.Helper()
	crds, err := apiextensions.NewForConfig(cluster.Config)
	require.NoError(t, err)
	l := &lab{t, crds}
	l.clean()
	t.Cleanup(l.clean)
	return l
}

// slack is how many times as long as a scenario allows is waited: the machine may be slow, and have other things to do.
const slack = 10

// within waits for what a scenario wants within a time, with slack, and tells how long it took.
func (l *lab) within(limit time.Duration, what string, check func(ctx context.Context) error) {
	l.Helper()
	begin := time.Now()
	harness.Eventually(l, what, slack*limit, check)
	l.Logf("%s: %s of %s", what, time.Since(begin).Round(time.Millisecond), limit)
}

// clean removes what a rotator makes, and the configurations that tests make. The test's own context may have ended.
func (l *lab) clean() {
	ctx := context.Background()
	for _, name := range []string{caSecret, tlsSecret} {
		err := cluster.Kube.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			l.Fatal(err)
		}
	}
	api := cluster.Kube.AdmissionregistrationV1()
	for _, err := range []error{
		api.ValidatingWebhookConfigurations().Delete(ctx, configuration, metav1.DeleteOptions{}),
		api.MutatingWebhookConfigurations().Delete(ctx, mutating, metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			l.Fatal(err)
		}
	}
	l.patchCRD(`[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":""}]`)
}

func (l *lab) patchCRD(patch string) {
	l.Helper()
	_, err := l.crds.ApiextensionsV1().CustomResourceDefinitions().Patch(context.Background(), clonesets, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(l, err)
}

// start runs a rotator by its own role.
func (l *lab) start(flags ...string) *localcluster.Process {
	l.Helper()
	return cluster.StartController(l, "cert-manager", namespace, flags...)
}

// configure makes a configuration with one hook of ours and one of somebody else.
func (l *lab) configure() {
	l.Helper()
	hook := func(name, service string) admissionv1.ValidatingWebhook {
		return admissionv1.ValidatingWebhook{
			Name: name, SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			FailurePolicy: ptr.To(admissionv1.Ignore),
			ClientConfig:  admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace, Name: service, Path: ptr.To("/validate")}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"*"}, Resources: []string{"nothing"}},
			}},
		}
	}
	_, err := cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(l.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: configuration},
		Webhooks:   []admissionv1.ValidatingWebhook{hook("vcloneset.kb.io", "flotilla-webhook"), hook("theirs.example.com", "another")},
	}, metav1.CreateOptions{})
	require.NoError(l, err)
}

// shipped is the manifest of the hooks. Nobody has to answer them as long as nobody writes what they are about.
func shipped() string { return filepath.Join(cluster.Root, "deploy", "webhooks", "webhooks.yaml") }

// ship applies it.
func (l *lab) ship() {
	l.Helper()
	l.kubectl("", "apply", "--server-side", "-f", shipped())
}

func (l *lab) hooks(ctx context.Context) (*admissionv1.ValidatingWebhookConfiguration, error) {
	return cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, configuration, metav1.GetOptions{})
}

func (l *lab) crdBundle(ctx context.Context) ([]byte, error) {
	crd, err := l.crds.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, clonesets, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return crd.Spec.Conversion.Webhook.ClientConfig.CABundle, nil
}

func (l *lab) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	return cluster.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

// verifies checks that the serving pair is trusted by a bundle.
func (l *lab) verifies(ctx context.Context, bundle []byte) error {
	s, err := l.secret(ctx, tlsSecret)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(s.Data["tls.crt"])
	if block == nil {
		return errors.New("there is no certificate yet")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return errors.New("the bundle holds nothing")
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "flotilla-webhook.flotilla-system.svc"})
	return err
}

// bootstrap is within what time a rotator that starts has done all that there is to do.
const bootstrap = 3 * time.Second

// trusted waits until everything that is to trust the serving pair does.
func (l *lab) trusted(withHooks bool) {
	l.Helper()
	l.trustedWithin(bootstrap, withHooks)
}

func (l *lab) trustedWithin(limit time.Duration, withHooks bool) {
	l.Helper()
	l.within(limit, "trust everywhere", func(ctx context.Context) error {
		bundle, err := l.crdBundle(ctx)
		if err != nil {
			return err
		}
		if err := l.verifies(ctx, bundle); err != nil || !withHooks {
			return err
		}
		hooks, err := l.hooks(ctx)
		if err != nil {
			return err
		}
		return l.verifies(ctx, hooks.Webhooks[0].ClientConfig.CABundle)
	})
}

func certificatesIn(bundle []byte) int { return bytes.Count(bundle, []byte("BEGIN CERTIFICATE")) }

// TestScenario001_AnEmptyClusterIsFilled has a webhook-server that waits for its pair, and the hooks as shipped.
func TestScenario001_AnEmptyClusterIsFilled(t *testing.T) {
	l := newLab(t)
	l.ship()
	crds := l.crds.ApiextensionsV1().CustomResourceDefinitions()
	health := harness.FreeAddress(t)
	cluster.StartController(t, "webhook-server", "", "--bind-address="+harness.FreeAddress(t), "--health-probe-bind-address="+health, "--shutdown-delay=1s")
	harness.Eventually(t, "the webhook-server", harness.Patience, func(ctx context.Context) error {
		_, err := localcluster.Get(ctx, "http://"+health+"/healthz")
		return err
	})
	isReady := func(ctx context.Context) error {
		_, err := localcluster.Get(ctx, "http://"+health+"/readyz")
		return err
	}
	require.Error(t, isReady(t.Context()), "there is no pair yet")

	l.start()
	l.within(bootstrap, "Secrets and bundles", func(ctx context.Context) error {
		ca, err := l.secret(ctx, caSecret)
		if err != nil {
			return err
		}
		for _, key := range []string{"current.crt", "current.key", "next.crt", "next.key"} {
			if len(ca.Data[key]) == 0 {
				return fmt.Errorf("%s is missing", key)
			}
		}
		bundle := ca.Data["bundle.crt"]
		if n := certificatesIn(bundle); n != 2 {
			return fmt.Errorf("%d certificates in the bundle", n)
		}
		if err := l.verifies(ctx, bundle); err != nil {
			return err
		}
		api := cluster.Kube.AdmissionregistrationV1()
		validating, err := l.hooks(ctx)
		if err != nil {
			return err
		}
		changing, err := api.MutatingWebhookConfigurations().Get(ctx, mutating, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var entries []admissionv1.WebhookClientConfig
		for i := range validating.Webhooks {
			entries = append(entries, validating.Webhooks[i].ClientConfig)
		}
		for i := range changing.Webhooks {
			entries = append(entries, changing.Webhooks[i].ClientConfig)
		}
		for i, e := range entries {
			if !bytes.Equal(e.CABundle, bundle) {
				return fmt.Errorf("hook %d does not hold the bundle", i)
			}
		}
		list, err := crds.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=flotilla"})
		if err != nil {
			return err
		}
		converted := 0
		for _, crd := range list.Items {
			if c := crd.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter {
				converted++
				if !bytes.Equal(c.Webhook.ClientConfig.CABundle, bundle) {
					return fmt.Errorf("%s does not hold the bundle", crd.Name)
				}
			}
		}
		if converted < 5 {
			return fmt.Errorf("%d kinds are converted", converted)
		}
		return nil
	})
	l.within(2*time.Second, "readiness of the webhook-server", isReady)
}

func TestScenario027To030_BundlesThatAreResetAreRepairedByOneWrite(t *testing.T) {
	l := newLab(t)
	l.configure()
	l.start(oneCRD)
	published := func(ctx context.Context) error { return l.published(ctx, 2) }
	l.within(bootstrap, "publishing", published)
	before, err := l.hooks(t.Context())
	require.NoError(t, err)
	require.Empty(t, before.Webhooks[1].ClientConfig.CABundle, "what calls somebody else is left alone")
	bundle := before.Webhooks[0].ClientConfig.CABundle
	first := bundle[:bytes.LastIndex(bundle, []byte("-----BEGIN"))]
	second := bundle[len(first):]
	foreign, err := certs.NewAuthority(rand.Reader, time.Now(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	reset := func(value []byte) {
		t.Helper()
		patch := fmt.Sprintf(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":%q}]`, base64.StdEncoding.EncodeToString(value))
		_, err := cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), configuration, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}

	for what, value := range map[string][]byte{
		"27 empty": nil, "28 garbage": []byte("garbage"), "28 a newline": []byte("\n"), "28 another authority": foreign.PEM(),
		"28 half of it": first, "29 a foreign one beside": slices.Concat(bundle, foreign.PEM()),
	} {
		mark := l.mark()
		reset(value)
		l.within(time.Second, what, published)
		l.wrote(mark, what, patchedHooks)
	}
	after, err := l.hooks(t.Context())
	require.NoError(t, err)
	before.Webhooks[0].ClientConfig.CABundle, after.Webhooks[0].ClientConfig.CABundle = nil, nil
	require.Equal(t, before.Webhooks, after.Webhooks, "nothing but the bundle was written")
	harness.Eventually(t, "the event", harness.Patience, func(ctx context.Context) error { return l.told(ctx, "CABundleRepaired") })

	t.Log("30: another order and a comment are no reset")
	mark := l.mark()
	reset(slices.Concat([]byte("# by hand\n"), second, first))
	// That nothing is done shows only in time. All the repairs from above took less.
	harness.Consistently(t, "no write", 2*time.Second, func(context.Context) error {
		if written := l.written(mark); len(written) > 0 {
			return fmt.Errorf("there was %v", written)
		}
		return nil
	})
	reset(nil)
	l.within(time.Second, "a repair", published)
	l.wrote(mark, "a repair", patchedHooks)
}

func TestScenario002_WhatAppearsLaterIsFilled(t *testing.T) {
	l := newLab(t)
	l.start(oneCRD)
	l.trusted(false)
	l.configure()
	l.trustedWithin(time.Second, true)
	require.NoError(t, cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), configuration, metav1.DeleteOptions{}))
	l.configure()
	l.trustedWithin(time.Second, true)
}

// TestScenario009_ACRDOfGarbageIsEstablished creates a CRD anew, with a bundle that is none.
func TestScenario009_ACRDOfGarbageIsEstablished(t *testing.T) {
	l := newLab(t)
	crds := l.crds.ApiextensionsV1().CustomResourceDefinitions()
	old, err := crds.Get(t.Context(), clonesets, metav1.GetOptions{})
	require.NoError(t, err)
	fresh := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: old.Name, Labels: old.Labels, Annotations: old.Annotations}, Spec: old.Spec}
	fresh.Spec.Conversion.Webhook.ClientConfig.CABundle = []byte("garbage")
	create := func(ctx context.Context) error {
		_, err := crds.Create(ctx, fresh, metav1.CreateOptions{})
		return err
	}
	isEstablished := func(ctx context.Context) error {
		crd, err := crds.Get(ctx, clonesets, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", crd.Status.Conditions)
	}
	require.NoError(t, crds.Delete(t.Context(), clonesets, metav1.DeleteOptions{}))
	t.Cleanup(func() {
		// Other tests need it, whatever has happened. The test's own context has ended by now.
		if _, err := crds.Get(context.Background(), clonesets, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			require.NoError(t, create(context.Background()))
		}
	})
	l.start(oneCRD)
	harness.Eventually(t, "the rotator", harness.Patience, func(ctx context.Context) error {
		_, err := l.secret(ctx, tlsSecret)
		return err
	})
	harness.Eventually(t, "a new CRD", harness.Patience, create)
	l.within(2*time.Second, "establishment", isEstablished)
	l.trusted(false)
}

func TestScenario004_TwoRotatorsMakeOneGeneration(t *testing.T) {
	l := newLab(t)
	l.configure()
	both := []*localcluster.Process{l.start(oneCRD), l.start(oneCRD)}
	l.within(5*time.Second, "one bundle everywhere", func(ctx context.Context) error { return l.published(ctx, 2) })
	first, err := l.secret(t.Context(), caSecret)
	require.NoError(t, err)
	// Whoever was slower is at work all the while.
	harness.Consistently(t, "one generation", 5*time.Second, func(ctx context.Context) error {
		if again, err := l.secret(ctx, caSecret); err != nil || again.ResourceVersion != first.ResourceVersion {
			return fmt.Errorf("the authorities were written again: %w", err)
		}
		return l.published(ctx, 2)
	})
	conflicts := 0
	for _, p := range both {
		require.Empty(t, l.logged(p, func(level, _ string) bool { return level == "error" || level == "warn" }))
		conflicts += len(l.logged(p, func(_, message string) bool {
			return strings.Contains(message, "overtaken") || strings.Contains(message, "changed meanwhile")
		}))
	}
	require.LessOrEqual(t, conflicts, 2, "lines about conflicts")
}

func TestScenarios042To047_SpoiledSecretsAreMendedAndTrustLasts(t *testing.T) {
	l := newLab(t)
	l.configure()
	const propagation = time.Second
	l.start(oneCRD, "--propagation-delay="+propagation.String())
	l.within(bootstrap, "publishing", func(ctx context.Context) error { return l.published(ctx, 2) })
	secrets := cluster.Kube.CoreV1().Secrets(namespace)
	spoil := func(name, patch string) func() error {
		return func() error {
			_, err := secrets.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}
	}
	foreign, err := certs.NewAuthority(rand.Reader, time.Now(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	leaf, err := certs.Issue(rand.Reader, foreign, []string{"flotilla-webhook.flotilla-system.svc"}, time.Now(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	pair, err := (&certs.Serving{Pair: leaf, Issuer: &foreign.Certificate}).Encode()
	require.NoError(t, err)
	other, err := json.Marshal(map[string]any{"data": map[string][]byte{"tls.crt": pair["tls.crt"], "tls.key": pair["tls.key"]}})
	require.NoError(t, err)

	certificates := 2
	for _, c := range []struct {
		what  string
		limit time.Duration
		spoil func() error
		// signs is what of the Secret from before is to sign now; empty: something new.
		signs string
		// keeps are what of the Secret is as it was, retires which certificate stays trusted.
		keeps   []string
		retires string
		writes  []string
	}{
		{
			what: "42 the serving Secret is deleted", limit: time.Second, signs: "current.crt", keeps: []string{"current.crt", "next.crt", "bundle.crt"},
			spoil:  func() error { return secrets.Delete(t.Context(), tlsSecret, metav1.DeleteOptions{}) },
			writes: []string{"patch secrets/" + tlsSecret, wroteTLS},
		},
		{
			what: "43 its certificate is garbage", limit: time.Second, signs: "current.crt", keeps: []string{"current.crt", "next.crt", "bundle.crt"},
			spoil: spoil(tlsSecret, `{"data":{"tls.crt":"Z2FyYmFnZQ=="}}`), writes: []string{wroteTLS},
		},
		{
			what: "44 it is by another authority", limit: time.Second, signs: "current.crt", keeps: []string{"current.crt", "next.crt", "bundle.crt"},
			spoil: spoil(tlsSecret, string(other)), writes: []string{wroteTLS},
		},
		{
			what: "47 the successor is garbage", limit: time.Second, signs: "current.crt", keeps: []string{"current.crt"},
			spoil: spoil(caSecret, `{"data":{"next.crt":"Z2FyYmFnZQ=="}}`), writes: []string{wroteCA, patchedCRD, patchedHooks},
		},
		{
			what: "46 the signer's key is lost", limit: time.Second, signs: "next.crt", retires: "current.crt",
			spoil: spoil(caSecret, `{"data":{"current.key":null}}`),
		},
		{
			what: "45 the authorities are deleted", limit: time.Second + propagation, retires: "current.crt",
			spoil: func() error { return secrets.Delete(t.Context(), caSecret, metav1.DeleteOptions{}) },
		},
	} {
		if c.retires != "" {
			certificates = 3
		}
		before, err := l.secret(t.Context(), caSecret)
		require.NoError(t, err)
		mark := l.mark()
		require.NoError(t, c.spoil(), c.what)
		var ca *corev1.Secret
		l.within(c.limit, c.what, func(ctx context.Context) (err error) {
			if ca, err = l.secret(ctx, caSecret); err != nil {
				return err
			}
			for _, key := range []string{"current.crt", "current.key", "next.crt", "next.key", "bundle.crt", "state.json"} {
				if len(ca.Data[key]) == 0 {
					return fmt.Errorf("%s is missing", key)
				}
			}
			if c.signs != "" && !bytes.Equal(ca.Data["current.crt"], before.Data[c.signs]) {
				return fmt.Errorf("the signer is not what was %s", c.signs)
			}
			if c.signs != "current.crt" && bytes.Equal(ca.Data["current.crt"], before.Data["current.crt"]) {
				return errors.New("the signer is the one from before")
			}
			return l.published(ctx, certificates)
		})
		for _, key := range c.keeps {
			require.Equal(t, before.Data[key], ca.Data[key], "%s: %s", c.what, key)
		}
		if c.retires != "" {
			require.Contains(t, string(ca.Data["bundle.crt"]), string(bytes.TrimSpace(before.Data[c.retires])), c.what)
		}
		if c.writes != nil {
			l.wrote(mark, c.what, c.writes...)
		}
	}
}

func TestScenario062_AnIdleRotatorWritesNothing(t *testing.T) {
	l := newLab(t)
	l.configure()
	p := l.start()
	l.trusted(true)
	var before string
	harness.Eventually(t, "rest", harness.Patience, func(context.Context) error {
		was := before
		if before = strings.Join(l.versions(), " "); before != was {
			return errors.New("something was written")
		}
		return nil
	})
	p.Kill()
	l.start()
	time.Sleep(3 * time.Second) // what would be wrong is what happens now
	require.Equal(t, before, strings.Join(l.versions(), " "))
}

// TestScenario063_OnlyWhatIsNamedIsRead: so what else is in the cluster costs nothing. The bench has the memory beside 20,000
// Secrets. What is compared here is what a Node's container_memory_rss counts: pages of the executable are no part of it.
func TestScenario063_OnlyWhatIsNamedIsRead(t *testing.T) {
	l := newLab(t)
	l.configure()
	g := newGate(t)
	p := g.start(l)
	l.trusted(true)
	rss, err := localcluster.MemoryOf(p.Pid(), "RssAnon:")
	require.NoError(t, err)
	t.Logf("%d MiB", rss>>20)
	require.Less(t, rss, int64(40<<20))
	g.mu.Lock()
	defer g.mu.Unlock()
	watches := map[string]bool{}
	for _, u := range g.collections {
		query := u.Query()
		require.Regexp(t, `^metadata\.name=[a-z.-]+$`, query.Get("fieldSelector"), u)
		if query.Get("watch") == "true" {
			watches[u.Path+" "+query.Get("fieldSelector")] = true
		}
	}
	require.NotEmpty(t, watches)
	require.LessOrEqual(t, len(watches), 12)
}

func TestScenario065_TheRoleAllowsNoMore(t *testing.T) {
	l := newLab(t)
	path, err := cluster.KubeconfigFor(t.Context(), "cert-manager", t.TempDir())
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	kube, err := kubernetes.NewForConfig(rest.CopyConfig(config))
	require.NoError(t, err)
	apply := func(name string) error {
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"type":"Opaque"}`, name)
		_, err := kube.CoreV1().Secrets(namespace).Patch(t.Context(), name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "test"})
		return err
	}
	require.NoError(t, apply(caSecret))
	require.True(t, apierrors.IsForbidden(apply("another")))
	require.True(t, apierrors.IsForbidden(kube.CoreV1().Secrets(namespace).Delete(t.Context(), caSecret, metav1.DeleteOptions{})))
	_, err = kube.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err))
	l.clean()
}

func TestScenario068_WrongFlagsAreNamed(t *testing.T) {
	p, err := cluster.Start("cert-manager", t.TempDir(), "--serving-renew-after=1920h", "--service=Not_A_Name")
	require.NoError(t, err)
	select {
	case <-p.Done():
	case <-time.After(harness.Patience):
		t.Fatal("it runs")
	}
	require.Contains(t, p.Tail(5), "--serving-renew-after")
	require.Contains(t, p.Tail(5), "--service")
}
