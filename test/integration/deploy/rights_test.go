package deploy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// rights are what somebody may do: one verb on one resource, with a name where only that is allowed.
type rights map[string]bool

// allow adds verbs on a resource, of the given names or of any.
func (r rights) allow(resource string, verbs []string, names ...string) rights {
	if len(names) == 0 {
		names = []string{"*"}
	}
	for _, v := range verbs {
		for _, n := range names {
			r[v+" "+resource+" "+n] = true
		}
	}
	return r
}

var read = []string{"get", "list", "watch"}

// as is a client with the token of a ServiceAccount.
func as(t *testing.T, account string) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	file, err := cluster.KubeconfigFor(t.Context(), account, t.TempDir())
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", file)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return config, client
}

// effective asks the API server what an account may do in a namespace: `kubectl auth can-i --list`.
func effective(t *testing.T, account, namespace string) rights {
	t.Helper()
	_, client := as(t, account)
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), review, metav1.CreateOptions{})
	require.NoError(t, err)
	out := rights{}
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if group != "" {
					resource += "." + group
				}
				out.allow(resource, rule.Verbs, rule.ResourceNames...)
			}
		}
	}
	for _, rule := range review.Status.NonResourceRules {
		for _, url := range rule.NonResourceURLs {
			out.allow(url, rule.Verbs)
		}
	}
	return out
}

// beyond are the rights that not every account has.
func (r rights) beyond(everybody rights) []string {
	var out []string
	for right := range r {
		if !everybody[right] {
			out = append(out, right)
		}
	}
	slices.Sort(out)
	return out
}

// spec are the rights that the specification lists: those of the cluster, and with them those in the suite's own namespace.
func webhookServerRights() (everywhere, own rights) {
	list := func() rights {
		return rights{}.allow("sidecarsets.apps.kruise.io", read).allow("namespaces", read).
			allow("storageclasses.storage.k8s.io", read).allow("podtemplates", []string{"create"})
	}
	return list(), list().allow("secrets", read, "flotilla-webhook-tls").
		allow("controllerrevisions.apps", read).allow("configmaps", read, "kruise-configuration")
}

func certRotatorRights() (everywhere, own rights) {
	patch := []string{"get", "list", "watch", "patch"}
	list := func() rights {
		r := rights{}
		for _, kind := range []string{"clonesets", "statefulsets", "sidecarsets", "broadcastjobs", "advancedcronjobs", "uniteddeployments"} {
			r.allow("customresourcedefinitions.apiextensions.k8s.io", patch, kind+".apps.kruise.io")
		}
		return r.allow("mutatingwebhookconfigurations.admissionregistration.k8s.io", patch, mutating).
			allow("validatingwebhookconfigurations.admissionregistration.k8s.io", patch, validating)
	}
	const leases = "leases.coordination.k8s.io"
	return list(), list().
		allow("secrets", []string{"get", "list", "watch", "update", "patch", "create"}, "flotilla-webhook-ca", "flotilla-webhook-tls").
		allow(leases, []string{"get", "update"}, "flotilla-cert-rotator").allow(leases, []string{"create"}).
		allow("events", []string{"create", "patch"})
}

func TestScenario080_RightsAreThoseOfTheSpecificationAndNoOther(t *testing.T) {
	install(t, suite(t).folder(t))
	nobody := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody", Namespace: system}}
	_, err := cluster.Kube.CoreV1().ServiceAccounts(system).Create(t.Context(), nobody, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = cluster.Kube.CoreV1().ServiceAccounts(system).Delete(context.Background(), "nobody", metav1.DeleteOptions{})
	})
	for account, want := range map[string]func() (rights, rights){"webhook-server": webhookServerRights, "cert-manager": certRotatorRights} {
		everywhere, own := want()
		for namespace, list := range map[string]rights{system: own, metav1.NamespaceDefault: everywhere, metav1.NamespaceSystem: everywhere} {
			t.Run(account+" in "+namespace, func(t *testing.T) {
				// The API server tells of new roles after they were written.
				harness.Eventually(t, "the rights", harness.Patience, func(context.Context) error {
					if got := effective(t, account, namespace).beyond(effective(t, "nobody", namespace)); !slices.Equal(list.beyond(nil), got) {
						require.Subset(t, list.beyond(nil), got, "not in the specification")
						return errors.New("some are not granted yet")
					}
					return nil
				})
			})
		}
	}
	_, server := as(t, "webhook-server")
	_, err = server.CoreV1().Secrets(system).Get(t.Context(), "flotilla-webhook-ca", metav1.GetOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	_, err = server.CoreV1().Secrets(system).List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	_, err = server.CoreV1().Secrets(system).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=flotilla-webhook-tls"})
	require.NoError(t, err)
}

// TestRequestsOfWebhookServerHaveALevelOfTheirOwn: a burst of creates must not wait for the questions that it causes.
func TestRequestsOfWebhookServerHaveALevelOfTheirOwn(t *testing.T) {
	install(t, suite(t).folder(t))
	schemas := cluster.Kube.FlowcontrolV1()
	flow, err := schemas.FlowSchemas().Get(t.Context(), "flotilla-webhook-server", metav1.GetOptions{})
	require.NoError(t, err)
	level, err := schemas.PriorityLevelConfigurations().Get(t.Context(), "flotilla-webhook-server", metav1.GetOptions{})
	require.NoError(t, err)
	config, _ := as(t, "webhook-server")
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	harness.Eventually(t, "a request of that level", harness.Patience, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/namespaces/"+system, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.Header.Get("X-Kubernetes-Pf-Flowschema-Uid") != string(flow.UID) || response.Header.Get("X-Kubernetes-Pf-Prioritylevel-Uid") != string(level.UID) {
			return errors.New("it is of another")
		}
		return nil
	})
}
