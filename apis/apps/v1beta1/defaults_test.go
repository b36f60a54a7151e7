package v1beta1

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

func TestScenario97TheShortestCloneSet(t *testing.T) {
	set := &CloneSet{}
	require.NoError(t, json.Unmarshal([]byte(`{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"main","image":"nginx:1"}]}}}}`), set))
	SetDefaults_CloneSet(set)
	spec, rolling := set.Spec, set.Spec.UpdateStrategy.RollingUpdate
	require.EqualValues(t, 1, *spec.Replicas)
	require.EqualValues(t, 10, *spec.RevisionHistoryLimit)
	require.Equal(t, RollingUpdateCloneSetUpdateStrategyType, spec.UpdateStrategy.Type)
	require.Equal(t, []string{"0", "20%", "0"}, []string{rolling.Partition.String(), rolling.MaxUnavailable.String(), rolling.MaxSurge.String()})
	require.Equal(t, ReCreateCloneSetPodUpdatePolicyType, rolling.PodUpdatePolicy)
	require.Nil(t, rolling.InPlaceUpdateStrategy)
	require.False(t, spec.ScaleStrategy.EnablePVCReuse)
	c := spec.Template.Spec.Containers[0]
	require.Equal(t, corev1.PullAlways, c.ImagePullPolicy)
	require.Equal(t, "/dev/termination-log", c.TerminationMessagePath)
	require.EqualValues(t, 30, *spec.Template.Spec.TerminationGracePeriodSeconds)
	require.Equal(t, "default-scheduler", spec.Template.Spec.SchedulerName)
}

func TestCloneSetDefaultsDependOnTheStrategy(t *testing.T) {
	for name, c := range map[string]struct {
		strategy, want string
	}{
		"OnDelete without parameters":   {`{"type":"OnDelete"}`, `{"type":"OnDelete"}`},
		"OnDelete with some parameters": {`{"type":"OnDelete","rollingUpdate":{"partition":2}}`, `{"type":"OnDelete","rollingUpdate":{"partition":2,"maxUnavailable":"20%","maxSurge":0,"podUpdatePolicy":"ReCreate"}}`},
		"in place":                      {`{"rollingUpdate":{"podUpdatePolicy":"InPlaceOnly"}}`, `{"type":"RollingUpdate","rollingUpdate":{"partition":0,"maxUnavailable":"20%","maxSurge":0,"podUpdatePolicy":"InPlaceOnly","inPlaceUpdateStrategy":{}}}`},
		"an unknown type":               {`{"type":"Blue"}`, `{"type":"Blue"}`},
	} {
		t.Run(name, func(t *testing.T) {
			set := &CloneSet{}
			require.NoError(t, json.Unmarshal([]byte(c.strategy), &set.Spec.UpdateStrategy))
			SetDefaults_CloneSet(set)
			got, err := json.Marshal(set.Spec.UpdateStrategy)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
		})
	}
}

func TestShortestObjectsOfTheOtherKinds(t *testing.T) {
	statefulSet := &StatefulSet{}
	SetDefaults_StatefulSet(statefulSet)
	got, err := json.Marshal(statefulSet.Spec)
	require.NoError(t, err)
	require.JSONEq(t, `{"replicas":1,"selector":null,"podManagementPolicy":"OrderedReady","revisionHistoryLimit":10,
		"template":{"metadata":{},"spec":{"containers":null,"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},"schedulerName":"default-scheduler"}},
		"volumeClaimUpdateStrategy":{"type":"OnDelete"},"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},
		"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0,"maxUnavailable":1,"podUpdatePolicy":"ReCreate","minReadySeconds":0}}}`, string(got))

	job := &BroadcastJob{}
	SetDefaults_BroadcastJob(job)
	require.Equal(t, intstr.FromInt32(2147483647), *job.Spec.Parallelism)
	require.Equal(t, Always, job.Spec.CompletionPolicy.Type)
	require.Equal(t, FailurePolicyTypeFailFast, job.Spec.FailurePolicy.Type)

	cron := &AdvancedCronJob{}
	SetDefaults_AdvancedCronJob(cron)
	require.Equal(t, AllowConcurrent, cron.Spec.ConcurrencyPolicy)
	require.EqualValues(t, 3, *cron.Spec.SuccessfulJobsHistoryLimit)
	require.EqualValues(t, 1, *cron.Spec.FailedJobsHistoryLimit)
	cron = &AdvancedCronJob{}
	cron.Spec.Template.ImageListPullJobTemplate = &ImageListPullJobTemplateSpec{}
	SetDefaults_AdvancedCronJob(cron)
	require.Equal(t, ReplaceConcurrent, cron.Spec.ConcurrencyPolicy)

	sidecars := &SidecarSet{}
	sidecars.Spec.Containers = []SidecarContainer{{Container: corev1.Container{Name: "a", Image: "agent:1.0", StartupProbe: &corev1.Probe{}}}}
	sidecars.Spec.InitContainers = []SidecarContainer{{Container: corev1.Container{Name: "i", Image: "agent"}}}
	SetDefaults_SidecarSet(sidecars)
	require.Equal(t, corev1.PullIfNotPresent, sidecars.Spec.Containers[0].ImagePullPolicy)
	require.Equal(t, corev1.PullAlways, sidecars.Spec.InitContainers[0].ImagePullPolicy)
	require.Equal(t, AfterAppContainerType, sidecars.Spec.InitContainers[0].PodInjectPolicy)
	require.Equal(t, &corev1.Probe{}, sidecars.Spec.Containers[0].StartupProbe, "the hash depends on it")

	united := &UnitedDeployment{}
	three := intstr.FromInt32(3)
	united.Spec.Topology.Subsets = []Subset{{Name: "a", MaxReplicas: &three}, {Name: "b"}}
	SetDefaults_UnitedDeployment(united)
	require.Equal(t, "0", united.Spec.Topology.Subsets[1].MinReplicas.String())
	united.Spec.Topology.Subsets = []Subset{{Name: "a", MaxReplicas: &three}, {Name: "b", Replicas: &three}}
	SetDefaults_UnitedDeployment(united)
	require.Nil(t, united.Spec.Topology.Subsets[1].MinReplicas, "mixed families are left to validation")
}

// TestDefaultsTwiceAreDefaultsOnce with random objects, nil and zero in all places.
func TestDefaultsTwiceAreDefaultsOnce(t *testing.T) {
	seed := rand.Int64()
	t.Logf("seed %d", seed)
	filler := randfill.NewWithSeed(seed).NilChance(.4).NumElements(0, 2).MaxDepth(14).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1e6), resource.DecimalSI)
		},
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31n(9)) },
		func(r *runtime.RawExtension, _ randfill.Continue) { *r = runtime.RawExtension{} },
	)
	for range 200 {
		for _, object := range []runtime.Object{&CloneSet{}, &StatefulSet{}, &SidecarSet{}, &BroadcastJob{}, &AdvancedCronJob{}, &UnitedDeployment{}} {
			filler.Fill(object)
			s := runtime.NewScheme()
			require.NoError(t, AddToScheme(s))
			s.Default(object)
			again := object.DeepCopyObject()
			s.Default(again)
			require.Empty(t, cmp.Diff(object, again))
		}
	}
}
