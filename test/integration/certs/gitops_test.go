package certs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/flotilla-k8s/flotilla/internal/certs"
	"github.com/flotilla-k8s/flotilla/test/harness"
)

// manifest is the configuration as somebody keeps it in a repository: without any caBundle.
func manifest(t *testing.T, hooks ...string) string {
	t.Helper()
	type object = map[string]any
	var list []any
	for _, name := range hooks {
		list = append(list, object{
			"name": name, "sideEffects": "None", "admissionReviewVersions": []string{"v1"}, "failurePolicy": "Ignore",
			"clientConfig": object{"service": object{"namespace": namespace, "name": "flotilla-webhook", "path": "/validate"}},
			"rules": []any{object{
				"operations": []string{"CREATE"}, "apiGroups": []string{"example.com"}, "apiVersions": []string{"*"}, "resources": []string{"nothing"},
			}},
		})
	}
	raw, err := json.Marshal(object{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
		"metadata": object{"name": configuration}, "webhooks": list,
	})
	require.NoError(t, err)
	return string(raw)
}

func (l *lab) kubectl(stdin string, args ...string) {
	l.Helper()
	out, err := cluster.KubectlInput(stdin, args...)
	require.NoError(l, err, out)
}

// wipe resets the bundle of one hook as somebody else would.
func (l *lab) wipe(hook int) {
	l.Helper()
	l.patchHooks(fmt.Sprintf(`[{"op":"add","path":"/webhooks/%d/clientConfig/caBundle","value":""}]`, hook))
}

func (l *lab) patchHooks(patch string) {
	l.Helper()
	_, err := cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(l.Context(), configuration, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(l, err)
}

// filled says what is missing until every hook holds the bundle.
func (l *lab) filled(ctx context.Context) error {
	ca, err := l.secret(ctx, caSecret)
	if err != nil {
		return err
	}
	hooks, err := l.hooks(ctx)
	if err != nil {
		return err
	}
	for _, h := range hooks.Webhooks {
		if len(h.ClientConfig.CABundle) == 0 || !bytes.Equal(h.ClientConfig.CABundle, ca.Data["bundle.crt"]) {
			return fmt.Errorf("%s does not hold the bundle", h.Name)
		}
	}
	return l.published(ctx, 2)
}

func TestScenario031_WhatIsCreatedAnewIsFilled(t *testing.T) {
	l := newLab(t)
	both := manifest(t, "a.example.com", "b.example.com")
	l.kubectl(both, "apply", "--server-side", "-f", "-")
	l.start(oneCRD)
	l.within(bootstrap, "publishing", l.filled)
	l.kubectl(both, "replace", "-f", "-")
	l.within(time.Second, "filling what was replaced without", l.filled)
	mark := l.mark()
	l.kubectl(manifest(t, "a.example.com"), "replace", "--force", "-f", "-")
	l.within(time.Second, "filling what was created anew", l.filled)
	l.wrote(mark, "filling what was created anew", patchedHooks)
	hooks, err := l.hooks(t.Context())
	require.NoError(t, err)
	require.Len(t, hooks.Webhooks, 1)
}

// threeWay applies the shipped hooks as Helm 3 upgrades a release: the patch is made from the manifest from before, the same
// one now, and what is there.
func (l *lab) threeWay() {
	l.Helper()
	raw, err := os.ReadFile(shipped())
	require.NoError(l, err)
	api := cluster.Kube.AdmissionregistrationV1()
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		wanted, err := yaml.ToJSON([]byte(document))
		require.NoError(l, err)
		var head metav1.PartialObjectMetadata
		require.NoError(l, json.Unmarshal(wanted, &head))
		var live, kind any
		if head.Name == configuration {
			kind = &admissionv1.ValidatingWebhookConfiguration{}
			live, err = api.ValidatingWebhookConfigurations().Get(l.Context(), head.Name, metav1.GetOptions{})
		} else {
			kind = &admissionv1.MutatingWebhookConfiguration{}
			live, err = api.MutatingWebhookConfigurations().Get(l.Context(), head.Name, metav1.GetOptions{})
		}
		require.NoError(l, err)
		current, err := json.Marshal(live)
		require.NoError(l, err)
		schema, err := strategicpatch.NewPatchMetaFromStruct(kind)
		require.NoError(l, err)
		patch, err := strategicpatch.CreateThreeWayMergePatch(wanted, wanted, current, schema, true)
		require.NoError(l, err)
		require.NotContains(l, string(patch), "caBundle")
		if head.Name == configuration {
			_, err = api.ValidatingWebhookConfigurations().Patch(l.Context(), head.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "helm"})
		} else {
			_, err = api.MutatingWebhookConfigurations().Patch(l.Context(), head.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "helm"})
		}
		require.NoError(l, err)
	}
}

