package inplace

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/dump"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

func TestScenario3ARollbackOfAnImageThatCannotBePulledCompletesAtOnce(t *testing.T) {
	a, b := template(), template(mainImage("b"))
	p := start(t, livePod(), updateTo(t, "web-B", a, b, 0, now))
	require.False(t, step(p, now).Due, "it cannot be pulled")
	p = start(t, p, updateTo(t, "web-A", b, a, 0, now))
	require.Equal(t, "a", p.Spec.Containers[0].Image)
	p = send(t, p, step(p, now).Patch)
	require.Equal(t, pub.LifecycleStateNormal, pods.LifecycleState(p))
}

func TestScenario8OnlyTheChangedContainerIsRecorded(t *testing.T) {
	p := start(t, livePod(), updateTo(t, "web-B", template(), template(mainImage("b")), 0, now))
	require.Contains(t, Read(p).State.LastContainerStatuses, "main")
	require.NotContains(t, Read(p).State.LastContainerStatuses, "side")
	require.Equal(t, "s", p.Spec.Containers[1].Image)
}

func TestScenario9APodThatNeverStartedIsDoneAtOnce(t *testing.T) {
	p := livePod()
	p.Status.ContainerStatuses = nil
	p = start(t, p, updateTo(t, "web-B", template(), template(mainImage("b")), 0, now))
	require.Equal(t, "b", p.Spec.Containers[0].Image)
	require.True(t, IsCompleted(p))
}

func TestScenario10AnInjectedSidecarIsLeftAlone(t *testing.T) {
	p := livePod()
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "injected", Image: "i"})
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "injected", Image: "i", ImageID: "id-i"})
	p = start(t, p, updateTo(t, "web-B", template(), template(mainImage("b")), 0, now))
	require.Equal(t, "i", p.Spec.Containers[2].Image)
	restart(p)
	require.True(t, IsCompleted(p))
}

func TestScenario11AnImageChangedByHandIsChangedAgain(t *testing.T) {
	p := livePod()
	p.Spec.Containers[0].Image = "by-hand"
	p = start(t, p, updateTo(t, "web-B", template(), template(mainImage("b")), 0, now))
	require.Equal(t, "b", p.Spec.Containers[0].Image)
}

func TestScenarios12And13WhatNeedsAnotherPodIsSaid(t *testing.T) {
	// The table of TestWhatIsPossibleInPlace has these cases; here the reasons name what changed.
	_, err := Compare(template(), template(mainImage("b"), func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	}), Abilities{Resize: true})
	require.ErrorContains(t, err, "env of container main changed")
	_, err = Compare(template(), template(func(t *corev1.PodTemplateSpec) {
		t.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "x"}}
	}), Abilities{Resize: true})
	require.ErrorContains(t, err, "initContainers changed")
}

func TestScenario16ANewPodsGatesAreAnsweredWhenItHasANode(t *testing.T) {
	p := livePod()
	p.Status.Conditions = nil
	p.Labels[pub.LifecycleStateKey] = string(pub.LifecycleStatePreparingNormal)
	p.Spec.NodeName = ""
	require.False(t, step(p, now).Due)
	p.Spec.NodeName = "n"
	p = send(t, p, step(p, now).Patch)
	for _, gate := range []corev1.PodConditionType{pub.InPlaceUpdateReady, pub.KruisePodReady} {
		require.Equal(t, corev1.ConditionTrue, pods.Condition(p, gate).Status)
		require.Empty(t, pods.Condition(p, gate).Reason)
	}
	require.Equal(t, pub.LifecycleStateNormal, pods.LifecycleState(p))
}

// report is what a node daemon writes.
func report(t *testing.T, p *corev1.Pod, environment func(name string) uint64) {
	t.Helper()
	set := pub.RuntimeContainerMetaSet{}
	for _, s := range p.Status.ContainerStatuses {
		set.Containers = append(set.Containers, pub.RuntimeContainerMeta{
			Name: s.Name, ContainerID: s.ContainerID, Hashes: pub.RuntimeContainerHashes{ExtractedEnvFromMetadataHash: environment(s.Name)},
		})
	}
	raw, err := json.Marshal(set)
	require.NoError(t, err)
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[pub.RuntimeContainersMetaKey] = string(raw)
}

func referring(p *corev1.Pod, key string) *corev1.Pod {
	p.Spec.Containers[0].Env = template(refersTo(key)).Spec.Containers[0].Env
	return p
}

