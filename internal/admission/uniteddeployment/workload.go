package uniteddeployment

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/admission/cloneset"
	"github.com/flotilla-k8s/flotilla/internal/admission/statefulset"
)

const rollingUpdate = "RollingUpdate"

// workload is what the four kinds of templates have in common.
type workload struct {
	at       *field.Path
	metadata *metav1.ObjectMeta
	replicas *int32
	pods     *corev1.PodTemplateSpec
	claims   []corev1.PersistentVolumeClaim
	// isTolerant: what is overwritten anyway is only warned of.
	isTolerant, isStateful bool
	// partition is that of a rolling update, strategy the type that the update strategy says.
	partition *int32
	strategy  string
}

func workloads(t *v1beta1.SubsetTemplate) []workload {
	at := field.NewPath("spec", "template")
	var out []workload
	if w := t.StatefulSetTemplate; w != nil {
		one := workload{
			at: at.Child("statefulSetTemplate"), metadata: &w.ObjectMeta, replicas: w.Spec.Replicas, pods: &w.Spec.Template, claims: w.Spec.VolumeClaimTemplates,
			isStateful: true, strategy: string(w.Spec.UpdateStrategy.Type),
		}
		if r := w.Spec.UpdateStrategy.RollingUpdate; r != nil {
			one.partition = r.Partition
		}
		out = append(out, one)
	}
	if w := t.AdvancedStatefulSetTemplate; w != nil {
		one := workload{
			at: at.Child("advancedStatefulSetTemplate"), metadata: &w.ObjectMeta, replicas: w.Spec.Replicas, pods: &w.Spec.Template, claims: w.Spec.VolumeClaimTemplates,
			isStateful: true, strategy: string(w.Spec.UpdateStrategy.Type),
		}
		if r := w.Spec.UpdateStrategy.RollingUpdate; r != nil {
			one.partition = r.Partition
		}
		out = append(out, one)
	}
	if w := t.CloneSetTemplate; w != nil {
		out = append(out, workload{
			at: at.Child("cloneSetTemplate"), metadata: &w.ObjectMeta, replicas: w.Spec.Replicas, pods: &w.Spec.Template, claims: w.Spec.VolumeClaimTemplates, isTolerant: true,
		})
	}
	if w := t.DeploymentTemplate; w != nil {
		out = append(out, workload{at: at.Child("deploymentTemplate"), metadata: &w.ObjectMeta, replicas: w.Spec.Replicas, pods: &w.Spec.Template})
	}
	return out
}

func validateTemplate(t *v1beta1.SubsetTemplate, selector labels.Selector) (field.ErrorList, []string) {
	at := field.NewPath("spec", "template")
	list := workloads(t)
	var errs field.ErrorList
	var warnings []string
	switch {
	case len(list) == 0:
		errs = append(errs, field.Required(at, "exactly one template"))
	case len(list) > 1:
		errs = append(errs, field.Invalid(at, len(list), "exactly one template"))
	}
	for i := range list {
		more, warned := validateWorkload(&list[i], selector)
		errs, warnings = append(errs, more...), append(warnings, warned...)
	}
	if t.StatefulSetTemplate != nil {
		errs = append(errs, validateStatefulSet(&t.StatefulSetTemplate.Spec, at.Child("statefulSetTemplate", "spec"))...)
	}
	if t.CloneSetTemplate != nil {
		s, path := &t.CloneSetTemplate.Spec, at.Child("cloneSetTemplate", "spec")
		errs, warnings = append(errs, validateCloneSet(s, path)...), append(warnings, cloneset.AdviseTemplate(s, path)...)
	}
	if t.AdvancedStatefulSetTemplate != nil {
		warnings = append(warnings, statefulset.Advise(&t.AdvancedStatefulSetTemplate.Spec, at.Child("advancedStatefulSetTemplate", "spec"))...)
	}
	if t.DeploymentTemplate != nil {
		errs = append(errs, admission.CheckEndless(&t.DeploymentTemplate.Spec.Template.Spec, at.Child("deploymentTemplate", "spec", "template", "spec"))...)
	}
	return errs, warnings
}

