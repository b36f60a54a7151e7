package statefulset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

// ownersOfClaim are such as "set" and "Pod 1".
func (f *fixture) ownersOfClaim(ordinal int) string {
	var out []string
	for _, r := range f.Claim(fmt.Sprintf("www-web-%d", ordinal)).OwnerReferences {
		switch {
		case r.Kind == "Pod":
			out = append(out, "Pod "+strings.TrimPrefix(r.Name, "web-"))
		case r.UID == f.Set().UID:
			out = append(out, "set")
		}
		if r.Controller != nil || r.BlockOwnerDeletion != nil {
			out = append(out, "controller")
		}
	}
	return strings.Join(out, ",")
}

func (f *fixture) claimNames() string {
	var out []string
	for _, c := range f.Claims() {
		out = append(out, strings.TrimPrefix(c.Name, "www-web-"))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestScenario93ClaimsGoWithTheSetOrStay(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate("www", "1Gi"), retain("Delete", "Retain"))
	require.Equal(t, "set", f.ownersOfClaim(0))
	require.Equal(t, "set", f.ownersOfClaim(1))
	f.Remove("statefulsets", namespace+"/web")
	require.Empty(t, f.Claims())

	f = newFixture(t)
	f.start(2, claimTemplate("www", "1Gi"))
	require.Equal(t, "", f.ownersOfClaim(0))
	f.Remove("statefulsets", namespace+"/web")
	require.Len(t, f.Claims(), 2)
}

func TestScenario94ClaimsGoWithTheOrdinal(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.start(3, policy, claimTemplate("www", "1Gi"), retain("Retain", "Delete"))
		require.Equal(t, "", f.ownersOfClaim(2))
		f.Edit(replicas(1))
		f.sync()
		require.Equal(t, "Pod 2", f.ownersOfClaim(2))
		f.Rest()
		require.Equal(t, "0", f.claimNames())
	}
}

func TestScenario95BothPoliciesDelete(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, claimTemplate("www", "1Gi"), retain("Delete", "Delete"), reserve(0, "2-5"))
	require.Equal(t, "1 6 7", f.claimNames())
	f.Edit(replicas(1))
	f.sync()
	require.Equal(t, "set", f.ownersOfClaim(1))
	require.Equal(t, "Pod 6", f.ownersOfClaim(6))
	require.Equal(t, "Pod 7", f.ownersOfClaim(7))
	f.Rest()
	require.Equal(t, "1", f.claimNames())
}

func TestScenario96AStaleClaimIsWaitedFor(t *testing.T) {
	stale := func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-3", UID: "gone"}}
	}
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.start(5, policy, claimTemplate("www", "1Gi"), retain("Retain", "Delete"))
		f.EditClaim("www-web-3", stale)
		f.Remove("pods", namespace+"/web-3")
		f.sync()
		require.Nil(t, f.Pod("web-3"))
		f.sync()
		require.Nil(t, f.Pod("web-3"))
		f.Remove("persistentvolumeclaims", namespace+"/www-web-3")
		f.Rest()
		require.Equal(t, "0 1 2 3 4", f.ordinals())
		require.NotNil(t, f.Claim("www-web-3"))
	}
	f := newFixture(t)
	f.start(4, parallel, claimTemplate("www", "1Gi"))
	f.EditClaim("www-web-3", stale)
	f.Remove("pods", namespace+"/web-3")
	f.sync()
	require.NotNil(t, f.Pod("web-3"), "nothing is stale where claims are retained")
}

func TestScenario97APolicyThatChanges(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate("www", "1Gi"), retain("Delete", "Delete"))
	require.Equal(t, "set", f.ownersOfClaim(1))
	f.Edit(retain("Retain", "Retain"))
	f.Rest()
	require.Equal(t, "", f.ownersOfClaim(0))
	require.Equal(t, "", f.ownersOfClaim(1))
}