func TestScenario25ALabelArrivesWithTheImage(t *testing.T) {
	from, to := template(refersTo("k"), label("k", "1")), template(refersTo("k"), label("k", "2"), mainImage("b"))
	p := referring(livePod(), "k")
	p.Labels["k"] = "1"
	p = start(t, p, updateTo(t, "web-B", from, to, 0, now))
	require.Equal(t, "2", p.Labels["k"])
	require.Equal(t, "b", p.Spec.Containers[0].Image)
	restart(p)
	require.True(t, IsCompleted(p), "the restart for the image is all it takes")
}

func TestScenario26And27OnlyADaemonRestartsForALabel(t *testing.T) {
	from, to := template(refersTo("k"), label("k", "1")), template(refersTo("k"), label("k", "2"))
	u := updateTo(t, "web-B", from, to, 0, now)
	p := referring(livePod(), "k")
	p.Labels["k"] = "1"
	require.ErrorIs(t, u.Change.CheckServed(p), ErrImpossible)

	hash := func(value string) uint64 {
		h := fnv.New32a()
		_, err := h.Write([]byte(dump.ForHash([]byte(`[{"name":"K","value":"` + value + `"}]`))))
		require.NoError(t, err)
		return uint64(h.Sum32())
	}
	p.Spec.Containers[0].Env[0].Name = "K"
	report(t, p, func(string) uint64 { return hash("1") })
	require.NoError(t, u.Change.CheckServed(p))
	p = start(t, p, u)
	require.Equal(t, "2", p.Labels["k"])
	require.False(t, IsCompleted(p))
	p.Status.ContainerStatuses[0].ContainerID = "restarted"
	require.False(t, IsCompleted(p), "the daemon has not reported")
	report(t, p, func(string) uint64 { return hash("1") })
	require.False(t, IsCompleted(p), "the daemon reports the old environment")
	report(t, p, func(string) uint64 { return hash("2") })
	require.True(t, IsCompleted(p))
}

func TestScenario28ARemovedLabelRestartsTheContainer(t *testing.T) {
	from, to := template(refersTo("k"), label("k", "1")), template(refersTo("k"))
	u := updateTo(t, "web-B", from, to, 0, now)
	require.Equal(t, []string{"main"}, u.Change.needsDaemon)
	p := referring(livePod(), "k")
	p.Labels["k"] = "1"
	report(t, p, func(string) uint64 { return 1 })
	p = start(t, p, u)
	require.NotContains(t, p.Labels, "k")
	require.False(t, IsCompleted(p))
	report(t, p, func(name string) uint64 { return environmentHash(p, name) })
	require.True(t, IsCompleted(p))
}

func TestScenario29WhatIsNoReferenceOfAContainer(t *testing.T) {
	env := template(refersTo("k")).Spec.Containers[0].Env
	for name, refer := range map[string]func(*corev1.PodTemplateSpec){
		"the version of sidecars": func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: pub.SidecarSetVersionEnv, ValueFrom: env[0].ValueFrom}}
		},
		"an init container": func(t *corev1.PodTemplateSpec) {
			t.Spec.InitContainers = []corev1.Container{{Name: "init", Env: env}}
		},
		"a volume": func(t *corev1.PodTemplateSpec) {
			t.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
				Items: []corev1.DownwardAPIVolumeFile{{Path: "k", FieldRef: env[0].ValueFrom.FieldRef}},
			}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := updateTo(t, "web-B", template(refer, label("k", "1")), template(refer, label("k", "2")), 0, now)
			require.True(t, u.Change.IsMetadataOnly())
			_, gate := u.CloseGate(livePod())
			require.False(t, gate)
		})
	}
}

// prioritised gives the containers barriers.
func prioritised(p *corev1.Pod, barriers ...string) *corev1.Pod {
	for i, b := range barriers {
		if b != "" {
			p.Spec.Containers[i].Env = append(p.Spec.Containers[i].Env, corev1.EnvVar{Name: pub.ContainerBarrierEnv, ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: b},
			}})
		}
	}
	return p
}

func sideImage(image string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Image = image }
}

