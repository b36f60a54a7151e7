package cloneset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/history"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

const (
	idAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	idLength   = 5
)

// newID draws an instance id; intn is a source of random numbers below its argument.
func newID(intn func(int) int) string {
	id := make([]byte, idLength)
	for i := range id {
		id[i] = idAlphabet[intn(len(idAlphabet))]
	}
	return string(id)
}

func ownerReference(set *v1beta1.CloneSet) metav1.OwnerReference {
	return *metav1.NewControllerRef(set, v1beta1.Kind("CloneSet"))
}

// newPod makes the Pod of that id from a revision's template. All but the template is as the set says now.
func newPod(set *v1beta1.CloneSet, r *appsv1.ControllerRevision, made blueprint, id string, now time.Time) *corev1.Pod {
	template := made.template
	labels, annotations := pods.FromTemplate(template)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            set.Name + "-" + id,
			GenerateName:    set.Name + "-",
			Namespace:       set.Namespace,
			Labels:          labels,
			Annotations:     annotations,
			Finalizers:      slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{ownerReference(set)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	maps.Copy(p.Labels, target(r.Name).Labels)
	p.Labels[pub.CloneSetInstanceIDKey] = id
	p.Labels[pub.LifecycleStateKey] = string(pub.LifecycleStatePreparingNormal)
	p.Annotations[pub.LifecycleTimestampKey] = now.UTC().Format(time.RFC3339)
	for _, gate := range []corev1.PodConditionType{pub.InPlaceUpdateReady, pub.KruisePodReady} {
		if !pods.HasGate(p, gate) {
			p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: gate})
		}
	}
	p.Spec.Volumes = withClaims(set, made.claims, p.Spec.Volumes, id)
	return p
}

// withClaims puts the volumes of the claims first, in the order of the claim templates. They replace namesakes.
func withClaims(set *v1beta1.CloneSet, templates []corev1.PersistentVolumeClaim, volumes []corev1.Volume, id string) []corev1.Volume {
	if len(templates) == 0 {
		return volumes
	}
	var out []corev1.Volume
	taken := map[string]bool{}
	for i := range templates {
		name := templates[i].Name
		taken[name] = true
		out = append(out, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, name, id)},
		}})
	}
	for _, v := range volumes {
		if !taken[v.Name] {
			out = append(out, v)
		}
	}
	return out
}

func claimName(set *v1beta1.CloneSet, template, id string) string {
	return template + "-" + set.Name + "-" + id
}

// newClaims makes the claims of the Pod of that id.
func newClaims(set *v1beta1.CloneSet, templates []corev1.PersistentVolumeClaim, id string) []*corev1.PersistentVolumeClaim {
	claims := make([]*corev1.PersistentVolumeClaim, len(templates))
	for i := range templates {
		template := &templates[i]
		labels := map[string]string{}
		maps.Copy(labels, template.Labels)
		maps.Copy(labels, set.Spec.Selector.MatchLabels)
		labels[pub.CloneSetInstanceIDKey] = id
		claims[i] = &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name:            claimName(set, template.Name, id),
				Namespace:       set.Namespace,
				Labels:          labels,
				Annotations:     maps.Clone(template.Annotations),
				OwnerReferences: []metav1.OwnerReference{ownerReference(set)},
			},
			Spec: *template.Spec.DeepCopy(),
		}
	}
	return claims
}

// podReference makes a Pod the controller of its claim. It blocks nothing: that would take a permission on Pods' finalizers.
func podReference(p *corev1.Pod) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}
}

// idOf is a Pod's instance id. Its name tells, since nobody can change that; the label does where others chose the name.
func idOf(p *corev1.Pod, set *v1beta1.CloneSet) string {
	if id, ok := strings.CutPrefix(p.Name, set.Name+"-"); ok && isID(id) {
		return id
	}
	return p.Labels[pub.CloneSetInstanceIDKey]
}

// idOfClaim is the instance id that a claim is of, in the same way.
func idOfClaim(c *corev1.PersistentVolumeClaim, set *v1beta1.CloneSet) string {
	if i := strings.LastIndex(c.Name, "-"); i >= 0 && isID(c.Name[i+1:]) && strings.HasSuffix(c.Name[:i], "-"+set.Name) {
		return c.Name[i+1:]
	}
	return c.Labels[pub.CloneSetInstanceIDKey]
}

func isID(text string) bool {
	return text != "" && !strings.Contains(text, "-")
}

// revisionOwner is what the history needs to know of the set.
func revisionOwner(set *v1beta1.CloneSet, claimsHash string) (history.Owner, error) {
	annotations := map[string]string{}
	maps.Copy(annotations, set.Annotations)
	delete(annotations, pub.CloneSetVolumeClaimTemplatesKey)
	annotations[pub.CloneSetVolumeClaimTemplateHashKey] = claimsHash
	if len(set.Spec.VolumeClaimTemplates) > 0 {
		raw, err := json.Marshal(set.Spec.VolumeClaimTemplates)
		if err != nil {
			return history.Owner{}, fmt.Errorf("encoding volumeClaimTemplates: %w", err)
		}
		annotations[pub.CloneSetVolumeClaimTemplatesKey] = string(raw)
	}
	return history.Owner{
		Owner: revision.Owner{
			Name: set.Name, Namespace: set.Namespace, Reference: ownerReference(set),
			Labels: set.Spec.Template.Labels, Annotations: annotations,
		},
		UID: set.UID, Generation: set.Generation, Template: &set.Spec.Template, CollisionCount: ptr.Deref(set.Status.CollisionCount, 0),
		UpdateRevision: set.Status.UpdateRevision, CurrentRevision: set.Status.CurrentRevision,
		Renewed: map[string]string{pub.CloneSetVolumeClaimTemplateHashKey: claimsHash},
	}, nil
}
