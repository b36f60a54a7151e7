package statefulset

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

func sideImage(name string) edit {
	return func(s *v1beta1.StatefulSet) {
		c := &s.Spec.Template.Spec.Containers
		if len(*c) == 1 {
			*c = append(*c, corev1.Container{Name: "side"})
		}
		(*c)[1].Image = name
	}
}

func graceSeconds(n int32) edit {
	return rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) {
		r.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{GracePeriodSeconds: n}
	})
}

// A grace period ends and the template changes before the controller looks again.
func TestANewTargetAtTheEndOfAGracePeriod(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.start(1, policy, inPlace, sideImage("s1"), graceSeconds(30))
		f.Edit(sideImage("s2"))
		f.Pass()
		f.Pass()
		require.Contains(t, f.Active()[0].Annotations, pub.InPlaceUpdateGraceKey)
		f.Wait(31 * time.Second)
		f.Edit(image("b"), sideImage("s1"))
		f.Changed = func(_, is modelcluster.Object) {
			if p, ok := is.(*corev1.Pod); ok {
				require.NotEqual(t, "s2", p.Spec.Containers[1].Image, "nobody wants it any more")
			}
		}
		f.Live(10 * time.Minute)
		c := f.Active()[0].Spec.Containers
		require.Equal(t, "b/s1", c[0].Image+"/"+c[1].Image)
	}
}

// A status is written of which the answer is lost, and what it said is not so any more when the next one is worked out.
func TestAStatusWhoseAnswerWasLostIsMended(t *testing.T) {
	f := newFixture(t)
	f.start(1)
	f.EditPod(name(0), func(p *corev1.Pod) { p.OwnerReferences = nil })
	f.ShowAll()
	hook, failed := modelcluster.Once("patch/status", "statefulsets", io.ErrUnexpectedEOF)
	f.After = hook
	require.Error(t, f.Alarm.Ring())
	require.True(t, failed())
	require.Zero(t, f.Set().Status.Replicas, "the Pod is being taken back")
	f.Show(f.Shown() + 1)
	f.Wait(time.Second)
	require.NoError(t, f.Alarm.Ring())
	f.Live(time.Minute)
	require.EqualValues(t, 1, f.Set().Status.Replicas)
}