func TestScenario31And32ABatchThatDoesNotWorkHoldsTheNext(t *testing.T) {
	a, b := template(), template(mainImage("b"), sideImage("t"))
	p := start(t, prioritised(livePod(), "p_0", "p_10"), updateTo(t, "web-B", a, b, 0, now))
	require.Equal(t, []string{"a", "t"}, []string{p.Spec.Containers[0].Image, p.Spec.Containers[1].Image})
	restart(p)
	pods.ContainerStatus(p, "side").Ready = false
	require.False(t, step(p, now).Due)
	require.False(t, pods.IsConditionTrue(p, corev1.PodReady))

	p = start(t, p, updateTo(t, "web-A", b, a, 0, now))
	require.Equal(t, []string{"a", "s"}, []string{p.Spec.Containers[0].Image, p.Spec.Containers[1].Image})
}

func TestScenario33ContainersThatShareALabelChangeTogether(t *testing.T) {
	refer := func(t *corev1.PodTemplateSpec) {
		refersTo("k")(t)
		t.Spec.Containers[1].Env = t.Spec.Containers[0].Env
	}
	from, to := template(refer, label("k", "1")), template(refer, label("k", "2"), mainImage("b"))
	u := updateTo(t, "web-B", from, to, 0, now)
	p := prioritised(livePod(), "p_0", "p_10")
	report(t, p, func(string) uint64 { return 0 })
	require.NoError(t, u.Change.CheckServed(p))
	p = start(t, p, u)
	require.Equal(t, []string{"main", "side"}, Read(p).State.ContainerBatchesRecord[0].Containers)
}

func TestScenario34AContainerWithoutPriorityGoesFirst(t *testing.T) {
	third := func(image string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "third", Image: image})
		}
	}
	p := livePod()
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "third", Image: "x"})
	p = start(t, prioritised(p, "p_0", "p_10"), updateTo(t, "web-B", template(third("x")), template(mainImage("b"), sideImage("t"), third("y")), 0, now))
	require.Equal(t, []string{"side", "third"}, Read(p).State.ContainerBatchesRecord[0].Containers)
}

func TestScenario37PrioritiesHoldWithoutABarrier(t *testing.T) {
	p := livePod()
	for i, priority := range []string{"0", "5"} {
		p.Spec.Containers[i].Env = []corev1.EnvVar{{Name: pub.ContainerPriorityEnv, Value: priority}}
	}
	p = start(t, p, updateTo(t, "web-B", template(), template(mainImage("b"), sideImage("t")), 0, now))
	require.Equal(t, []string{"side"}, Read(p).State.ContainerBatchesRecord[0].Containers)
}

// resources are pairs of a resource's request and limit.
func resources(requestCPU, limitCPU string) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{}
	if requestCPU != "" {
		r.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(requestCPU)}
	}
	if limitCPU != "" {
		r.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limitCPU)}
	}
	return r
}

func mainResources(r corev1.ResourceRequirements) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Resources = r }
}

func withResources(p *corev1.Pod, container int, r corev1.ResourceRequirements) *corev1.Pod {
	p.Spec.Containers[container].Resources = r
	p.Status.ContainerStatuses[container].Resources = r.DeepCopy()
	return p
}

// allocate is the kubelet giving containers what their spec says.
func allocate(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		p.Status.ContainerStatuses[i].Resources = p.Spec.Containers[i].Resources.DeepCopy()
	}
}

func TestScenario35TheNextBatchMayHoldResourcesOnly(t *testing.T) {
	old, fresh := resources("1", "2"), resources("1", "3")
	p := prioritised(withResources(livePod(), 0, old), "p_0", "p_10")
	p = start(t, p, updateTo(t, "web-B", template(mainResources(old)), template(mainResources(fresh), sideImage("t")), 0, now))
	require.Equal(t, "2", p.Spec.Containers[0].Resources.Limits.Cpu().String())
	restart(p)
	s := step(p, now)
	require.True(t, s.Due)
	p = resizeTo(t, send(t, p, s.Patch), s.Resize)
	require.Equal(t, "3", p.Spec.Containers[0].Resources.Limits.Cpu().String())
	require.False(t, step(p, now).Due, "the node has not given it yet")
	allocate(p)
	p = send(t, p, step(p, now).Patch)
	require.Equal(t, pub.LifecycleStateNormal, pods.LifecycleState(p))
}

func TestScenario38ResourcesAloneRestartNothing(t *testing.T) {
	old, fresh := resources("500m", "1"), resources("1", "2")
	u := updateTo(t, "web-B", template(mainResources(old)), template(mainResources(fresh)), 0, now)
	p := withResources(livePod(), 0, old)
	_, gate := u.CloseGate(p)
	require.False(t, gate)
	p = apply(t, p, u)
	require.True(t, pods.IsConditionTrue(p, pub.InPlaceUpdateReady))
	require.True(t, Read(p).State.UpdateResources)
	require.Equal(t, fresh, p.Spec.Containers[0].Resources)
	require.False(t, IsCompleted(p))
	allocate(p)
	require.True(t, IsCompleted(p))
	p = send(t, p, step(p, now).Patch)
	require.Equal(t, pub.LifecycleStateNormal, pods.LifecycleState(p))
}

