package statefulset

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/history"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/lifecycle"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"

	"k8s.io/utils/ptr"
)

func ownerReference(set *v1beta1.StatefulSet) metav1.OwnerReference {
	return *metav1.NewControllerRef(set, v1beta1.Kind("StatefulSet"))
}

// parentAndOrdinal split a Pod's name. ok is false for a name that no set gives, such as one with a padded ordinal: its Pod
// would stand in for the one of the set.
func parentAndOrdinal(name string) (parent string, ordinal int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(name[i+1:], 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != name[i+1:] {
		return "", 0, false
	}
	return name[:i], int32(n), true
}

func podName(set *v1beta1.StatefulSet, ordinal int32) string {
	return set.Name + "-" + strconv.Itoa(int(ordinal))
}

func claimName(set *v1beta1.StatefulSet, template string, ordinal int32) string {
	return template + "-" + podName(set, ordinal)
}

func claimNames(set *v1beta1.StatefulSet, ordinal int32) []string {
	var out []string
	for i := range set.Spec.VolumeClaimTemplates {
		out = append(out, claimName(set, set.Spec.VolumeClaimTemplates[i].Name, ordinal))
	}
	return out
}

// newPod makes the Pod of an ordinal from a revision's template.
func newPod(set *v1beta1.StatefulSet, r *appsv1.ControllerRevision, template *corev1.PodTemplateSpec, ordinal int32, now time.Time) *corev1.Pod {
	labels, annotations := pods.FromTemplate(template)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(set, ordinal), GenerateName: set.Name + "-", Namespace: set.Namespace,
			Labels: labels, Annotations: annotations,
			Finalizers: slices.Clone(template.Finalizers), OwnerReferences: []metav1.OwnerReference{ownerReference(set)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	maps.Copy(p.Labels, identity(p.Name, ordinal))
	maps.Copy(p.Labels, target(r.Name).Labels)
	state := pub.LifecycleStateNormal
	if hook := lifecycle.PreNormal(set.Spec.Lifecycle); hook != nil && !lifecycle.AllHooked(hook, p) {
		state = pub.LifecycleStatePreparingNormal
	}
	p.Labels[pub.LifecycleStateKey] = string(state)
	p.Annotations[pub.LifecycleTimestampKey] = now.UTC().Format(time.RFC3339)
	p.Spec.Hostname, p.Spec.Subdomain = p.Name, set.Spec.ServiceName
	p.Spec.Volumes = withClaims(set, p.Spec.Volumes, ordinal)
	if !pods.HasGate(p, pub.KruisePodReady) {
		p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: pub.KruisePodReady})
	}
	return p
}

// identity are the labels by which a Pod says who it is.
func identity(name string, ordinal int32) map[string]string {
	return map[string]string{appsv1.StatefulSetPodNameLabel: name, appsv1.PodIndexLabel: strconv.Itoa(int(ordinal))}
}

// target is a revision with the label of Pods that are at it.
func target(name string) inplace.Target {
	return inplace.Target{Revision: name, Labels: map[string]string{pub.ControllerRevisionHashKey: revision.LabelValue(name)}}
}

// withClaims puts the volumes of the claims first, in the order of the claim templates. They replace namesakes.
func withClaims(set *v1beta1.StatefulSet, volumes []corev1.Volume, ordinal int32) []corev1.Volume {
	var out []corev1.Volume
	taken := map[string]bool{}
	for i := range set.Spec.VolumeClaimTemplates {
		name := set.Spec.VolumeClaimTemplates[i].Name
		taken[name] = true
		out = append(out, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, name, ordinal)},
		}})
	}
	return append(out, slices.DeleteFunc(slices.Clone(volumes), func(v corev1.Volume) bool { return taken[v.Name] })...)
}

// newClaim makes the claim of an ordinal from its template.
func newClaim(set *v1beta1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int32) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: claimName(set, template.Name, ordinal), Namespace: set.Namespace,
			Labels: map[string]string{}, Annotations: maps.Clone(template.Annotations),
		},
		Spec: *template.Spec.DeepCopy(),
	}
	maps.Copy(claim.Labels, template.Labels)
	maps.Copy(claim.Labels, set.Spec.Selector.MatchLabels)
	if deletesClaims(set).whenDeleted {
		claim.OwnerReferences = []metav1.OwnerReference{claimOwner(set)}
	}
	return claim
}

// revisionOwner is what the history needs to know of the set.
func (c *Controller) revisionOwner(set *v1beta1.StatefulSet) history.Owner {
	return history.Owner{
		Owner: revision.Owner{
			Name: set.Name, Namespace: set.Namespace, Reference: ownerReference(set),
			Labels: set.Spec.Template.Labels, Annotations: set.Annotations,
		},
		UID: set.UID, Generation: set.Generation, Template: &set.Spec.Template, CollisionCount: ptr.Deref(set.Status.CollisionCount, 0),
		UpdateRevision: set.Status.UpdateRevision, CurrentRevision: set.Status.CurrentRevision,
		MayAdopt: func(ctx context.Context) (bool, error) { return c.mayAdopt(ctx, set) },
	}
}