// An ordinal that is wanted again while its Pod goes keeps its data.
func TestAnOrdinalThatComesBackKeepsItsClaim(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, claimTemplate("www", "1Gi"), retain("Retain", "Delete"))
	uid := f.Claim("www-web-2").UID
	f.Edit(replicas(2))
	f.sync()
	require.Equal(t, "2", f.terminating())
	f.Edit(replicas(3))
	f.sync()
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
	require.Equal(t, uid, f.Claim("www-web-2").UID)
}

func follow(s *v1beta1.StatefulSet) {
	s.Spec.VolumeClaimUpdateStrategy.Type = v1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
}

func (f *fixture) class(expansion *bool) {
	f.Put("storageclasses", &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, AllowVolumeExpansion: expansion})
}

// sizes are the requests of the claims by ordinal.
func (f *fixture) sizes() string {
	var out []string
	for _, c := range f.Claims() {
		out = append(out, c.Spec.Resources.Requests.Storage().String())
	}
	return strings.Join(out, " ")
}

// claimStatus is compatible/ready of the only claim template.
func (f *fixture) claimStatus() string {
	s := f.Set().Status.VolumeClaims[0]
	return fmt.Sprintf("%d/%d", s.CompatibleReplicas, s.CompatibleReadyReplicas)
}

func (f *fixture) grow(claim, size string) {
	f.EditClaim(claim, func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

func (f *fixture) startFollowing(replicas int32, edits ...edit) {
	f.class(ptr.To(true))
	f.start(replicas, append([]edit{parallel, claimTemplate("www", "1Gi"), follow}, edits...)...)
	f.Expansion = modelcluster.ExpandNever
}

func TestScenario98OnlyTheSizeChanges(t *testing.T) {
	f := newFixture(t)
	f.startFollowing(3)
	require.Equal(t, "3/3", f.claimStatus())
	f.Edit(claimTemplate("www", "20Gi"))
	for i, want := range []string{"1Gi 1Gi 20Gi", "1Gi 20Gi 20Gi", "20Gi 20Gi 20Gi"} {
		f.Rest()
		require.Equal(t, want, f.sizes())
		require.Equal(t, fmt.Sprintf("%d/%d", i+1, i), f.claimStatus())
		f.grow(fmt.Sprintf("www-web-%d", 2-i), "20Gi")
	}
	f.Rest()
	require.Equal(t, "3/3", f.claimStatus())
	require.Zero(t, f.Writes["delete pods"])
	require.Equal(t, "web", f.Claim("www-web-0").Annotations["apps.kruise.io/owned-by-asts"])
	require.Contains(t, strings.Join(f.Events, "\n"), "Normal SuccessfulResize")
}

func TestScenario99SizeAndTemplateChange(t *testing.T) {
	for _, done := range []func(f *fixture){
		func(f *fixture) { f.grow("www-web-2", "30Gi") },
		func(f *fixture) {
			f.EditClaim("www-web-2", func(c *corev1.PersistentVolumeClaim) {
				c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}}
			})
		},
	} {
		f := newFixture(t)
		f.startFollowing(3)
		f.Edit(claimTemplate("www", "30Gi"), image("b"))
		f.Rest()
		require.Equal(t, "1Gi 1Gi 30Gi", f.sizes())
		require.Equal(t, "0:a 1:a 2:a", f.state())
		done(f)
		f.sync()
		require.Equal(t, "2", f.terminating())
		f.Settle()
		f.sync()
		f.Settle()
		f.grow("www-web-2", "30Gi")
		f.Rest()
		require.Equal(t, "1Gi 30Gi 30Gi", f.sizes())
		require.Equal(t, "0:a 1:a 2:b", f.state())
	}
}

