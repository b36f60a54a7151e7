package injection

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// alphabet is what hashes are written in: no vowels, so that no words come out.
const alphabet = "bcdfghjklmnpqrstvwxz2456789"

// Hashes are those of a SidecarSet's sidecars: all of them, and all but their images.
type Hashes struct{ Full, WithoutImage string }

// HashesOf takes the hashes of a set that has its defaults. Every implementation of this API writes the same bytes, so that
// Pods stay at the version that they have when a cluster changes hands.
func HashesOf(spec *v1beta1.SidecarSetSpec) (Hashes, error) {
	full, err := hash(spec.Containers, spec.InitContainers)
	if err != nil {
		return Hashes{}, err
	}
	rest, err := hash(withoutImages(spec.Containers), withoutImages(spec.InitContainers))
	return Hashes{full, rest}, err
}

// IsNative tells whether an init container runs beside the application.
func IsNative(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// HasNative tells whether any of the init containers runs beside the application.
func HasNative(list []v1beta1.SidecarContainer) bool {
	for i := range list {
		if IsNative(&list[i].Container) {
			return true
		}
	}
	return false
}

// hash leaves init containers out while none of them is native: they are of no use to running Pods.
func hash(containers, initContainers []v1beta1.SidecarContainer) (string, error) {
	input := map[string]any{"containers": containers}
	if HasNative(initContainers) {
		input["initContainers"] = initContainers
	}
	text, err := json.Marshal(input)
	if err != nil {
		return "", fmt.Errorf("hashing sidecars: %w", err)
	}
	sum := sha256.Sum256(text)
	out := []byte(hex.EncodeToString(sum[:]))
	return string(bytes.Map(func(r rune) rune { return rune(alphabet[int(r)%len(alphabet)]) }, out)), nil
}

func withoutImages(list []v1beta1.SidecarContainer) []v1beta1.SidecarContainer {
	if list == nil {
		return nil
	}
	out := make([]v1beta1.SidecarContainer, len(list))
	for i := range list {
		out[i] = list[i]
		out[i].Image = ""
	}
	return out
}
