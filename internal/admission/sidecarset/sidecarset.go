// Package sidecarset says what admission does with SidecarSets.
package sidecarset

import (
	"context"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/injection"
)

// Source is where the rules learn about the rest of the cluster.
type Source interface {
	// Ready says why nothing is known yet.
	Ready() error
	Cluster() *Cluster
}

// Kind is what admission does with SidecarSets. Their containers are judged as those of a Pod in the namespace; templates may
// be nil: then they are not.
func Kind(source Source, templates *admission.Templates, namespace string) admission.Kind {
	templates = templates.Elsewhere()
	return admission.Rules[v1beta1.SidecarSet]{
		Resource: "sidecarsets", Kind: "SidecarSet", Default: setDefaults, AlphaField: alphaField, Ready: source.Ready,
		Validate: func(ctx context.Context, old, set *v1beta1.SidecarSet, r admission.Request) (field.ErrorList, []string) {
			u, at := &set.Spec.UpdateStrategy, field.NewPath("spec", "updateStrategy")
			warnings := admission.WarnOfMoreThanAll(u.Partition, admission.MeansNone, at.Child("partition"))
			warnings = append(warnings, admission.WarnOfMoreThanAll(u.MaxUnavailable, admission.MeansAll, at.Child("maxUnavailable"))...)
			cluster := source.Cluster()
			warnings = append(warnings, adviseOthers(set, cluster)...)
			if errs := Validate(old, set, cluster); len(errs) > 0 {
				return errs, warnings
			}
			errs, more := judge(ctx, templates, old, set, admission.Request{Namespace: namespace, Name: r.Name, Object: r.Object})
			return errs, append(warnings, more...)
		},
	}.Of()
}

// judge has the sidecars judged as those of a Pod.
func judge(ctx context.Context, templates *admission.Templates, old, set *v1beta1.SidecarSet, r admission.Request) (field.ErrorList, []string) {
	object, err := conversion.Decode(r.Object)
	if err == nil {
		r.Object, err = conversion.Encode(conversion.Tree{"template": asWritten(object)})
	}
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}, nil
	}
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = template(old)
	}
	errs, warnings := templates.CheckChanged(ctx, r, was, template(set), nil, field.NewPath("template"))
	for _, e := range errs {
		e.Field = strings.TrimPrefix(e.Field, "template.")
	}
	for i, w := range warnings {
		if place, isBelow := strings.CutPrefix(w, "template."); isBelow {
			warnings[i] = place
		} else {
			warnings[i] = strings.Replace(w, "template", "spec", 1)
		}
	}
	return errs, warnings
}

// setDefaults also takes the hashes, of what is stored then.
func setDefaults(_, set *v1beta1.SidecarSet) {
	v1beta1.SetDefaults_SidecarSet(set)
	hashes, err := injection.HashesOf(&set.Spec)
	if err != nil {
		// What cannot be encoded here cannot be encoded as an answer either, which is where it is reported.
		return
	}
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	set.Annotations[pub.SidecarSetHashKey] = hashes.Full
	set.Annotations[pub.SidecarSetHashWithoutImageKey] = hashes.WithoutImage
}

// alphaField is where an object of v1alpha1 has a field, or the field itself where it has none.
func alphaField(name string, object []byte) string {
	switch {
	case name == "spec.customVersion":
		return "metadata.labels"
	case strings.HasPrefix(name, "spec.namespaceSelector") && admission.Has(object, "spec.namespace"):
		return "spec.namespace"
	}
	return name
}

// template holds what the API server judges; it tells whether that changed.
func template(set *v1beta1.SidecarSet) *corev1.PodTemplateSpec {
	set = defaulted(set)
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: plain(set.Spec.InitContainers), Containers: plain(set.Spec.Containers), Volumes: set.Spec.Volumes,
	}}
}

func plain(list []v1beta1.SidecarContainer) []corev1.Container {
	var out []corev1.Container
	for i := range list {
		out = append(out, list[i].Container)
	}
	return out
}

// asWritten is a template of a Pod of the sidecars alone.
func asWritten(object conversion.Tree) conversion.Tree {
	spec, _ := object["spec"].(conversion.Tree)
	pod := conversion.Tree{"restartPolicy": corev1.RestartPolicyAlways, "dnsPolicy": corev1.DNSClusterFirst, "serviceAccountName": "default"}
	if volumes, there := spec["volumes"]; there {
		pod["volumes"] = volumes
	}
	names := map[any]bool{}
	for _, member := range []string{"initContainers", "containers"} {
		list, _ := spec[member].([]any)
		var out []any
		for _, c := range list {
			container, _ := c.(conversion.Tree)
			out = append(out, coreMembers(container))
			names[container["name"]] = true
		}
		pod[member] = out
	}
	if containers, _ := pod["containers"].([]any); len(containers) == 0 {
		// A Pod needs one, of a name that is free.
		name := "application"
		for names[name] {
			name += "x"
		}
		pod["containers"] = []any{conversion.Tree{"name": name, "image": name}}
	}
	return conversion.Tree{"spec": pod}
}

// coreMembers leaves out those that only SidecarSets have.
func coreMembers(container conversion.Tree) conversion.Tree {
	out := maps.Clone(container)
	for _, member := range []string{"podInjectPolicy", "upgradeStrategy", "shareVolumePolicy", "shareVolumeDevicePolicy", "transferEnv", "resourcesPolicy"} {
		delete(out, member)
	}
	return out
}

func defaulted(set *v1beta1.SidecarSet) *v1beta1.SidecarSet {
	set = set.DeepCopy()
	v1beta1.SetDefaults_SidecarSet(set)
	return set
}
