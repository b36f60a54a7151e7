package sidecarset

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/injection"
)

// maxHotName leaves room for what the names of the two containers end in.
const maxHotName = 61

// mostContainers are those of either list.
const mostContainers = 100

// validateContainers is for what SidecarSets add to containers. The containers themselves are judged by the API server.
func validateContainers(s *v1beta1.SidecarSetSpec, spec *field.Path) field.ErrorList {
	errs := admission.CheckCount(len(s.InitContainers), mostContainers, spec.Child("initContainers"))
	if errs = append(errs, admission.CheckCount(len(s.Containers), mostContainers, spec.Child("containers"))...); len(errs) > 0 {
		return errs
	}
	for i := range s.InitContainers {
		errs = append(errs, validateContainer(&s.InitContainers[i], true, spec.Child("initContainers").Index(i))...)
	}
	for i := range s.Containers {
		errs = append(errs, validateContainer(&s.Containers[i], false, spec.Child("containers").Index(i))...)
	}
	seen := map[string]bool{}
	for _, n := range names(s) {
		if seen[n.name] {
			errs = append(errs, field.Duplicate(n.at, n.name))
		}
		seen[n.name] = true
	}
	return errs
}

func validateContainer(c *v1beta1.SidecarContainer, isInit bool, at *field.Path) field.ErrorList {
	errs := validatePlace(c, isInit, at)
	if p := c.ShareVolumeDevicePolicy; p != nil && p.Type != "" && !isSwitch(p) {
		errs = append(errs, field.NotSupported(at.Child("shareVolumeDevicePolicy", "type"), p.Type, switches()))
	}
	errs = append(errs, validateUpgrade(c, isInit, at)...)
	for j := range c.TransferEnv {
		errs = append(errs, validateTransfer(&c.TransferEnv[j], at.Child("transferEnv").Index(j))...)
	}
	if c.ResourcesPolicy != nil {
		errs = append(errs, validateResources(c, isInit, at.Child("resourcesPolicy"))...)
	}
	return errs
}

// validatePlace reports the same of both lists, each as it always was.
func validatePlace(c *v1beta1.SidecarContainer, isInit bool, at *field.Path) field.ErrorList {
	place, share := at.Child("podInjectPolicy"), at.Child("shareVolumePolicy")
	var errs field.ErrorList
	places := []v1beta1.PodInjectPolicyType{v1beta1.BeforeAppContainerType, v1beta1.AfterAppContainerType}
	switch {
	case slices.Contains(places, c.PodInjectPolicy):
	case isInit:
		errs = append(errs, field.NotSupported(place, c.PodInjectPolicy, places))
	default:
		errs = append(errs, field.Invalid(place, c.PodInjectPolicy, "must be BeforeAppContainer or AfterAppContainer"))
	}
	switch {
	case isSwitch(&c.ShareVolumePolicy):
	case isInit:
		errs = append(errs, field.NotSupported(share.Child("type"), c.ShareVolumePolicy.Type, switches()))
	default:
		errs = append(errs, field.Invalid(share, c.ShareVolumePolicy.Type, "must be enabled or disabled"))
	}
	return errs
}

func switches() []v1beta1.ShareVolumePolicyType {
	return []v1beta1.ShareVolumePolicyType{v1beta1.ShareVolumePolicyEnabled, v1beta1.ShareVolumePolicyDisabled}
}

func isSwitch(p *v1beta1.ShareVolumePolicy) bool {
	return slices.Contains(switches(), p.Type)
}