func TestScenario39AContainerThatRestartsForAResizeLeavesItsServices(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{corev1.ResourceCPU: true, corev1.ResourceMemory: false} {
		policy := func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: name, RestartPolicy: corev1.RestartContainer}}
		}
		u := updateTo(t, "web-B", template(policy, mainResources(resources("1", "2"))), template(policy, mainResources(resources("1", "3"))), 0, now)
		_, gate := u.CloseGate(livePod())
		require.Equal(t, want, gate, name)
	}
}

func TestScenarios40And41WhichResourcesCanBeResized(t *testing.T) {
	storage := resources("1", "2")
	storage.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
	for name, c := range map[string]struct {
		from, to   corev1.ResourceRequirements
		cannot     bool
		impossible string
	}{
		"a class that would change":   {from: resources("1", "2"), to: resources("2", "2"), impossible: ""},
		"another resource":            {from: resources("1", "2"), to: storage, impossible: "only cpu and memory"},
		"a limit more, same class":    {from: resources("1", ""), to: resources("1", "2")},
		"a limit less":                {from: resources("1", "2"), to: resources("1", ""), impossible: "was removed"},
		"from nothing":                {from: resources("", ""), to: resources("1", ""), impossible: "quality of service"},
		"the same in other words":     {from: resources("1", "2"), to: resources("1000m", "2000m")},
		"41 a cluster without resize": {from: resources("1", "2"), to: resources("1", "3"), cannot: true, impossible: "resources of container main changed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compare(template(mainResources(c.from)), template(mainResources(c.to)), Abilities{Resize: !c.cannot})
			if c.impossible == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.impossible)
		})
	}
	both := func(cpu, memory string) corev1.ResourceRequirements {
		r := resources(cpu, "2")
		r.Limits[corev1.ResourceMemory], r.Requests[corev1.ResourceMemory] = resource.MustParse("2Gi"), resource.MustParse(memory)
		return r
	}
	alone := func(r corev1.ResourceRequirements) *corev1.PodTemplateSpec {
		one := template(mainResources(r))
		one.Spec.Containers = one.Spec.Containers[:1]
		return one
	}
	_, err := Compare(alone(both("1", "1Gi")), alone(both("2", "2Gi")), Abilities{Resize: true})
	require.ErrorContains(t, err, "from Burstable to Guaranteed")
}

func TestScenario42TheTemplateWinsOverAnAutoscaler(t *testing.T) {
	p := withResources(livePod(), 0, resources("1", "3"))
	p = apply(t, p, updateTo(t, "web-B", template(mainResources(resources("1", "1500m"))), template(mainResources(resources("1", "2"))), 0, now))
	require.Equal(t, "2", p.Spec.Containers[0].Resources.Limits.Cpu().String())
}

func TestScenario43AnInfeasibleResizeEndsWhereThePodMustStay(t *testing.T) {
	old, fresh := resources("1", "2"), resources("1", "3")
	p := apply(t, withResources(livePod(), 0, old), updateTo(t, "web-B", template(mainResources(old)), template(mainResources(fresh)), 0, now))
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred})
	_, infeasible := isInfeasible(p)
	require.False(t, infeasible, "deferred is not infeasible")
	p.Status.Conditions[len(p.Status.Conditions)-1].Reason = corev1.PodReasonInfeasible
	why, infeasible := isInfeasible(p)
	require.True(t, infeasible)
	require.NotEmpty(t, why)
	require.False(t, step(p, now).Due)
	s := Refresh{AtTarget: true, KeepInfeasible: true, Now: now}.Step(p)
	require.True(t, s.Due)
	require.Equal(t, pub.LifecycleStateNormal, pods.LifecycleState(send(t, p, s.Patch)))
}

