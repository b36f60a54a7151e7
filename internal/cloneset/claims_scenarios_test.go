package cloneset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

func reuse(s *v1beta1.CloneSet) { s.Spec.ScaleStrategy.EnablePVCReuse = true }

func (f *fixture) claim(name string) object {
	f.Helper()
	c := f.Objects[resourceClaims][namespace+"/"+name]
	require.NotNil(f, c, name)
	return c
}

func TestScenarios77And78AReleasedPodTakesItsClaimAlong(t *testing.T) {
	for name, edits := range map[string][]edit{"77 without reuse": {claimTemplate}, "78 with reuse": {claimTemplate, reuse}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.start(2, edits...)
			released := f.Names()[0]
			f.EditPod(released, func(p *corev1.Pod) { p.Labels["app"] = "debug" })
			f.Rest()
			require.Len(t, f.Active(), 2)
			require.NotContains(t, f.Names(), released)
			owner := metav1.GetControllerOf(f.claim("data-" + released))
			require.Equal(t, "Pod", owner.Kind)
			require.Equal(t, released, owner.Name)
			// Taken back, the claim comes back with it.
			f.EditPod(released, func(p *corev1.Pod) { p.Labels["app"] = "web" })
			f.Pass()
			f.Pass()
			if f.Objects[resourcePods][namespace+"/"+released] != nil && f.Objects[resourceClaims][namespace+"/data-"+released] != nil {
				require.True(t, metav1.IsControlledBy(f.claim("data-"+released), f.Set()))
			}
			f.Rest()
			require.Len(t, f.Active(), 2)
		})
	}
}

func TestScenario79AnIDWithAStuckClaimIsPassedBy(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate, reuse, func(s *v1beta1.CloneSet) {
		s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "logs"}})
	})
	lost := f.Names()[0]
	stuck := f.claim("logs-" + lost).DeepCopyObject().(object)
	stuck.SetFinalizers([]string{"hold/on"})
	stuck.SetDeletionTimestamp(&metav1.Time{Time: f.Clock.Now()})
	f.Put(resourceClaims, stuck)
	f.Remove(resourcePods, namespace+"/"+lost)
	f.Rest()
	require.Len(t, f.Active(), 2)
	require.NotContains(t, f.Names(), lost, "another id is taken at once")
	require.Empty(t, f.conditionOf(v1beta1.CloneSetConditionFailedScale).Status)
}

func TestScenario80OtherClaimsAloneRecreateNothing(t *testing.T) {
	bigger := func(s *v1beta1.CloneSet) { s.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To("big") }
	for name, recreates := range map[string]bool{"off": false, "on": true} {
		t.Run("the option is "+name, func(t *testing.T) {
			f := newFixture(t)
			f.options.RecreateForClaims = recreates
			f.Restart()
			f.start(2, claimTemplate, inPlace)
			names := f.Names()
			f.Edit(image("b"), bigger)
			f.Rest()
			require.Equal(t, "2b", f.Images())
			if recreates {
				require.NotEqual(t, names, f.Names())
				return
			}
			require.Equal(t, names, f.Names())
			class := func(pod string) *string {
				return f.claim("data-" + pod).(*corev1.PersistentVolumeClaim).Spec.StorageClassName
			}
			require.Nil(t, class(names[0]))
			f.Edit(replicas(3))
			f.Rest()
			for _, n := range f.Names() {
				if n != names[0] && n != names[1] {
					require.Equal(t, "big", *class(n))
				}
			}
		})
	}
}

func TestAPlaceWaitsForItsTerminatingHolderAMinuteAtMost(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate, reuse)
	lost := f.Names()[0]
	f.EditPod(lost, func(p *corev1.Pod) { p.Finalizers = []string{"hold/on"} })
	f.DeletePod(lost)
	f.Live(30 * time.Second)
	require.Len(t, f.Active(), 1)
	require.Empty(t, f.conditionOf(v1beta1.CloneSetConditionFailedScale).Status)
	f.Live(31 * time.Second)
	require.Len(t, f.Active(), 2)
	require.NotContains(t, f.Names(), lost)
}

// Trap: claims that a new revision does not have any more are still those of the Pods that stay at the old one.
func TestTrap11ATemplateOfClaimsThatWentWithTheImage(t *testing.T) {
	without := func(s *v1beta1.CloneSet) { s.Spec.VolumeClaimTemplates = nil }
	mounted := func(s *v1beta1.CloneSet) {
		s.Spec.Template.Spec.Volumes = nil
		s.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	unmounted := func(s *v1beta1.CloneSet) { s.Spec.Template.Spec.Containers[0].VolumeMounts = nil }
	t.Run("is a recreation", func(t *testing.T) {
		f := newFixture(t)
		f.start(2, claimTemplate, mounted, inPlace)
		names := f.Names()
		f.Edit(without, unmounted, image("b"))
		f.Rest()
		require.Equal(t, "2b", f.Images())
		for _, name := range names {
			require.NotContains(t, f.Names(), name)
		}
	})
	t.Run("leaves old Pods their claims", func(t *testing.T) {
		f := newFixture(t)
		f.start(2, claimTemplate, mounted)
		f.Edit(without, unmounted, image("b"), partition("2"))
		f.Rest()
		require.Equal(t, "2a", f.Images())
		f.DeletePod(f.Names()[0])
		f.Rest()
		require.Equal(t, "2a", f.Images())
		for _, p := range f.Active() {
			var claims []string
			for _, v := range p.Spec.Volumes {
				if v.PersistentVolumeClaim != nil {
					claims = append(claims, v.PersistentVolumeClaim.ClaimName)
				}
			}
			require.Equal(t, []string{"data-" + p.Name}, claims, "every mount has its volume")
			f.claim("data-" + p.Name)
		}
	})
}

func TestClaimsOfAPodThatIsNotTheSetsAreKept(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate)
	name := f.Names()[0]
	f.Remove(resourcePods, namespace+"/"+name)
	f.Put(resourcePods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: namespace, UID: "foreign", Labels: map[string]string{"app": "other"},
	}})
	f.Rest()
	require.NotNil(t, f.Claim("data-"+name), "that Pod uses it")
}

func TestTheFirstHolderThatIsWaitedForNoMoreIsLookedFor(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate, reuse)
	names := f.Names()
	for _, n := range names {
		f.EditPod(n, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/f"} })
	}
	f.DeletePod(names[0])
	f.Wait(30 * time.Second)
	f.DeletePod(names[1])
	f.ShowAll()
	again, err := f.Sync()
	require.NoError(t, err)
	require.LessOrEqual(t, again, 31*time.Second)
}
