package defaults

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const terminationGracePeriodSeconds = 30

// SetPodTemplate fills in a Pod template.
func SetPodTemplate(t *corev1.PodTemplateSpec) {
	SetPodSpec(&t.Spec)
}

// SetPodSpec fills in the spec of a Pod template.
func SetPodSpec(s *corev1.PodSpec) {
	if s.DNSPolicy == "" {
		s.DNSPolicy = corev1.DNSClusterFirst
	}
	if s.RestartPolicy == "" {
		s.RestartPolicy = corev1.RestartPolicyAlways
	}
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.PodSecurityContext{}
	}
	if s.TerminationGracePeriodSeconds == nil {
		s.TerminationGracePeriodSeconds = ptr.To(int64(terminationGracePeriodSeconds))
	}
	if s.SchedulerName == "" {
		s.SchedulerName = corev1.DefaultSchedulerName
	}
	for i := range s.Volumes {
		setVolume(&s.Volumes[i])
	}
	for i := range s.InitContainers {
		SetContainer(&s.InitContainers[i], PullPolicyOf(s.InitContainers[i].Image))
	}
	for i := range s.Containers {
		SetContainer(&s.Containers[i], corev1.PullAlways)
	}
	roundResources(s.Overhead)
	if s.Resources != nil {
		roundResources(s.Resources.Limits)
		roundResources(s.Resources.Requests)
	}
}

// PullPolicyOf is the imagePullPolicy that core/v1 gives to an image: Always for the tag latest and for an image with
// neither tag nor digest, IfNotPresent otherwise.
func PullPolicyOf(image string) corev1.PullPolicy {
	if strings.Contains(image, "@") {
		return corev1.PullIfNotPresent
	}
	name := image[strings.LastIndex(image, "/")+1:]
	if _, tag, found := strings.Cut(name, ":"); found && tag != "latest" {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}

// SetContainer fills in a container.
func SetContainer(c *corev1.Container, pullPolicy corev1.PullPolicy) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicy
	}
	if c.TerminationMessagePath == "" {
		c.TerminationMessagePath = corev1.TerminationMessagePathDefault
	}
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
	for i := range c.Ports {
		if c.Ports[i].Protocol == "" {
			c.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
	for i := range c.Env {
		setEnvVar(&c.Env[i])
	}
	roundResources(c.Resources.Limits)
	roundResources(c.Resources.Requests)
	setProbe(c.LivenessProbe)
	setProbe(c.ReadinessProbe)
	setProbe(c.StartupProbe)
	if c.Lifecycle != nil {
		setLifecycleHandler(c.Lifecycle.PostStart)
		setLifecycleHandler(c.Lifecycle.PreStop)
	}
}

func setEnvVar(e *corev1.EnvVar) {
	if e.ValueFrom == nil {
		return
	}
	setFieldRef(e.ValueFrom.FieldRef)
	if f := e.ValueFrom.FileKeyRef; f != nil && f.Optional == nil {
		f.Optional = ptr.To(false)
	}
}

func setFieldRef(f *corev1.ObjectFieldSelector) {
	if f != nil && f.APIVersion == "" {
		f.APIVersion = "v1"
	}
}

func setProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	setProbeTimes(p)
	setHTTPGet(p.HTTPGet)
	if p.GRPC != nil && p.GRPC.Service == nil {
		p.GRPC.Service = ptr.To("")
	}
}

func setProbeTimes(p *corev1.Probe) {
	setInt32(&p.TimeoutSeconds, 1)
	setInt32(&p.PeriodSeconds, 10)
	setInt32(&p.SuccessThreshold, 1)
	setInt32(&p.FailureThreshold, 3)
}

func setInt32(field *int32, value int32) {
	if *field == 0 {
		*field = value
	}
}

func setLifecycleHandler(h *corev1.LifecycleHandler) {
	if h != nil {
		setHTTPGet(h.HTTPGet)
	}
}

func setHTTPGet(a *corev1.HTTPGetAction) {
	if a == nil {
		return
	}
	if a.Path == "" {
		a.Path = "/"
	}
	if a.Scheme == "" {
		a.Scheme = corev1.URISchemeHTTP
	}
}

// roundResources rounds quantities up to a thousandth, the finest that core/v1 stores.
func roundResources(l corev1.ResourceList) {
	for name, quantity := range l {
		if quantity.RoundUp(-3) {
			// Exact already: rewriting it could change the spelling that is stored.
			continue
		}
		l[name] = quantity
	}
}
