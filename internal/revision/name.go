package revision

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"
)

const (
	maxNamePrefix = 223
	maxLabelValue = 63
	// alphabet stands for the digits 0 to 9: no vowels, so that no words come out.
	alphabet = "456789bcdf"
)

// Hash is the hash of a revision's data in the form that names use.
func Hash(data []byte, collisionCount int32) string {
	h := fnv.New32()
	// Writing to a hash does not fail.
	_, _ = h.Write(data)
	_, _ = h.Write(strconv.AppendInt(nil, int64(collisionCount), 10))
	digits := strconv.AppendUint(nil, uint64(h.Sum32()), 10)
	for i, d := range digits {
		digits[i] = alphabet[d-'0']
	}
	return string(digits)
}

// Name is the name of the revision with that hash.
func Name(owner, hash string) string {
	return owner[:min(len(owner), maxNamePrefix)] + "-" + hash
}

// ShortHash is the hash in a revision's name.
func ShortHash(name string) string {
	return name[strings.LastIndex(name, "-")+1:]
}

// LabelValue is how Pods name their revision in a label: in full if that fits, else by its hash.
func LabelValue(name string) string {
	if len(name) > maxLabelValue {
		return ShortHash(name)
	}
	return name
}

// ClaimTemplatesHash is the hash of claim templates as the annotation of a revision holds it; "" without any.
func ClaimTemplatesHash(templates []corev1.PersistentVolumeClaim) (string, error) {
	if len(templates) == 0 {
		return "", nil
	}
	sorted := slices.Clone(templates)
	slices.SortFunc(sorted, func(a, b corev1.PersistentVolumeClaim) int { return strings.Compare(a.Name, b.Name) })
	parts := make([]string, len(sorted))
	for i := range sorted {
		name, err := json.Marshal(sorted[i].Name)
		if err != nil {
			return "", fmt.Errorf("hashing claim template %s: %w", sorted[i].Name, err)
		}
		spec, err := json.Marshal(&sorted[i].Spec)
		if err != nil {
			return "", fmt.Errorf("hashing claim template %s: %w", sorted[i].Name, err)
		}
		// The layout of former libraries, which the hash is taken of.
		parts[i] = fmt.Sprintf(`{"metadata":{"name":%s,"creationTimestamp":null},"spec":%s,"status":{}}`, name, spec)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(dump.ForHash([]byte("[" + strings.Join(parts, ",") + "]"))))
	return strconv.FormatUint(uint64(h.Sum32()), 10), nil
}