// TestScenario032_ApplyingTheManifestsAgainCausesNoWrite is about the hooks and a CRD as shipped. A CRD is too large for what
// kubectl notes of it when it applies by itself.
func TestScenario032_ApplyingTheManifestsAgainCausesNoWrite(t *testing.T) {
	l := newLab(t)
	l.ship()
	crd := filepath.Join(cluster.Root, "deploy", "crds", "apps.kruise.io_clonesets.yaml")
	l.start(oneCRD)
	l.within(bootstrap, "publishing", l.filled)
	serverSide := []string{"--server-side", "-f", shipped(), "-f", crd}
	for _, c := range []struct {
		what        string
		apply, diff []string
		do          func()
	}{
		{"the server's apply", append([]string{"apply"}, serverSide...), append([]string{"diff"}, serverSide...), nil},
		{"a three-way merge", nil, append([]string{"diff"}, serverSide...), l.threeWay},
		{"kubectl's apply", []string{"apply", "-f", shipped()}, []string{"diff", "-f", shipped()}, nil},
	} {
		mark := l.mark()
		if c.do != nil {
			c.do()
		} else {
			l.kubectl("", c.apply...)
		}
		require.NoError(t, l.filled(t.Context()), "%s leaves the bundles as they are", c.what)
		l.kubectl("", c.diff...)
		// What the rotator does about a reset, it does after it has seen what was applied before.
		l.wipe(0)
		l.within(time.Second, "a repair after "+c.what, l.filled)
		l.wrote(mark, c.what, patchedHooks)
	}
}

func TestScenario033_ACRDReplacedWithoutBundleIsRepaired(t *testing.T) {
	l := newLab(t)
	l.configure()
	l.start(oneCRD)
	published := func(ctx context.Context) error { return l.published(ctx, 2) }
	l.within(bootstrap, "publishing", published)
	crds := l.crds.ApiextensionsV1().CustomResourceDefinitions()
	crd, err := crds.Get(t.Context(), clonesets, metav1.GetOptions{})
	require.NoError(t, err)
	crd.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
	mark := l.mark()
	crd, err = crds.Update(t.Context(), crd, metav1.UpdateOptions{FieldManager: "gitops"})
	require.NoError(t, err)
	l.within(time.Second, "the repair", published)
	after, err := crds.Get(t.Context(), clonesets, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, crd.Generation+1, after.Generation, "by one write")
	l.wrote(mark, "the repair", patchedCRD)
	harness.Eventually(t, "the event", harness.Patience, func(ctx context.Context) error { return l.told(ctx, "CABundleRepaired") })
}

func TestScenario034_AHookThatIsAddedIsFilledIfItCallsUs(t *testing.T) {
	l := newLab(t)
	l.configure()
	l.start(oneCRD)
	l.within(bootstrap, "publishing", func(ctx context.Context) error { return l.published(ctx, 2) })
	hooks, err := l.hooks(t.Context())
	require.NoError(t, err)
	more := hooks.Webhooks[:2:2]
	for i, name := range []string{"ours.example.com", "strange.example.com"} {
		h := hooks.Webhooks[i].DeepCopy()
		h.Name, h.ClientConfig.CABundle = name, nil
		more = append(more, *h)
	}
	hooks.Webhooks = more
	mark := l.mark()
	_, err = cluster.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(t.Context(), hooks, metav1.UpdateOptions{})
	require.NoError(t, err)
	l.within(time.Second, "filling the new hook", func(ctx context.Context) error {
		hooks, err := l.hooks(ctx)
		if err == nil && !bytes.Equal(hooks.Webhooks[2].ClientConfig.CABundle, hooks.Webhooks[0].ClientConfig.CABundle) {
			err = errors.New("it does not hold the bundle")
		}
		return err
	})
	l.wrote(mark, "filling what was added", patchedHooks)
	hooks, err = l.hooks(t.Context())
	require.NoError(t, err)
	require.Empty(t, hooks.Webhooks[1].ClientConfig.CABundle)
	require.Empty(t, hooks.Webhooks[3].ClientConfig.CABundle, "it calls somebody else")
}

