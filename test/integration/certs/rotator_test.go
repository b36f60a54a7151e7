package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
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

	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	namespace     = "flotilla-system"
	caSecret      = "flotilla-webhook-ca"
	tlsSecret     = "flotilla-webhook-tls"
	configuration = "flotilla-validating-webhook-configuration"
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

// clean removes what a rotator makes, and the configuration that tests make. The test's own context may have ended.
func (l *lab) clean() {
	ctx := context.Background()
	for _, name := range []string{caSecret, tlsSecret} {
		err := cluster.Kube.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			l.Fatal(err)
		}
	}
	err := cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, configuration, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		l.Fatal(err)
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

// trusted waits until everything that is to trust the serving pair does.
func (l *lab) trusted(withHooks bool) {
	l.Helper()
	harness.Eventually(l, "trust everywhere", harness.Patience, func(ctx context.Context) error {
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

func TestScenario001And027_BundlesAreFilledAndRepaired(t *testing.T) {
	l := newLab(t)
	l.configure()
	l.start()
	l.trusted(true)
	bundle, err := l.crdBundle(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, certificatesIn(bundle))
	before, err := l.hooks(t.Context())
	require.NoError(t, err)
	require.Empty(t, before.Webhooks[1].ClientConfig.CABundle, "what calls somebody else is left alone")

	for what, value := range map[string]string{
		"empty":       "",
		"garbage":     base64.StdEncoding.EncodeToString([]byte("garbage")),
		"one's own":   base64.StdEncoding.EncodeToString(bundle[:len(bundle)/2]),
		"one newline": "Cg==",
	} {
		patch := fmt.Sprintf(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":%q}]`, value)
		_, err := cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), configuration, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err, what)
		l.trusted(true)
	}
	after, err := l.hooks(t.Context())
	require.NoError(t, err)
	before.Webhooks[0].ClientConfig.CABundle, after.Webhooks[0].ClientConfig.CABundle = nil, nil
	require.Equal(t, before.Webhooks, after.Webhooks, "nothing but the bundle was written")

	l.patchCRD(`[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":""}]`)
	l.trusted(true)
}

func TestScenario002_WhatAppearsLaterIsFilled(t *testing.T) {
	l := newLab(t)
	l.start()
	l.trusted(false)
	l.configure()
	l.trusted(true)
	require.NoError(t, cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), configuration, metav1.DeleteOptions{}))
	l.configure()
	l.trusted(true)
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
	begun := time.Now()
	l.trusted(false)
	harness.Eventually(t, "establishment", harness.Patience, isEstablished)
	t.Logf("established after %s", time.Since(begun))
}

func TestScenario004_TwoRotatorsMakeOneGeneration(t *testing.T) {
	l := newLab(t)
	l.configure()
	l.start()
	l.start()
	l.trusted(true)
	first, err := l.secret(t.Context(), caSecret)
	require.NoError(t, err)
	harness.Eventually(t, "two certificates everywhere", harness.Patience, func(ctx context.Context) error {
		bundle, err := l.crdBundle(ctx)
		if err == nil && !bytes.Equal(bundle, first.Data["bundle.crt"]) {
			err = errors.New("another bundle than the Secret's")
		}
		return err
	})
	again, err := l.secret(t.Context(), caSecret)
	require.NoError(t, err)
	require.Equal(t, first.ResourceVersion, again.ResourceVersion)
}

func TestScenarios042To047_SpoiledSecretsAreMendedAndTrustLasts(t *testing.T) {
	l := newLab(t)
	l.configure()
	l.start("--propagation-delay=1s")
	l.trusted(true)
	secrets := cluster.Kube.CoreV1().Secrets(namespace)
	for what, spoil := range map[string]func() error{
		"42 the serving Secret is deleted": func() error { return secrets.Delete(t.Context(), tlsSecret, metav1.DeleteOptions{}) },
		"43 its certificate is garbage": func() error {
			_, err := secrets.Patch(t.Context(), tlsSecret, types.MergePatchType, []byte(`{"data":{"tls.crt":"Z2FyYmFnZQ=="}}`), metav1.PatchOptions{})
			return err
		},
		"45 the authorities are deleted": func() error { return secrets.Delete(t.Context(), caSecret, metav1.DeleteOptions{}) },
		"46 the signer's key is lost": func() error {
			_, err := secrets.Patch(t.Context(), caSecret, types.MergePatchType, []byte(`{"data":{"current.key":null}}`), metav1.PatchOptions{})
			return err
		},
	} {
		require.NoError(t, spoil(), what)
		harness.Eventually(t, what, harness.Patience, func(ctx context.Context) error {
			ca, err := l.secret(ctx, caSecret)
			if err != nil {
				return err
			}
			for _, key := range []string{"current.crt", "current.key", "next.crt", "next.key", "bundle.crt", "state.json"} {
				if len(ca.Data[key]) == 0 {
					return fmt.Errorf("%s is missing", key)
				}
			}
			return l.verifies(ctx, ca.Data["current.crt"])
		})
		l.trusted(true)
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

// TestScenario063_OnlyWhatIsNamedIsRead: so what else is in the cluster costs nothing. The bench has the memory beside 20,000 Secrets.
func TestScenario063_OnlyWhatIsNamedIsRead(t *testing.T) {
	l := newLab(t)
	l.configure()
	g := newGate(t)
	g.start(l)
	l.trusted(true)
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