func validateUpgrade(c *v1beta1.SidecarContainer, isInit bool, at *field.Path) field.ErrorList {
	u, path := &c.UpgradeStrategy, at.Child("upgradeStrategy")
	switch u.UpgradeType {
	case v1beta1.SidecarContainerColdUpgrade:
		return nil
	case v1beta1.SidecarContainerHotUpgrade:
	default:
		return field.ErrorList{field.NotSupported(path.Child("upgradeType"), u.UpgradeType, []v1beta1.SidecarContainerUpgradeType{
			v1beta1.SidecarContainerColdUpgrade, v1beta1.SidecarContainerHotUpgrade,
		})}
	}
	if isInit && !injection.IsNative(&c.Container) {
		return field.ErrorList{field.Invalid(path.Child("upgradeType"), u.UpgradeType, "is for containers that go on running")}
	}
	var errs field.ErrorList
	switch u.HotUpgradeEmptyImage {
	case "":
		errs = append(errs, field.Required(path.Child("hotUpgradeEmptyImage"), "is the image of the idle one of the two containers"))
	case c.Image:
		errs = append(errs, field.Invalid(path.Child("hotUpgradeEmptyImage"), u.HotUpgradeEmptyImage, "must be another than the sidecar's: nothing would tell the idle container from it"))
	}
	for j := range c.Ports {
		if p := c.Ports[j].HostPort; p != 0 {
			errs = append(errs, field.Invalid(at.Child("ports").Index(j).Child("hostPort"), p, "both containers of a HotUpgrade would want it"))
		}
	}
	if len(c.Name) > maxHotName {
		errs = append(errs, field.TooLong(at.Child("name"), c.Name, maxHotName))
	}
	return errs
}

func validateTransfer(t *v1beta1.TransferEnvVar, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.SourceContainerNameFrom != nil {
		errs = validateFieldRef(t.SourceContainerNameFrom.FieldRef, at.Child("sourceContainerNameFrom", "fieldRef"))
	} else if t.SourceContainerName == "" {
		errs = append(errs, field.Required(at, "one of sourceContainerName and sourceContainerNameFrom"))
	}
	if t.EnvName == "" && len(t.EnvNames) == 0 {
		errs = append(errs, field.Required(at, "one of envName and envNames"))
	}
	return errs
}

func validateFieldRef(r *corev1.ObjectFieldSelector, at *field.Path) field.ErrorList {
	switch {
	case r == nil:
		return field.ErrorList{field.Required(at, "names a label or annotation")}
	case r.APIVersion != "v1":
		return field.ErrorList{field.Invalid(at, r.APIVersion, "apiVersion must be v1")}
	case r.FieldPath == "":
		return field.ErrorList{field.Required(at, "names a label or annotation")}
	}
	parts := regexp.MustCompile(`^metadata\.(labels|annotations)\['(.*)'\]$`).FindStringSubmatch(r.FieldPath)
	if parts == nil {
		return field.ErrorList{field.Invalid(at, r.FieldPath, "must be metadata.labels['KEY'] or metadata.annotations['KEY']")}
	}
	key := parts[2]
	if parts[1] == "annotations" {
		key = strings.ToLower(key)
	}
	var errs field.ErrorList
	for _, problem := range validation.IsQualifiedName(key) {
		errs = append(errs, field.Invalid(at, r.FieldPath, problem))
	}
	return errs
}

func validateResources(c *v1beta1.SidecarContainer, isInit bool, at *field.Path) field.ErrorList {
	if isInit && !injection.IsNative(&c.Container) {
		return field.ErrorList{field.Invalid(at, "", "is for containers that go on running")}
	}
	if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
		return field.ErrorList{field.Invalid(at, "", "only one of resources and resourcesPolicy")}
	}
	p := c.ResourcesPolicy
	var errs field.ErrorList
	pattern := at.Child("targetContainersNameRegex")
	if p.TargetContainersNameRegex == "" {
		errs = append(errs, field.Required(pattern, "selects the containers that count"))
	} else if _, err := regexp.Compile(p.TargetContainersNameRegex); err != nil {
		errs = append(errs, field.Invalid(pattern, p.TargetContainersNameRegex, err.Error()))
	}
	x, expressions := &p.ResourcesExpr, at.Child("resourcesExpr")
	if x.Limits == nil && x.Requests == nil {
		errs = append(errs, field.Required(expressions, "at least one of limits and requests"))
	}
	if x.Limits != nil {
		errs = append(errs, validateExpressions(x.Limits.CPU, x.Limits.Memory, expressions.Child("limits"))...)
	}
	if x.Requests != nil {
		errs = append(errs, validateExpressions(x.Requests.CPU, x.Requests.Memory, expressions.Child("requests"))...)
	}
	return errs
}

func validateExpressions(cpu, memory string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(text string, resource corev1.ResourceName) {
		if text == "" {
			return
		}
		if _, err := injection.ParseExpression(text, resource); err != nil {
			errs = append(errs, field.Invalid(at.Child(string(resource)), text, err.Error()))
		}
	}
	check(cpu, corev1.ResourceCPU)
	check(memory, corev1.ResourceMemory)
	return errs
}