// Whether an update is over for ever is a matter of what this update has asked for.
func TestARefusalCountsForTheUpdateThatWasRefused(t *testing.T) {
	small, large, fair := resources("1", "2"), resources("1", "200"), resources("1", "3")
	refuse := func(p *corev1.Pod, generation int64) {
		p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, ObservedGeneration: generation,
		})
	}
	check := func(p *corev1.Pod, want bool, when string) {
		t.Helper()
		_, is := Refusal(p)
		require.Equal(t, want, is, when)
		keep := Refresh{AtTarget: true, KeepInfeasible: true, Now: now}.Step(p)
		require.Equal(t, want, keep.State == pub.LifecycleStateNormal && keep.Due, when)
	}
	p := prioritised(withResources(livePod(), 0, small), "p_0", "p_10")
	p.Spec.Containers[0].Resources, p.Generation = large, 2
	refuse(p, 2)
	check(p, false, "nothing of it is ours")
	p = start(t, p, updateTo(t, "web-C", template(mainResources(large)), template(mainResources(fair), sideImage("t")), 0, now))
	check(p, false, "the first batch is the image of another container")

	restart(p)
	s := step(p, now)
	require.True(t, s.Due)
	p = resizeTo(t, send(t, p, s.Patch), s.Resize)
	require.Equal(t, fair, p.Spec.Containers[0].Resources)
	p.Generation = 4
	check(p, false, "the node has not seen the second batch")
	refuse(p, 4)
	check(p, true, "it has, and refuses that as well")
	refuse(p, 0)
	check(p, true, "a node that does not say what it has seen")
}

func TestScenario44OtherContainersResourcesDoNotMatter(t *testing.T) {
	old, fresh := resources("1", "2"), resources("1", "3")
	p := withResources(livePod(), 0, old)
	p.Spec.Containers[1].Resources = resources("2", "4")
	p = apply(t, p, updateTo(t, "web-B", template(mainResources(old)), template(mainResources(fresh)), 0, now))
	p.Status.ContainerStatuses[0].Resources = fresh.DeepCopy()
	require.True(t, IsCompleted(p))
}

func TestScenario45ImageAndResourcesTogether(t *testing.T) {
	old, fresh := resources("1", "2"), resources("1", "3")
	p := start(t, withResources(livePod(), 0, old), updateTo(t, "web-B", template(mainResources(old)), template(mainResources(fresh), mainImage("b")), 0, now))
	require.Equal(t, "b", p.Spec.Containers[0].Image)
	require.Equal(t, fresh, p.Spec.Containers[0].Resources)
	restart(p)
	require.False(t, IsCompleted(p))
	allocate(p)
	require.True(t, IsCompleted(p))
}

func TestAResizeThatAKilledProcessLeftOutIsMadeUpFor(t *testing.T) {
	old, fresh := resources("1", "2"), resources("1", "3")
	u := updateTo(t, "web-B", template(mainResources(old)), template(mainResources(fresh)), 0, now)
	p := withResources(livePod(), 0, old)
	change, _ := u.Apply(p)
	p = send(t, p, change)
	s := step(p, now)
	require.False(t, s.Due)
	require.NotEmpty(t, s.Resize)
	p = resizeTo(t, p, s.Resize)
	allocate(p)
	s = step(p, now)
	require.True(t, s.Due)
	require.Empty(t, s.Resize)
	// An autoscaler may change it once the update is over.
	p = send(t, p, s.Patch)
	p.Spec.Containers[0].Resources = resources("1", "4")
	require.Empty(t, step(p, now).Resize)
}

func TestScenario61WithoutAHookUpdatingEndsInNormal(t *testing.T) {
	p := start(t, livePod(), updateTo(t, "web-B", template(), template(mainImage("b")), 0, now))
	restart(p)
	s := Refresh{Lifecycle: &pub.Lifecycle{PreDelete: &pub.LifecycleHook{LabelsHandler: map[string]string{"x": "y"}}}, AtTarget: true, Now: now}.Step(p)
	require.Equal(t, pub.LifecycleStateNormal, s.State)
}

func TestASpoiledRecordLeavesNoPodBehind(t *testing.T) {
	p := start(t, livePod(), updateTo(t, "web-B", template(), template(mainImage("b")), 30, now))
	require.Equal(t, "a", p.Spec.Containers[0].Image)
	delete(p.Annotations, pub.InPlaceUpdateStateKey)
	change, behind := Behind(p, template(mainImage("b")))
	require.True(t, behind)
	p = start(t, p, Update{Target: Target{Revision: "web-B"}, Change: change, Now: now})
	require.Equal(t, "b", p.Spec.Containers[0].Image)
	require.NotContains(t, p.Annotations, pub.InPlaceUpdateGraceKey)
	_, behind = Behind(p, template(mainImage("b")))
	require.False(t, behind)
}
