package cloneset

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

// blueprint is what the Pods of a revision are made from.
type blueprint struct {
	template *corev1.PodTemplateSpec
	claims   []corev1.PersistentVolumeClaim
}

// blueprint of the update revision is the spec. An older one has its own template and the claim templates of the spec, and
// beside these the ones of its own time that its containers mount and that are nowhere else.
func (s *Snapshot) blueprint(r *appsv1.ControllerRevision) (blueprint, error) {
	present := s.Set.Spec.VolumeClaimTemplates
	if r == s.Update {
		return blueprint{&s.Set.Spec.Template, present}, nil
	}
	template, err := revision.Decode(r.Data.Raw)
	if err != nil {
		return blueprint{}, fmt.Errorf("ControllerRevision %s: %w", r.Name, err)
	}
	made := blueprint{template, slices.Clone(present)}
	text := r.Annotations[pub.CloneSetVolumeClaimTemplatesKey]
	if text == "" {
		return made, nil
	}
	var former []corev1.PersistentVolumeClaim
	if err := json.Unmarshal([]byte(text), &former); err != nil {
		return blueprint{}, fmt.Errorf("annotation %s of ControllerRevision %s: %w", pub.CloneSetVolumeClaimTemplatesKey, r.Name, err)
	}
	for i := range former {
		if made.lacks(former[i].Name) {
			made.claims = append(made.claims, former[i])
		}
	}
	return made, nil
}

// lacks says whether a container mounts or maps a volume that there is not.
func (b blueprint) lacks(volume string) bool {
	if slices.ContainsFunc(b.claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == volume }) ||
		slices.ContainsFunc(b.template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume }) {
		return false
	}
	for _, list := range [][]corev1.Container{b.template.Spec.InitContainers, b.template.Spec.Containers} {
		for i := range list {
			if slices.ContainsFunc(list[i].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume }) ||
				slices.ContainsFunc(list[i].VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == volume }) {
				return true
			}
		}
	}
	return false
}