func TestScenarios100And101APartitionHoldsClaimsToo(t *testing.T) {
	begin := func(t *testing.T) *fixture {
		f := newFixture(t)
		f.startFollowing(3, partition(2))
		f.Expansion = modelcluster.ExpandAtOnce
		f.Edit(claimTemplate("www", "5Gi"), image("b"))
		f.Rest()
		require.Equal(t, "1Gi 1Gi 5Gi", f.sizes())
		require.Equal(t, "1/1", f.claimStatus())
		return f
	}
	f := begin(t)
	f.Edit(image("a"), partition(0))
	f.Rest()
	require.Equal(t, "3/3", f.claimStatus())
	require.Equal(t, "0:a 1:a 2:a", f.state())

	f = begin(t)
	f.Edit(image("a"), partition(0), func(s *v1beta1.StatefulSet) {
		s.Spec.VolumeClaimUpdateStrategy.Type = v1beta1.OnDeleteVolumeClaimUpdateStrategyType
	})
	f.Rest()
	require.Equal(t, "1/1", f.claimStatus())
	require.Equal(t, "1Gi 1Gi 5Gi", f.sizes())
}

func TestScenario103NothingShrinks(t *testing.T) {
	f := newFixture(t)
	f.class(ptr.To(true))
	f.start(2, parallel, claimTemplate("www", "3Gi"), follow)
	f.Edit(claimTemplate("www", "1Gi"))
	f.Rest()
	require.Equal(t, "3Gi 3Gi", f.sizes())
	require.Equal(t, "2/2", f.claimStatus())
	require.Zero(t, f.Writes["patch persistentvolumeclaims"])
}

func TestAClaimThatCannotBeResizedIsShownAndHoldsUpNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(f *fixture)
		says  string
	}{
		"no expansion": {func(f *fixture) { f.class(nil) }, "allowVolumeExpansion"},
		"no class":     {func(f *fixture) { f.Remove("storageclasses", "fast") }, "does not exist"},
		"other class": {func(f *fixture) {
			f.EditClaim("www-web-2", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("slow") })
		}, "delete it"},
		"other access mode": {func(f *fixture) {
			f.EditClaim("www-web-2", func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = nil })
		}, "delete it"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.startFollowing(3, unavailable("2"))
			f.Expansion = modelcluster.ExpandAtOnce
			c.spoil(f)
			f.Edit(claimTemplate("www", "5Gi"))
			f.Rest()
			shown := f.conditionOf(v1beta1.FailedUpdatePod)
			require.Equal(t, corev1.ConditionTrue, shown.Status)
			require.Contains(t, shown.Message, c.says)
			require.Equal(t, 1, strings.Count(strings.Join(f.Events, "\n"), "Warning FailedUpdatePVC"))
			require.Equal(t, "1Gi", f.Claim("www-web-2").Spec.Resources.Requests.Storage().String())
			if strings.HasPrefix(name, "other") {
				require.Equal(t, "5Gi 5Gi 1Gi", f.sizes())
			}
			f.class(ptr.To(true))
			f.Remove("persistentvolumeclaims", namespace+"/www-web-2")
			f.DeletePod("web-2")
			f.Settle()
			f.Wait(time.Minute)
			f.Rest()
			require.Equal(t, "5Gi 5Gi 5Gi", f.sizes())
			require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.FailedUpdatePod).Status)
		})
	}
}

func TestScenario105AnAddedClaimTemplateReachesPods(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, both(parallel, inPlace)} {
		f := newFixture(t)
		f.start(3, policy, claimTemplate("www", "1Gi"))
		f.Edit(claimTemplate("logs", "1Gi"))
		f.Rest()
		require.Equal(t, 3, f.Writes["delete pods"])
		require.Equal(t, 2, f.Fewest)
		for _, p := range f.Active() {
			require.Len(t, p.Spec.Volumes, 2)
		}
		require.Len(t, f.Claims(), 6)
		require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionReady).Status)
	}
	f := newFixture(t)
	f.start(3, claimTemplate("www", "1Gi"), partition(2))
	f.Edit(claimTemplate("logs", "1Gi"))
	f.Rest()
	require.Equal(t, 1, f.Writes["delete pods"], "within the partition")
}

