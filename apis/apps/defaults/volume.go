package defaults

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const serviceAccountTokenSeconds = 3600

func setVolume(v *corev1.Volume) {
	s := &v.VolumeSource
	if reflect.DeepEqual(*s, corev1.VolumeSource{}) {
		s.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if s.HostPath != nil && s.HostPath.Type == nil {
		s.HostPath.Type = ptr.To(corev1.HostPathUnset)
	}
	setFileModes(s)
	if s.Image != nil && s.Image.PullPolicy == "" {
		s.Image.PullPolicy = PullPolicyOf(s.Image.Reference)
	}
	if s.Ephemeral != nil && s.Ephemeral.VolumeClaimTemplate != nil {
		setClaimSpec(&s.Ephemeral.VolumeClaimTemplate.Spec)
	}
	setNetworkVolume(s)
}

// setFileModes fills in the sources that are made of files.
func setFileModes(s *corev1.VolumeSource) {
	if s.Secret != nil && s.Secret.DefaultMode == nil {
		s.Secret.DefaultMode = ptr.To(corev1.SecretVolumeSourceDefaultMode)
	}
	if s.ConfigMap != nil && s.ConfigMap.DefaultMode == nil {
		s.ConfigMap.DefaultMode = ptr.To(corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if s.DownwardAPI != nil {
		if s.DownwardAPI.DefaultMode == nil {
			s.DownwardAPI.DefaultMode = ptr.To(corev1.DownwardAPIVolumeSourceDefaultMode)
		}
		setDownwardAPIFiles(s.DownwardAPI.Items)
	}
	setProjected(s.Projected)
}

func setDownwardAPIFiles(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		setFieldRef(items[i].FieldRef)
	}
}

func setProjected(p *corev1.ProjectedVolumeSource) {
	if p == nil {
		return
	}
	if p.DefaultMode == nil {
		p.DefaultMode = ptr.To(corev1.ProjectedVolumeSourceDefaultMode)
	}
	for i := range p.Sources {
		if d := p.Sources[i].DownwardAPI; d != nil {
			setDownwardAPIFiles(d.Items)
		}
		if t := p.Sources[i].ServiceAccountToken; t != nil && t.ExpirationSeconds == nil {
			t.ExpirationSeconds = ptr.To(int64(serviceAccountTokenSeconds))
		}
	}
}

func setNetworkVolume(s *corev1.VolumeSource) {
	if s.ISCSI != nil {
		setString(&s.ISCSI.ISCSIInterface, "default")
	}
	if s.RBD != nil {
		setString(&s.RBD.RBDPool, "rbd")
		setString(&s.RBD.RadosUser, "admin")
		setString(&s.RBD.Keyring, "/etc/ceph/keyring")
	}
	if s.ScaleIO != nil {
		setString(&s.ScaleIO.StorageMode, "ThinProvisioned")
		setString(&s.ScaleIO.FSType, "xfs")
	}
	if d := s.AzureDisk; d != nil {
		setPointer(&d.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		setPointer(&d.Kind, corev1.AzureSharedBlobDisk)
		setPointer(&d.FSType, "ext4")
		setPointer(&d.ReadOnly, false)
	}
}

func setString(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

func setPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// SetClaimTemplate fills in a claim template. Its volumeMode is left to the API server that creates the claim: the hash
// of claim templates on revisions is taken without it.
func SetClaimTemplate(c *corev1.PersistentVolumeClaim) {
	if c.Status.Phase == "" {
		c.Status.Phase = corev1.ClaimPending
	}
	roundResources(c.Spec.Resources.Limits)
	roundResources(c.Spec.Resources.Requests)
	roundResources(c.Status.Capacity)
	roundResources(c.Status.AllocatedResources)
}

func setClaimSpec(s *corev1.PersistentVolumeClaimSpec) {
	if s.VolumeMode == nil {
		s.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	}
	roundResources(s.Resources.Limits)
	roundResources(s.Resources.Requests)
}