func validateWorkload(w *workload, selector labels.Selector) (field.ErrorList, []string) {
	var errs field.ErrorList
	var warnings []string
	say := func(e *field.Error, isHarmless bool) {
		if isHarmless {
			warnings = append(warnings, fmt.Sprintf("%s is overwritten: it %s", e.Field, e.Detail))
		} else {
			errs = append(errs, e)
		}
	}
	if selector != nil && !selector.Matches(labels.Set(w.metadata.Labels)) {
		say(field.Invalid(w.at.Child("metadata", "labels"), w.metadata.Labels, "must match spec.selector"), w.isTolerant)
	}
	if w.replicas != nil {
		say(field.Invalid(w.at.Child("spec", "replicas"), *w.replicas, "must be absent: the topology says it"), w.isTolerant)
	}
	if w.partition != nil && (w.strategy == "" || w.strategy == rollingUpdate) {
		say(field.Invalid(w.at.Child("spec", "updateStrategy", "rollingUpdate", "partition"), *w.partition, "must be absent: manualUpdate says it"), w.strategy == "")
	}
	metadata := w.at.Child("spec", "template", "metadata")
	errs = append(errs, metavalidation.ValidateLabels(w.pods.Labels, metadata.Child("labels"))...)
	errs = append(errs, validation.ValidateAnnotations(w.pods.Annotations, metadata.Child("annotations"))...)
	if selector != nil && !selector.Matches(labels.Set(w.pods.Labels)) {
		errs = append(errs, field.Invalid(metadata.Child("labels"), w.pods.Labels, "must match spec.selector"))
	}
	return errs, warnings
}

// validateStatefulSet is what the API server will say of the StatefulSet, but for its containers.
func validateStatefulSet(s *appsv1.StatefulSetSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch s.PodManagementPolicy {
	case "", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		errs = append(errs, field.Invalid(at.Child("podManagementPolicy"), s.PodManagementPolicy, "must be OrderedReady or Parallel"))
	}
	strategy := at.Child("updateStrategy")
	switch u := &s.UpdateStrategy; u.Type {
	case "", appsv1.RollingUpdateStatefulSetStrategyType:
	case appsv1.OnDeleteStatefulSetStrategyType:
		if u.RollingUpdate != nil {
			errs = append(errs, field.Invalid(strategy.Child("rollingUpdate"), "", "must be absent with type OnDelete"))
		}
	default:
		errs = append(errs, field.Invalid(strategy.Child("type"), u.Type, "must be RollingUpdate or OnDelete"))
	}
	if p := s.PersistentVolumeClaimRetentionPolicy; p != nil {
		path := at.Child("persistentVolumeClaimRetentionPolicy")
		errs = append(errs, validateRetention(p.WhenDeleted, path.Child("whenDeleted"))...)
		errs = append(errs, validateRetention(p.WhenScaled, path.Child("whenScaled"))...)
	}
	errs = append(errs, admission.NotNegative(s.MinReadySeconds, at.Child("minReadySeconds"))...)
	if s.Ordinals != nil {
		errs = append(errs, admission.NotNegative(s.Ordinals.Start, at.Child("ordinals", "start"))...)
	}
	return append(errs, admission.CheckEndless(&s.Template.Spec, at.Child("template", "spec"))...)
}

func validateRetention(p appsv1.PersistentVolumeClaimRetentionPolicyType, at *field.Path) field.ErrorList {
	switch p {
	case "", appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType:
		return nil
	}
	return field.ErrorList{field.NotSupported(at, p, []appsv1.PersistentVolumeClaimRetentionPolicyType{
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	})}
}

func validateCloneSet(s *v1beta1.CloneSetSpec, at *field.Path) field.ErrorList {
	errs := admission.CheckAmount(s.ScaleStrategy.MaxUnavailable, at.Child("scaleStrategy", "maxUnavailable"))
	if r, path := s.UpdateStrategy.RollingUpdate, at.Child("updateStrategy", "rollingUpdate"); r != nil {
		errs = append(errs, admission.CheckAmount(r.Partition, path.Child("partition"))...)
		errs = append(errs, admission.CheckAmount(r.MaxUnavailable, path.Child("maxUnavailable"))...)
		errs = append(errs, admission.CheckAmount(r.MaxSurge, path.Child("maxSurge"))...)
	}
	return errs
}