func TestARemovedClaimTemplateChangesNoPod(t *testing.T) {
	f := newFixture(t)
	f.start(2, claimTemplate("www", "1Gi"), claimTemplate("logs", "1Gi"))
	f.Edit(func(s *v1beta1.StatefulSet) { s.Spec.VolumeClaimTemplates = s.Spec.VolumeClaimTemplates[:1] })
	f.Rest()
	require.Zero(t, f.Writes["delete pods"])
	require.Len(t, f.Claims(), 4)
}

func TestAClaimThatGoesHoldsUpNoOtherPod(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, claimTemplate("www", "1Gi"))
	f.EditClaim("www-web-0", func(c *corev1.PersistentVolumeClaim) {
		c.Finalizers = []string{"x/y"}
		now := metav1.NewTime(f.Clock.Now())
		c.DeletionTimestamp = &now
	})
	for i := range 3 {
		f.Remove("pods", namespace+"/"+name(i))
	}
	f.ShowAll()
	_, err := f.Sync()
	require.Error(t, err)
	f.Settle()
	require.Equal(t, "1 2", f.ordinals())
}

func TestAnObstacleToOneClaimKeepsTheBudgetOfTheOther(t *testing.T) {
	f := newFixture(t)
	f.class(ptr.To(true))
	slow := func(s *v1beta1.StatefulSet) {
		s.Spec.VolumeClaimTemplates[1].Spec.StorageClassName = ptr.To("slow")
	}
	f.start(4, parallel, claimTemplate("www", "1Gi"), claimTemplate("zzz", "1Gi"), slow, follow)
	f.Expansion = modelcluster.ExpandNever
	f.Edit(claimTemplate("www", "2Gi"), claimTemplate("zzz", "2Gi"))
	f.Pass()
	n := 0
	for _, c := range f.Claims() {
		if strings.HasPrefix(c.Name, "www") && c.Spec.Resources.Requests.Storage().String() == "2Gi" {
			n++
		}
	}
	require.Equal(t, 1, n)
}

func TestVolumesOfClaimsComeFirstInTheOrderOfTheirTemplates(t *testing.T) {
	f := newFixture(t)
	f.start(1, claimTemplate("www", "1Gi"), claimTemplate("data", "1Gi"), claimTemplate("logs", "1Gi"), func(s *v1beta1.StatefulSet) {
		for _, n := range []string{"b", "data", "a"} {
			s.Spec.Template.Spec.Volumes = append(s.Spec.Template.Spec.Volumes, corev1.Volume{
				Name: n, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			})
		}
	})
	var order []string
	for _, v := range f.Pod(name(0)).Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			require.Equal(t, v.Name+"-web-0", v.PersistentVolumeClaim.ClaimName)
			require.False(t, v.PersistentVolumeClaim.ReadOnly)
			order = append(order, "claim "+v.Name)
		} else {
			order = append(order, v.Name)
		}
	}
	require.Equal(t, []string{"claim www", "claim data", "claim logs", "b", "a"}, order)
}

func TestAVolumeOfTheNameOfANewClaimTemplateIsNotItsClaim(t *testing.T) {
	f := newFixture(t)
	f.start(2, func(s *v1beta1.StatefulSet) {
		shared := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "shared"}
		s.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "logs", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: shared}}}
	})
	f.Edit(claimTemplate("logs", "1Gi"))
	f.Rest()
	for _, p := range f.Active() {
		require.Equal(t, "logs-"+p.Name, p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	}
}

// A claim that a Pod still has is kept or deleted as the policy says, although its template is gone.
func TestThePolicyCountsForClaimsOfATemplateThatIsGone(t *testing.T) {
	f := newFixture(t)
	f.start(1, claimTemplate("www", "1Gi"), claimTemplate("logs", "1Gi"), retain("Delete", "Delete"))
	require.Len(t, f.Claim("logs-web-0").OwnerReferences, 1)
	f.Edit(func(s *v1beta1.StatefulSet) { s.Spec.VolumeClaimTemplates = s.Spec.VolumeClaimTemplates[:1] }, retain("Retain", "Retain"))
	f.Rest()
	require.Empty(t, f.Claim("www-web-0").OwnerReferences)
	require.Empty(t, f.Claim("logs-web-0").OwnerReferences)
}

