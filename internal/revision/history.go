package revision

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
)

// Owner is what revisions need to know of the workload.
type Owner struct {
	Name, Namespace string
	Reference       metav1.OwnerReference
	// Labels are those of the Pod template, Annotations those of the new revision.
	Labels, Annotations map[string]string
}

// New is a revision that does not exist yet. Its hash label keeps the hash of this collisionCount even if the name has
// to be formed with a higher one later.
func New(owner Owner, data []byte, number int64, collisionCount int32) *appsv1.ControllerRevision {
	hash := Hash(data, collisionCount)
	labels := maps.Clone(owner.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[pub.ControllerHashKey] = hash
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:            Name(owner.Name, hash),
			Namespace:       owner.Namespace,
			Labels:          labels,
			Annotations:     owner.Annotations,
			OwnerReferences: []metav1.OwnerReference{owner.Reference},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
}

// Sort returns the revisions by number, oldest first. Equal numbers go by age and name.
func Sort(list []*appsv1.ControllerRevision) []*appsv1.ControllerRevision {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name),
		)
	})
	return out
}

// NextNumber is the number of a new revision; sorted is the history, oldest first.
func NextNumber(sorted []*appsv1.ControllerRevision) (int64, error) {
	if len(sorted) == 0 {
		return 1, nil
	}
	last := sorted[len(sorted)-1]
	if last.Revision == math.MaxInt64 {
		return 0, fmt.Errorf("ControllerRevision %s has the highest possible number: no newer one can be made before its revision is lowered", last.Name)
	}
	return last.Revision + 1, nil
}

// Find returns the newest revision of the history that means the same as data, or nil. Byte-equal ones are preferred
// only in that they are found without decoding.
func Find(sorted []*appsv1.ControllerRevision, data []byte) *appsv1.ControllerRevision {
	if n := len(sorted); n > 0 && bytes.Equal(sorted[n-1].Data.Raw, data) {
		return sorted[n-1]
	}
	for _, r := range slices.Backward(sorted) {
		if Equal(r.Data.Raw, data) {
			return r
		}
	}
	return nil
}

// ByName returns the revision that a full or short name means, or nil.
func ByName(list []*appsv1.ControllerRevision, name string) *appsv1.ControllerRevision {
	for _, r := range list {
		if r.Name == name {
			return r
		}
	}
	for _, r := range list {
		if name != "" && ShortHash(r.Name) == ShortHash(name) {
			return r
		}
	}
	return nil
}

// Surplus returns the revisions to delete, oldest first: those not live beyond the limit.
func Surplus(sorted []*appsv1.ControllerRevision, live func(*appsv1.ControllerRevision) bool, limit int) []*appsv1.ControllerRevision {
	var idle []*appsv1.ControllerRevision
	for _, r := range sorted {
		if !live(r) {
			idle = append(idle, r)
		}
	}
	return idle[:max(0, len(idle)-max(0, limit))]
}