// TestScenario035_WhatElseIsEditedStays also when the rotator writes, and when another one begins, who knows only what it reads.
func TestScenario035_WhatElseIsEditedStays(t *testing.T) {
	l := newLab(t)
	l.kubectl(manifest(t, "a.example.com", "b.example.com"), "apply", "--server-side", "-f", "-")
	p := l.start(oneCRD)
	l.within(bootstrap, "publishing", l.filled)
	l.patchHooks(`[{"op":"replace","path":"/webhooks/1/failurePolicy","value":"Fail"},
		{"op":"replace","path":"/webhooks/1/timeoutSeconds","value":7},
		{"op":"replace","path":"/webhooks/1/rules/0/resources","value":["nothing","something"]},
		{"op":"add","path":"/webhooks/1/rules/-","value":{"operations":["DELETE"],"apiGroups":["example.com"],"apiVersions":["v1"],"resources":["more"],"scope":"*"}},
		{"op":"replace","path":"/webhooks/1/namespaceSelector","value":{"matchLabels":{"env":"prod"}}},
		{"op":"replace","path":"/webhooks/1/objectSelector","value":{"matchExpressions":[{"key":"app","operator":"Exists"}]}}]`)
	edited, err := l.hooks(t.Context())
	require.NoError(t, err)
	require.Equal(t, admissionv1.Fail, *edited.Webhooks[1].FailurePolicy)
	require.Len(t, edited.Webhooks[1].Rules, 2)
	require.Equal(t, map[string]string{"env": "prod"}, edited.Webhooks[1].NamespaceSelector.MatchLabels)
	stays := func(when string) {
		t.Helper()
		hooks, err := l.hooks(t.Context())
		require.NoError(t, err)
		require.Equal(t, edited.Webhooks, hooks.Webhooks, when)
	}
	for i, hook := range []string{"another hook", "the hook itself"} {
		l.wipe(i)
		l.within(time.Second, "a repair of "+hook, l.filled)
		stays("after a repair of " + hook)
	}
	p.Kill()
	l.wipe(1)
	l.start(oneCRD)
	l.within(bootstrap, "a repair by one who begins", l.filled)
	stays("after a start")
}

// TestScenario036_AHookThatAToolDropsStaysDropped has a tool that forces nothing: it must not meet us as an owner of the hook.
func TestScenario036_AHookThatAToolDropsStaysDropped(t *testing.T) {
	l := newLab(t)
	apply := func(hooks ...string) {
		t.Helper()
		l.kubectl(manifest(t, hooks...), "apply", "--server-side", "--field-manager=gitops", "-f", "-")
	}
	apply("a.example.com", "b.example.com", "c.example.com")
	l.start(oneCRD)
	l.within(bootstrap, "publishing", l.filled)
	apply("b.example.com", "c.example.com")
	names := func() (out []string) {
		t.Helper()
		hooks, err := l.hooks(t.Context())
		require.NoError(t, err)
		for _, h := range hooks.Webhooks {
			out = append(out, h.Name)
		}
		return out
	}
	require.Equal(t, []string{"b.example.com", "c.example.com"}, names())
	require.NoError(t, l.filled(t.Context()), "the others keep their bundles")
	mark := l.mark()
	l.wipe(1)
	l.within(time.Second, "our next write", l.filled)
	l.wrote(mark, "our next write", patchedHooks)
	require.Equal(t, []string{"b.example.com", "c.example.com"}, names())
}

func TestScenario037_AToolThatResetsACRDIsNamed(t *testing.T) {
	l := newLab(t)
	l.configure()
	l.start(oneCRD)
	repaired := func(ctx context.Context) error { return l.published(ctx, 2) }
	harness.Eventually(t, "publishing", harness.Patience, repaired)
	other, err := certs.NewAuthority(rand.Reader, time.Now(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	reset := fmt.Appendf(nil, `[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":%q}]`, base64.StdEncoding.EncodeToString(other.PEM()))
	wipe := func() {
		_, err := l.crds.ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), clonesets, types.JSONPatchType,
			reset, metav1.PatchOptions{FieldManager: "gitops-tool"})
		require.NoError(t, err)
	}
	for range 3 {
		wipe()
		harness.Eventually(t, "a repair", harness.Patience, repaired)
	}
	harness.Eventually(t, "the event", harness.Patience, func(ctx context.Context) error {
		events, err := cluster.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=CABundleContested"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, `"gitops-tool"`) {
				return nil
			}
		}
		return errors.New("nobody is named")
	})
	begin := time.Now()
	wipe()
	harness.Eventually(t, "a repair that takes its time", harness.Patience, repaired)
	require.Greater(t, time.Since(begin), 5*time.Second, "a CRD's watches are not closed all the time")
}