func TestAClaimOfAnotherShapeThatHoldsUpAnUpdateIsNamed(t *testing.T) {
	for _, kept := range []int32{0, 1} {
		f := newFixture(t)
		f.startFollowing(3, partition(kept))
		f.EditClaim("www-web-0", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("slow") })
		f.Edit(image("b"))
		f.Rest()
		require.Contains(t, f.conditionOf(v1beta1.FailedUpdatePod).Message, "www-web-0")
		require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionStalled).Status)
	}
}

func TestAClaimThatIsAboutToGoIsNotCounted(t *testing.T) {
	f := newFixture(t)
	f.ProtectClaims = true
	f.start(2, parallel, claimTemplate("www", "1Gi"))
	f.Delete(modelcluster.Claims, namespace+"/www-web-1")
	f.Rest()
	require.Equal(t, "1/1", f.claimStatus())
}

func TestAClaimWithoutItsPodIsNotCounted(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, claimTemplate("www", "1Gi"))
	require.Equal(t, "3/3", f.claimStatus())
	f.Remove(modelcluster.Pods, namespace+"/"+name(1))
	f.Refuse("create", modelcluster.Pods, nil)
	f.ShowAll()
	_, err := f.Sync()
	require.Error(t, err)
	require.NotNil(t, f.Claim("www-web-1"))
	require.Equal(t, "2/2", f.claimStatus())
}

// Whoever waits for Ready wants to use what was asked for: volumes and their sizes are part of it, as far as the strategy
// lets them be.
func TestASetIsReadyWhenItsVolumesAre(t *testing.T) {
	ready := func(f *fixture) bool {
		return f.conditionOf(v1beta1.StatefulSetConditionReady).Status == corev1.ConditionTrue
	}
	onTheWay := func(f *fixture) bool {
		return f.conditionOf(v1beta1.StatefulSetConditionReconciling).Status == corev1.ConditionTrue
	}
	t.Run("a claim template was added", func(t *testing.T) {
		f := newFixture(t)
		f.start(3, partition(1))
		f.Edit(claimTemplate("logs", "1Gi"))
		f.sync()
		require.False(t, ready(f))
		require.True(t, onTheWay(f))
		f.Rest()
		require.Empty(t, f.Pod(name(0)).Spec.Volumes, "the partition holds it back")
		require.True(t, ready(f))
		f.Edit(paused(true), partition(0))
		f.Rest()
		require.True(t, ready(f), "while paused nothing is to be replaced")
		f.Edit(onDelete)
		f.Rest()
		require.True(t, ready(f))
	})
	t.Run("claims grow", func(t *testing.T) {
		f := newFixture(t)
		f.startFollowing(3, partition(1))
		f.Expansion = modelcluster.ExpandNever
		f.Edit(claimTemplate("www", "20Gi"))
		f.Rest()
		require.Equal(t, "1/0", f.claimStatus())
		require.False(t, ready(f))
		require.True(t, onTheWay(f))
		f.Expansion = modelcluster.ExpandAtOnce
		f.Rest()
		require.Equal(t, "2/2", f.claimStatus(), "the partition holds one back")
		require.True(t, ready(f))
	})
	t.Run("claims do not follow their template", func(t *testing.T) {
		f := newFixture(t)
		f.start(2, claimTemplate("www", "1Gi"))
		f.Edit(claimTemplate("www", "20Gi"))
		f.Rest()
		require.True(t, ready(f))
	})
	t.Run("a Pod comes back to its set", func(t *testing.T) {
		f := newFixture(t)
		f.start(2)
		f.EditPod(name(1), func(p *corev1.Pod) { p.OwnerReferences = nil })
		f.sync()
		require.False(t, ready(f))
		f.Rest()
		require.True(t, ready(f))
	})
}

