package defaults

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// SetSidecarContainer fills in a container of a SidecarSet. It fills in less than SetContainer does: the hash of sidecars
// is taken of what it leaves, and that must not change.
func SetSidecarContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = PullPolicyOf(c.Image)
	}
	setString(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
	for i := range c.Ports {
		if c.Ports[i].Protocol == "" {
			c.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			setFieldRef(from.FieldRef)
		}
	}
	roundResources(c.Resources.Limits)
	roundResources(c.Resources.Requests)
	setSidecarProbe(c.LivenessProbe)
	setSidecarProbe(c.ReadinessProbe)
	if c.Lifecycle != nil {
		setLifecycleHandler(c.Lifecycle.PostStart)
		setLifecycleHandler(c.Lifecycle.PreStop)
	}
}

func setSidecarProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	setProbeTimes(p)
	setHTTPGet(p.HTTPGet)
}

// SetSidecarVolume fills in a volume of a SidecarSet.
func SetSidecarVolume(v *corev1.Volume) {
	s := &v.VolumeSource
	if reflect.DeepEqual(*s, corev1.VolumeSource{}) {
		s.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if s.HostPath != nil && s.HostPath.Type == nil {
		s.HostPath.Type = ptr.To(corev1.HostPathUnset)
	}
	setFileModes(s)
}
