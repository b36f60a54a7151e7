// Package pod says what admission does with Pods that are created.
//
// The sidecars themselves are not injected yet. So a Pod that a SidecarSet selects is left without a mark: the marks
// (kruise.io/sidecarset-injected-list, apps.kruise.io/sidecarset-evaluated) say that its sidecars are in it, or rightly
// not, and the guard (deploy/sidecar-guard/sidecar-guard.yaml) lets a Pod pass by them. Whoever sets a mark here has injected
// before; the guard and the injection are installed together.
package pod

import (
	"context"
	"fmt"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// Source is where the hook learns about SidecarSets.
type Source interface {
	// Ready says why nothing is known yet.
	Ready() error
	// Selecting are the SidecarSets that select a Pod of those labels. An error means that this cannot be known now.
	Selecting(ctx context.Context, namespace string, labels map[string]string) ([]*v1beta1.SidecarSet, error)
}

// Results of reviews of Pods, as metrics name them. What becomes of Pods that are selected is told by the injection.
const (
	resultUnselected = "unselected"
	resultError      = "error"
)

// Mutate answers reviews of Pods. observe is told of every result.
func Mutate(source Source, observe func(result string)) admission.Handle {
	resource := schema.GroupResource{Resource: "pods"}
	return admission.Reviews(resource, "Pod", []admissionv1.Operation{admissionv1.Create}, func(ctx context.Context, r *admission.Asked) (*admissionv1.AdmissionResponse, error) {
		if r.Resource.Version != corev1.SchemeGroupVersion.Version {
			return nil, fmt.Errorf("%w: version is %q: must be v1", admission.ErrMalformed, r.Resource.Version)
		}
		p, err := read(r.Object)
		if err != nil {
			return nil, fmt.Errorf("%w: request.object: %w", admission.ErrMalformed, err)
		}
		if p.isLeftAlone() {
			return admission.Patched()
		}
		selecting, err := selecting(ctx, source, r.Namespace, p)
		switch {
		case err != nil:
			observe(resultError)
			return nil, fmt.Errorf("%w: %w", admission.ErrNotReady, err)
		case len(selecting) == 0:
			observe(resultUnselected)
		}
		return admission.Patched(p.withGate()...)
	})
}

// selecting are the sets that select the Pod. Its namespace is that of the request where it names none.
func selecting(ctx context.Context, source Source, namespace string, p *facts) ([]*v1beta1.SidecarSet, error) {
	if err := source.Ready(); err != nil {
		return nil, err
	}
	for _, name := range []string{p.namespace, namespace, metav1.NamespaceDefault} {
		if name != "" {
			return source.Selecting(ctx, name, p.labels)
		}
	}
	return nil, nil
}

// withGate is the change that gives the Pod the readiness gate that the controllers of this API write themselves: a Pod of
// theirs that was made without it can never be held back.
func (p *facts) withGate() []admission.Operation {
	if !p.isOurs || p.hasGate {
		return nil
	}
	gate := corev1.PodReadinessGate{ConditionType: pub.KruisePodReady}
	if p.gates == 0 {
		return []admission.Operation{{Op: "add", Path: "/spec/readinessGates", Value: []corev1.PodReadinessGate{gate}}}
	}
	return []admission.Operation{{Op: "add", Path: "/spec/readinessGates/" + strconv.Itoa(p.gates), Value: gate}}
}