func TestAConditionOfAClaimThatIsFalseSaysNothing(t *testing.T) {
	f := newFixture(t)
	f.startFollowing(3)
	f.Edit(claimTemplate("www", "30Gi"), image("b"))
	f.Rest()
	f.EditClaim("www-web-2", func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionFalse},
		}
	})
	f.Rest()
	require.Equal(t, "0:a 1:a 2:a", f.state())
}

// A claim that did not get its owner would stay for ever once its Pod is gone.
func TestAPodGoesOnlyAfterItsClaimHasItsOwner(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, claimTemplate("www", "1Gi"), retain("Retain", "Delete"))
	f.Refuse("patch", modelcluster.Claims, nil)
	f.Edit(replicas(1))
	f.Live(time.Minute)
	require.Equal(t, "0 1 2", f.ordinals())
	f.Before = nil
	f.Live(2 * time.Minute)
	require.Equal(t, "0", f.ordinals())
	require.Equal(t, "0", f.claimNames())
}

func TestAResizeOfABrokenPodIsAskedForOnce(t *testing.T) {
	f := newFixture(t)
	f.startFollowing(2)
	f.unready(1)
	f.Edit(claimTemplate("www", "5Gi"))
	f.sync()
	require.Equal(t, 1, strings.Count(strings.Join(f.Events, "\n"), "SuccessfulResize claim www-web-1"))
}

func TestAClaimThatIsAboutToGoIsLeftAsItIs(t *testing.T) {
	f := newFixture(t)
	f.start(1, claimTemplate("www", "1Gi"))
	f.hold("www-web-0")
	f.Edit(retain("Delete", "Retain"))
	f.Rest()
	require.Empty(t, f.ownersOfClaim(0))
}

func TestAPendingPodThatGoesGetsNoClaims(t *testing.T) {
	f := newFixture(t)
	f.create(1, parallel, claimTemplate("www", "1Gi"), func(s *v1beta1.StatefulSet) {
		s.Spec.Template.Labels[modelcluster.Unschedulable] = "true"
	})
	f.Rest()
	f.stick(0)
	f.Remove(modelcluster.Claims, namespace+"/www-web-0")
	f.Rest()
	require.Nil(t, f.Claim("www-web-0"))
}

// A claim of that name that the cache does not show yet may be one that goes: the Pod would lose its data.
func TestAClaimThatGoesUnseenHoldsItsPod(t *testing.T) {
	f := newFixture(t)
	f.create(1, parallel, claimTemplate("www", "1Gi"))
	f.ShowAll()
	now := metav1.NewTime(f.Clock.Now())
	f.Put(modelcluster.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "www-web-0", Namespace: namespace, UID: "old", Finalizers: []string{"example.com/backup"}, DeletionTimestamp: &now,
	}})
	_, err := f.Sync()
	require.ErrorContains(t, err, "being deleted")
	require.Nil(t, f.Pod(name(0)))
}

// Names of templates and of sets may have dashes, so that a claim's name does not tell where its set's begins.
func TestTheEndOfAClaimWakesItsSet(t *testing.T) {
	f := newFixture(t)
	f.start(1, parallel, claimTemplate("data-of-a-log", "1Gi"))
	f.hold("data-of-a-log-web-0")
	f.Remove(modelcluster.Pods, namespace+"/"+name(0))
	f.Live(5 * time.Minute)
	require.Nil(t, f.Pod(name(0)))
	f.Remove(modelcluster.Claims, namespace+"/data-of-a-log-web-0")
	f.Live(time.Second)
	require.NotNil(t, f.Pod(name(0)))
}

