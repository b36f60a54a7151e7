package history

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/revision"
	"github.com/flotilla-k8s/flotilla/test/takeover"
)

// BenchmarkResolve is what a sync spends on revisions when nothing has changed, with a history that is full.
func BenchmarkResolve(b *testing.B) {
	sets, err := takeover.Read[v1beta1.StatefulSet](takeover.Owners)
	require.NoError(b, err)
	for i := range sets {
		if sets[i].Name != "db" || sets[i].Kind != "StatefulSet" {
			continue
		}
		set := &sets[i]
		v1beta1.SetDefaults_StatefulSet(set)
		owner := Owner{
			Owner: revision.Owner{Name: set.Name, Namespace: set.Namespace}, UID: set.UID, Generation: 1, Template: &set.Spec.Template,
			UpdateRevision: set.Status.UpdateRevision, CurrentRevision: set.Status.CurrentRevision,
		}
		list, keeper := full(b, set), Keeper{Memory: &Memory{}}
		b.ReportAllocs()
		for b.Loop() {
			h := History{Revisions: list}
			if err := keeper.Resolve(context.Background(), &h, owner); err != nil || h.Update == nil {
				b.Fatalf("revision %v: %v", h.Update, err)
			}
		}
	}
}

// full is a history of eleven revisions, the newest of which is the present template.
func full(b *testing.B, set *v1beta1.StatefulSet) []*appsv1.ControllerRevision {
	b.Helper()
	controller := true
	var list []*appsv1.ControllerRevision
	for n := range 11 {
		template := set.Spec.Template.DeepCopy()
		name := set.Status.UpdateRevision
		if n < 10 {
			template.Spec.Containers[0].Image = fmt.Sprintf("nginx:%d", n)
			name = fmt.Sprintf("db-%d", n)
		}
		data, err := revision.Encode(template)
		require.NoError(b, err)
		r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
			Name: name, OwnerReferences: []metav1.OwnerReference{{UID: set.UID, Controller: &controller}},
		}, Revision: int64(n + 1)}
		r.Data.Raw = data
		list = append(list, r)
	}
	return list
}
