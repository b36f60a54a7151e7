// Package hooks is the one table of admission hooks: which requests the API server asks webhook-server about, under which
// conditions, and what becomes of them when nobody answers. The manifests are generated from it (hack/manifests), and a test
// compares it with what webhook-server serves.
//
// A hook is called only if it could matter: selectors and conditions are judged in the API server, before any call.
package hooks

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hook is one admission hook.
type Hook struct {
	// Name is what the API server's metrics and audit annotations call it.
	Name string
	// Path is where webhook-server answers.
	Path string
	// Mutates: it may change objects; the others may only refuse them.
	Mutates bool
	// OfPods: it is called for Pods, whose failure policy and namespaces an administrator chooses apart from the others'.
	OfPods bool
	// Rule are the requests. Versions are all that are served: a request is judged in the version in which it was written.
	Rule admissionv1.RuleWithOperations
	// FailurePolicy is what happens to a request when nobody answers, unless an administrator chooses otherwise.
	FailurePolicy admissionv1.FailurePolicyType
	// TimeoutSeconds is how long the API server waits for an answer.
	TimeoutSeconds int32
	// Conditions all have to hold, or the hook is not called.
	Conditions []admissionv1.MatchCondition
}

// Resources of group apps.kruise.io, each with its hooks, in the order in which they are shipped.
var resources = []string{"clonesets", "statefulsets", "broadcastjobs", "advancedcronjobs", "uniteddeployments", "sidecarsets"}

const (
	// A Pod waits for the hook, and so does whoever creates it.
	podTimeout  = 5
	kindTimeout = 10
)

// All are the hooks in the order in which the API server is to call them; that of Pods is first.
func All() []Hook {
	all := []Hook{podHook()}
	for _, mutates := range []bool{true, false} {
		for _, resource := range resources {
			all = append(all, kindHook(resource, mutates))
		}
	}
	return all
}

// ExcludedNamespaces are those whose Pods nobody asks about, beside the suite's own: what the cluster itself needs must not
// wait for a Pod that needs the cluster.
func ExcludedNamespaces() []string { return []string{metav1.NamespaceSystem} }

// ControlPlaneLabel is a label of namespaces, whatever its value, whose Pods nobody asks about.
const ControlPlaneLabel = "control-plane"

// podHook is ignored when nobody answers, because it stands before every Pod of the cluster. An admission policy then refuses the
// Pods that a SidecarSet selects.
func podHook() Hook {
	return Hook{
		Name: "mpod.kb.io", Path: "/mutate-pod", Mutates: true, OfPods: true,
		Rule:          rule("", []string{"v1"}, "pods", admissionv1.Create),
		FailurePolicy: admissionv1.Ignore, TimeoutSeconds: podTimeout,
		Conditions: []admissionv1.MatchCondition{{
			Name:       "not-mirror",
			Expression: "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)",
		}},
	}
}

func kindHook(resource string, mutates bool) Hook {
	kind := strings.TrimSuffix(resource, "s")
	h := Hook{
		Name: "v" + kind + ".kb.io", Path: "/validate-apps-kruise-io-" + kind, Mutates: mutates,
		Rule:          rule("apps.kruise.io", []string{"v1alpha1", "v1beta1"}, resource, admissionv1.Create, admissionv1.Update),
		FailurePolicy: admissionv1.Fail, TimeoutSeconds: kindTimeout,
		Conditions: changes(),
	}
	if mutates {
		h.Name, h.Path = "m"+kind+".kb.io", "/mutate-apps-kruise-io-"+kind
	}
	return h
}

func rule(group string, versions []string, resource string, operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: versions, Resources: []string{resource}},
	}
}

// changes are writes that can matter to what an object asks for. Finalizers, owners and writes that change nothing are nobody's
// business, and what is being deleted is let go.
func changes() []admissionv1.MatchCondition {
	differ := func(member string) string {
		return "has(object." + member + ") != has(oldObject." + member + ") ||\n" +
			"has(object." + member + ") && object." + member + " != oldObject." + member
	}
	return []admissionv1.MatchCondition{
		{Name: "not-terminating", Expression: "request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp)"},
		{Name: "relevant", Expression: "request.operation == 'CREATE' ||\n" +
			differ("spec") + " ||\n" + differ("metadata.labels") + " ||\n" + differ("metadata.annotations")},
	}
}