func TestAClassThatComesToAllowExpansionWakesTheSets(t *testing.T) {
	f := newFixture(t)
	f.startFollowing(1)
	f.Expansion = modelcluster.ExpandAtOnce
	f.class(ptr.To(false))
	f.Edit(claimTemplate("www", "5Gi"))
	f.Live(90 * time.Second)
	require.Equal(t, "1Gi", f.sizes())
	f.class(ptr.To(true))
	f.Live(time.Second)
	require.Equal(t, "5Gi", f.sizes())
}

func TestAnObstacleToAClaimIsLookedAtAgain(t *testing.T) {
	f := newFixture(t)
	f.startFollowing(1)
	f.class(ptr.To(false))
	f.Edit(claimTemplate("www", "5Gi"))
	f.ShowAll()
	after, err := f.Sync()
	require.NoError(t, err)
	require.Equal(t, claimsAgain, after)
}

func TestAnOwnerThatSomebodyElseGaveAClaimMeanwhileStays(t *testing.T) {
	f := newFixture(t)
	f.start(1, claimTemplate("www", "1Gi"))
	f.Edit(retain("Delete", "Retain"))
	f.ShowAll()
	f.EditClaim("www-web-0", func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "theirs"}}
	})
	_, err := f.Sync()
	require.Error(t, err)
	require.Equal(t, "x", f.Claim("www-web-0").OwnerReferences[0].Name)
}

// A claim without a volume cannot grow, and may get one only when its Pod has a node.
func TestAPodWhoseClaimHasNoVolumeIsReplaced(t *testing.T) {
	eachPolicy(t, func(t *testing.T, policy edit) {
		f := newFixture(t)
		f.class(ptr.To(true))
		f.create(1, policy, claimTemplate("www", "1Gi"), follow, func(s *v1beta1.StatefulSet) {
			s.Spec.Template.Labels[modelcluster.Unschedulable] = "1"
		})
		f.Pass()
		f.EditClaim("www-web-0", func(c *corev1.PersistentVolumeClaim) {
			c.Status.Phase, c.Status.Capacity = corev1.ClaimPending, nil
		})
		f.Before = func(verb, resource, name string) error {
			if c := f.Claim(name); verb == "patch" && resource == modelcluster.Claims && c.Status.Phase != corev1.ClaimBound {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolumeClaim"}, name, nil)
			}
			return nil
		}
		f.Edit(image("b"), claimTemplate("www", "2Gi"), func(s *v1beta1.StatefulSet) { delete(s.Spec.Template.Labels, modelcluster.Unschedulable) })
		f.Live(time.Minute)
		require.Equal(t, "0:b", f.state())
		require.NotEqual(t, corev1.ConditionTrue, f.conditionOf(v1beta1.FailedUpdatePod).Status)
		require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.StatefulSetConditionReady).Status, "its claim is still to grow")
		f.EditClaim("www-web-0", func(c *corev1.PersistentVolumeClaim) {
			c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, c.Spec.Resources.Requests
		})
		f.Live(time.Minute)
		require.Equal(t, "2Gi", f.Claim("www-web-0").Spec.Resources.Requests.Storage().String())
		require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.StatefulSetConditionReady).Status)
	})
}

// Scaling in was halted by a broken Pod and taken back, and a Pod was taken out of the set in between.
func TestTheClaimOfAWantedOrdinalDoesNotGoWithAFormerPod(t *testing.T) {
	f := newFixture(t)
	f.start(3, claimTemplate("www", "1Gi"), retain("Retain", "Delete"))
	uid := f.Claim("www-web-2").UID
	f.unready(0)
	f.Edit(replicas(1))
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals(), "halted")
	f.EditPod(name(2), func(p *corev1.Pod) { p.Labels["app"] = "debug" })
	f.Rest()
	f.Edit(replicas(3))
	f.Rest()
	f.ready(0)
	f.Rest()
	require.Contains(t, f.waits(), "Pod web-2 cannot be created")
	f.DeletePod(name(2))
	f.Settle()
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
	require.Equal(t, uid, f.Claim("www-web-2").UID)
}
