package cloneset

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// unlabelRevisions does what somebody may do who tidies up.
func (f *fixture) unlabelRevisions() {
	for _, o := range f.Objects[resourceRevisions] {
		r := o.DeepCopyObject().(*appsv1.ControllerRevision)
		r.Labels = nil
		f.Put(resourceRevisions, r)
	}
}

// A revision belongs to its owner by its reference: labels are for those that belong to nobody.
func TestRevisionsWithoutLabelsStayKnown(t *testing.T) {
	t.Run("nothing is created anew", func(t *testing.T) {
		f := newFixture(t)
		f.start(2)
		f.unlabelRevisions()
		before := f.Writes["create controllerrevisions"]
		for i := range 10 {
			f.EditPod(f.Names()[0], func(p *corev1.Pod) { p.Labels["x"] = fmt.Sprint(i) })
			f.Live(time.Second)
		}
		require.Equal(t, before, f.Writes["create controllerrevisions"])
	})
	t.Run("the partition holds", func(t *testing.T) {
		f := newFixture(t)
		f.start(4, partition("2"), unavailable("4"))
		f.Edit(image("b"))
		f.Rest()
		f.unlabelRevisions()
		f.DeletePod(f.WithImage("a"))
		f.Live(time.Minute)
		require.Equal(t, "2a2b", f.Images())
	})
}
