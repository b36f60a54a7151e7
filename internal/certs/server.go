package certs

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// api is all that a pass does to the API server.
type api interface {
	// secret reads a Secret as it is now; nil: there is none.
	secret(ctx context.Context, name string) (*corev1.Secret, error)
	// createSecret makes an empty Secret; two may do so at the same time.
	createSecret(ctx context.Context, name string) error
	// updateSecret writes a Secret under the version that it was read with.
	updateSecret(ctx context.Context, s *corev1.Secret) error
	// patchTarget applies a JSON patch and returns the object as it is then.
	patchTarget(ctx context.Context, kind, name string, body []byte) (metav1.Object, error)
}

const (
	fieldManager   = "flotilla-cert-rotator"
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "cert-rotator"
	requestTimeout = 10 * time.Second
)

// server is the API server.
type server struct {
	namespace  string
	kube       kubernetes.Interface
	extensions apiextensions.Interface
}

func (a server) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := a.kube.CoreV1().Secrets(a.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return s, nil
}

// createSecret is an apply, which two may send at the same time, and which a role can allow for this name only.
func (a server) createSecret(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q,"labels":{%q:%q}},"type":%q}`,
		name, labelManagedBy, managedBy, corev1.SecretTypeOpaque)
	_, err := a.kube.CoreV1().Secrets(a.namespace).Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("creating Secret %s: %w", name, err)
	}
	return nil
}

func (a server) updateSecret(ctx context.Context, s *corev1.Secret) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := a.kube.CoreV1().Secrets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("writing Secret %s: %w", s.Name, err)
	}
	return nil
}

func (a server) patchTarget(ctx context.Context, kind, name string, body []byte) (metav1.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	options := metav1.PatchOptions{FieldManager: fieldManager}
	switch kind {
	case KindMutating:
		return checked(a.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(ctx, name, types.JSONPatchType, body, options))
	case KindValidating:
		return checked(a.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(ctx, name, types.JSONPatchType, body, options))
	default:
		return checked(a.extensions.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, name, types.JSONPatchType, body, options))
	}
}

func checked[T metav1.Object](object T, err error) (metav1.Object, error) {
	if err != nil {
		return nil, fmt.Errorf("patching: %w", err)
	}
	return object, nil
}
