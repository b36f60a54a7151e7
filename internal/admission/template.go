package admission

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
)

// Templates has Pod templates judged by the API server that will have to accept the Pods.
type Templates struct {
	Client kubernetes.Interface
	// slots bounds the questions that are under way.
	slots chan struct{}
}

const (
	templatesAtOnce = 16
	templateWithin  = 2 * time.Second
)

// NewTemplates asks with that client.
func NewTemplates(client kubernetes.Interface) *Templates {
	return &Templates{Client: client, slots: make(chan struct{}, templatesAtOnce)}
}

// notChecked are the warnings where the API server could not be asked.
func notChecked(at *field.Path) []string {
	return []string{at.String() + " was not checked: the API server did not judge it; mistakes show when Pods are created"}
}

// CheckChanged is Check of a template that is new or differs from was: one that is unchanged must not block the change of
// something else, whatever the API server thinks of it today.
func (t *Templates) CheckChanged(ctx context.Context, namespace string, was, is *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim, at *field.Path) (field.ErrorList, []string) {
	if t == nil || was != nil && equality.Semantic.DeepEqual(was, is) {
		return nil, nil
	}
	return t.Check(ctx, namespace, is, claims, at)
}

// Check sends a template as a PodTemplate that is not stored. Anything but a verdict is no refusal: the controller will
// report what remains. claims are added as volumes of their names.
func (t *Templates) Check(ctx context.Context, namespace string, template *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim, at *field.Path) (field.ErrorList, []string) {
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	default:
		return nil, notChecked(at)
	}
	ctx, cancel := context.WithTimeout(ctx, templateWithin)
	defer cancel()
	p := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{GenerateName: "check-", Namespace: namespace}, Template: *template.DeepCopy()}
	have := map[string]bool{}
	for _, v := range p.Template.Spec.Volumes {
		have[v.Name] = true
	}
	for i := range claims {
		if name := claims[i].Name; !have[name] {
			have[name] = true
			p.Template.Spec.Volumes = append(p.Template.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
	}
	_, err := t.Client.CoreV1().PodTemplates(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationIgnore})
	switch {
	case err == nil:
		return nil, nil
	case !apierrors.IsInvalid(err):
		return nil, notChecked(at)
	}
	return causes(err, at), nil
}

// causes are those of the refusal, at the place of the template.
func causes(err error, at *field.Path) field.ErrorList {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	var errs field.ErrorList
	for _, c := range status.Status().Details.Causes {
		name, ok := strings.CutPrefix(c.Field, "template")
		if !ok {
			continue
		}
		errs = append(errs, &field.Error{Type: field.ErrorType(c.Type), Field: at.String() + name, BadValue: field.OmitValueType{}, Detail: c.Message})
	}
	if len(errs) == 0 {
		errs = field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	return errs
}
