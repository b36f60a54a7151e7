package inplace

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/flotilla-k8s/flotilla/apis/apps/defaults"
	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/internal/kube/patch"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func template(edits ...func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{}
	t.Labels = map[string]string{"app": "web"}
	t.Spec.Containers = []corev1.Container{{Name: "main", Image: "a"}, {Name: "side", Image: "s"}}
	for _, e := range edits {
		e(t)
	}
	defaults.SetPodTemplate(t)
	return t
}

func mainImage(image string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Image = image }
}

func refersTo(label string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "K", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + label + "']"}}}}
	}
}

func label(k, v string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Labels[k] = v }
}

func TestWhatIsPossibleInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		from, to   *corev1.PodTemplateSpec
		impossible string
		images     map[string]string
	}{
		"nothing changed":      {from: template(), to: template()},
		"an image":             {from: template(), to: template(mainImage("b")), images: map[string]string{"main": "b"}},
		"12 an env value":      {from: template(), to: template(func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A"}} }), impossible: "env of container main"},
		"12 image and env":     {from: template(), to: template(mainImage("b"), func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Args = []string{"x"} }), impossible: "args of container main"},
		"13 an init container": {from: template(), to: template(func(t *corev1.PodTemplateSpec) { t.Spec.InitContainers = []corev1.Container{{Name: "i"}} }), impossible: "initContainers"},
		"13 a container more": {from: template(), to: template(func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "x"})
		}), impossible: "added or removed"},
		"13 containers reordered": {from: template(), to: template(func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[0], t.Spec.Containers[1] = t.Spec.Containers[1], t.Spec.Containers[0]
		}), impossible: "container main is now side"},
		"25 that label and the image": {from: template(refersTo("k"), label("k", "1")), to: template(refersTo("k"), label("k", "2"), mainImage("b")), images: map[string]string{"main": "b"}},
		"29 a label of another name":  {from: template(refersTo("k")), to: template(refersTo("k"), label("j", "2"))},
	} {
		t.Run(name, func(t *testing.T) {
			change, err := Compare(c.from, c.to, Abilities{})
			if c.impossible != "" {
				require.ErrorIs(t, err, ErrImpossible)
				require.ErrorContains(t, err, c.impossible)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.images, change.Images)
		})
	}
}

func TestMetadataIsPatchedNotReplaced(t *testing.T) {
	change, err := Compare(template(label("old", "1"), label("k", "1")), template(label("k", "2"), label("new", "3")), Abilities{})
	require.NoError(t, err)
	require.True(t, change.IsMetadataOnly())
	require.Equal(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{"old": nil, "k": "2", "new": "3"}}}, change.Metadata)
}

// What a template has because it was copied from a Pod moves no Pod, whether it comes or goes.
func TestMetadataThatIsTrueOfOnePodAloneIsNotUpdated(t *testing.T) {
	for _, key := range []string{
		pub.SpecifiedDeleteKey, pub.CloneSetRecreateRevisionKey, pub.ControllerRevisionHashKey, pub.PodTemplateHashKey, pub.CloneSetInstanceIDKey,
		pub.LifecycleStateKey, pub.LifecycleTimestampKey, pub.InPlaceUpdateStateKey, pub.InPlaceUpdateGraceKey,
		pub.InPlaceUpdateStateKeyOld, pub.InPlaceUpdateGraceKeyOld,
	} {
		copied := template(label(key, "true"))
		copied.Annotations = map[string]string{key: "true"}
		for _, c := range [][2]*corev1.PodTemplateSpec{{template(), copied}, {copied, template()}} {
			change, err := Compare(c[0], c[1], Abilities{})
			require.NoError(t, err)
			require.Empty(t, change.Metadata, key)
		}
	}
}

// livePod runs both containers and is ready.
func livePod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-x", Namespace: "d", UID: "u", ResourceVersion: "7", Generation: 1,
		Labels: map[string]string{"app": "web", "user": "kept", pub.ControllerRevisionHashKey: "web-A", pub.LifecycleStateKey: "Normal"}}}
	p.Spec.NodeName = "n"
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "a"}, {Name: "side", Image: "s"}}
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: pub.InPlaceUpdateReady}, {ConditionType: pub.KruisePodReady}}
	p.Status.Phase = corev1.PodRunning
	for _, t := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady, pub.InPlaceUpdateReady, pub.KruisePodReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue})
	}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "id-" + c.Image, ContainerID: "c-" + c.Image, Ready: true})
	}
	return p
}

// send applies a patch as the API server does.
func send(t *testing.T, p *corev1.Pod, change patch.Patch) *corev1.Pod {
	t.Helper()
	before, err := json.Marshal(p)
	require.NoError(t, err)
	after, err := strategicpatch.StrategicMergePatch(before, change.Body, &corev1.Pod{})
	require.NoError(t, err)
	out := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(after, out))
	if change.Subresource == "status" {
		out.Spec = p.Spec
	} else {
		out.Status = p.Status
	}
	return out
}

// restart is the kubelet.
func restart(p *corev1.Pod) {
	for _, c := range p.Spec.Containers {
		s := pods.ContainerStatus(p, c.Name)
		if s.Image != c.Image {
			s.Image, s.ImageID, s.ContainerID = c.Image, "id-"+c.Image, "c-"+c.Image
		}
	}
}

func updateTo(t *testing.T, revision string, from, to *corev1.PodTemplateSpec, grace int32, at time.Time) Update {
	t.Helper()
	change, err := Compare(from, to, Abilities{Resize: true})
	require.NoError(t, err)
	return Update{Target: Target{Revision: revision, Labels: map[string]string{pub.ControllerRevisionHashKey: revision}}, Change: change, GraceSeconds: grace, Now: at}
}

func step(p *corev1.Pod, at time.Time) Step {
	return Refresh{AtTarget: true, Now: at}.Step(p)
}

// apply sends what the update has to change, and then the resize.
func apply(t *testing.T, p *corev1.Pod, u Update) *corev1.Pod {
	t.Helper()
	change, resize := u.Apply(p)
	return resizeTo(t, send(t, p, change), resize)
}

func resizeTo(t *testing.T, p *corev1.Pod, r Resize) *corev1.Pod {
	t.Helper()
	if change, due := r.Patch(p); due {
		require.Equal(t, "resize", change.Subresource)
		p = send(t, p, change)
	}
	return p
}

func start(t *testing.T, p *corev1.Pod, u Update) *corev1.Pod {
	t.Helper()
	gate, ok := u.CloseGate(p)
	require.True(t, ok)
	require.Equal(t, "status", gate.Subresource)
	p = send(t, p, gate)
	require.False(t, pods.IsConditionTrue(p, corev1.PodReady))
	return apply(t, p, u)
}

func TestScenarios1And2AnImageIsChanged(t *testing.T) {
	p := start(t, livePod(), updateTo(t, "web-B", template(), template(mainImage("b")), 0, now))
	require.Equal(t, "b", p.Spec.Containers[0].Image)
	require.Equal(t, "web-B", p.Labels[pub.ControllerRevisionHashKey])
	require.Equal(t, "kept", p.Labels["user"])
	require.Equal(t, pub.LifecycleStateUpdating, pods.LifecycleState(p))
	require.JSONEq(t, `{"revision":"web-B","updateTimestamp":"2030-01-01T12:00:00Z","lastContainerStatuses":{"main":{"imageID":"id-a","containerID":"c-a"}},
		"updateImages":true,"containerBatchesRecord":[{"timestamp":"2030-01-01T12:00:00Z","containers":["main"]}]}`, p.Annotations[pub.InPlaceUpdateStateKey])
	require.False(t, step(p, now).Due, "nothing to do before the kubelet reports")
	restart(p)
	s := step(p, now)
	require.True(t, s.Due)
	p = send(t, p, s.Patch)
	require.Equal(t, pub.LifecycleStateNormal, pods.LifecycleState(p))
	require.True(t, pods.IsConditionTrue(p, pub.InPlaceUpdateReady))
	require.Empty(t, pods.Condition(p, pub.InPlaceUpdateReady).Reason)
	require.False(t, step(p, now).Due)
}

func TestScenarios4To7CompletionIsSeenWhateverTheRuntimeReports(t *testing.T) {
	for name, c := range map[string]struct {
		spec   string
		status func(*corev1.Pod, *corev1.ContainerStatus)
		done   bool
	}{
		"nothing yet":       {"b", func(*corev1.Pod, *corev1.ContainerStatus) {}, false},
		"another image id":  {"b", func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.ImageID = "id-b" }, true},
		"4 the new name":    {"b", func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.Image = "b" }, true},
		"5 normalised":      {"nginx:1.25", func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.Image = "docker.io/library/nginx:1.25" }, true},
		"6 port and no tag": {"reg.local:5000/app", func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.Image = "reg.local:5000/app:latest" }, true},
		"a digest":          {"b@sha256:12", func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.Image = "x@sha256:12" }, true},
		"another tag":       {"nginx:1.25", func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.Image = "nginx:1.24" }, false},
		"7 a new container": {"b", func(p *corev1.Pod, s *corev1.ContainerStatus) {
			s.Image, s.ContainerID, p.Status.ObservedGeneration = "sha256:9", "new", 2
		}, true},
		"7 of an older spec": {"b", func(p *corev1.Pod, s *corev1.ContainerStatus) {
			s.Image, s.ContainerID, p.Status.ObservedGeneration = "sha256:9", "new", 1
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, livePod(), updateTo(t, "web-B", template(), template(mainImage(c.spec)), 0, now))
			p.Generation = 2
			c.status(p, &p.Status.ContainerStatuses[0])
			require.Equal(t, c.done, IsCompleted(p))
		})
	}
}

func TestScenarios14And15MetadataOnlyTouchesNoGate(t *testing.T) {
	u := updateTo(t, "web-B", template(label("old", "1")), template(label("new", "1")), 0, now)
	p := livePod()
	p.Labels["old"] = "1"
	_, gate := u.CloseGate(p)
	require.False(t, gate)
	p = apply(t, p, u)
	require.Equal(t, map[string]string{"app": "web", "user": "kept", "new": "1", pub.ControllerRevisionHashKey: "web-B", pub.LifecycleStateKey: "Normal"}, p.Labels)
	require.True(t, pods.IsReadyAndNormal(p))
	require.False(t, step(p, now).Due)
}

func TestScenarios19To23TheGracePeriod(t *testing.T) {
	begin := func(t *testing.T) *corev1.Pod {
		p := start(t, livePod(), updateTo(t, "web-B", template(), template(mainImage("b")), 30, now))
		require.Equal(t, "a", p.Spec.Containers[0].Image)
		require.Equal(t, "web-B", p.Labels[pub.ControllerRevisionHashKey])
		require.True(t, InGrace(p))
		require.Equal(t, "web-A", From(p))
		return p
	}
	t.Run("19 and 20 the image changes at its end", func(t *testing.T) {
		p := begin(t)
		s := step(p, now.Add(10*time.Second))
		require.False(t, s.Due)
		require.Equal(t, 20*time.Second, s.RequeueAfter)
		s = step(p, now.Add(30*time.Second))
		require.True(t, s.Due)
		p = send(t, p, s.Patch)
		require.Equal(t, "b", p.Spec.Containers[0].Image)
		require.False(t, InGrace(p))
		restart(p)
		p = send(t, p, step(p, now.Add(31*time.Second)).Patch)
		require.Equal(t, pub.LifecycleStateNormal, pods.LifecycleState(p))
	})
	t.Run("its end closes a gate that others have opened before it changes the image", func(t *testing.T) {
		p := begin(t)
		pods.Condition(p, pub.InPlaceUpdateReady).Status = corev1.ConditionTrue
		p = send(t, p, step(p, now.Add(30*time.Second)).Patch)
		require.Equal(t, "a", p.Spec.Containers[0].Image)
		require.False(t, pods.IsConditionTrue(p, pub.InPlaceUpdateReady))
		p = send(t, p, step(p, now.Add(31*time.Second)).Patch)
		require.Equal(t, "b", p.Spec.Containers[0].Image)
	})
	t.Run("21 another target takes over without waiting longer", func(t *testing.T) {
		p := begin(t)
		u := updateTo(t, "web-C", template(), template(mainImage("c")), 5, now.Add(10*time.Second))
		p = apply(t, p, u)
		require.Equal(t, "a", p.Spec.Containers[0].Image)
		require.Equal(t, "web-A", From(p))
		p = send(t, p, step(p, now.Add(30*time.Second)).Patch)
		require.Equal(t, "c", p.Spec.Containers[0].Image)
	})
	t.Run("23 a shorter period is for later updates", func(t *testing.T) {
		p := begin(t)
		u := updateTo(t, "web-C", template(), template(mainImage("c")), 5, now.Add(20*time.Second))
		p = apply(t, p, u)
		require.Equal(t, 5*time.Second, step(p, now.Add(25*time.Second)).RequeueAfter)
		require.True(t, step(p, now.Add(30*time.Second)).Due)
	})
	t.Run("22 back to where it was", func(t *testing.T) {
		p := begin(t)
		p = send(t, p, Withdraw(p, Target{Revision: "web-A", Labels: map[string]string{pub.ControllerRevisionHashKey: "web-A"}}, nil, now))
		require.Equal(t, "a", p.Spec.Containers[0].Image)
		require.False(t, InGrace(p))
		require.Equal(t, pub.LifecycleStateNormal, pods.LifecycleState(p))
		require.True(t, pods.IsConditionTrue(p, pub.InPlaceUpdateReady))
	})
}

func priorities(values ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i, v := range values {
			p.Spec.Containers[i].Env = []corev1.EnvVar{{Name: pub.ContainerPriorityEnv, Value: v}}
		}
	}
}

func TestScenarios30And36ContainersAreChangedInBatches(t *testing.T) {
	p := livePod()
	priorities("0", "10")(p)
	both := template(mainImage("b"), func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Image = "t" })
	p = start(t, p, updateTo(t, "web-B", template(), both, 0, now))
	require.Equal(t, []string{"a", "t"}, []string{p.Spec.Containers[0].Image, p.Spec.Containers[1].Image})
	pods.ContainerStatus(p, "side").Ready = false
	restart(p)
	require.False(t, step(p, now).Due, "the first batch must be ready before the next")

	// A newer target that leaves main alone must not leave it behind.
	third := template(mainImage("b"), func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Image = "u" })
	u := updateTo(t, "web-C", both, third, 0, now)
	q := apply(t, p, u)
	pods.ContainerStatus(q, "side").Ready = true
	restart(q)
	q = send(t, q, step(q, now).Patch)
	require.Equal(t, []string{"b", "u"}, []string{q.Spec.Containers[0].Image, q.Spec.Containers[1].Image})

	pods.ContainerStatus(p, "side").Ready = true
	p = send(t, p, step(p, now).Patch)
	require.Equal(t, "b", p.Spec.Containers[0].Image)
	require.False(t, pods.IsConditionTrue(p, pub.InPlaceUpdateReady))
	restart(p)
	p = send(t, p, step(p, now).Patch)
	require.True(t, pods.IsConditionTrue(p, pub.InPlaceUpdateReady))
	require.Len(t, Read(p).State.ContainerBatchesRecord, 2)
}

func TestScenario24OldKeysAndBrokenAnnotations(t *testing.T) {
	p := livePod()
	p.Annotations = map[string]string{pub.InPlaceUpdateStateKeyOld: `{"revision":"web-A"}`}
	require.Equal(t, "web-A", Read(p).State.Revision)
	q := start(t, p, updateTo(t, "web-B", template(), template(mainImage("b")), 0, now))
	require.NotContains(t, q.Annotations, pub.InPlaceUpdateStateKeyOld)

	p = livePod()
	p.Annotations = map[string]string{pub.InPlaceUpdateGraceKey: `{"revision":"x"}`}
	require.False(t, InGrace(p), "a grace without a state means nothing")
	s := step(p, now)
	require.True(t, s.Due)
	require.NotContains(t, send(t, p, s.Patch).Annotations, pub.InPlaceUpdateGraceKey)
}

func TestScenarios56And58HooksAndKeys(t *testing.T) {
	hook := &pub.LifecycleHook{LabelsHandler: map[string]string{"hook": "true"}, MarkPodNotReady: true}
	l := &pub.Lifecycle{InPlaceUpdate: hook}
	p := livePod()
	p.Labels["hook"] = "true"
	for _, change := range Prepare(p, hook, false, now) {
		p = send(t, p, change)
	}
	require.Equal(t, pub.LifecycleStatePreparingUpdate, pods.LifecycleState(p))
	require.Equal(t, `[{"key":"preUpdateHook","userAgent":"Lifecycle"}]`, sortJSON(t, pods.Condition(p, pub.KruisePodReady).Message))
	require.False(t, pods.IsConditionTrue(p, corev1.PodReady))

	back := Refresh{Lifecycle: l, Unwanted: true, Now: now}.Step(p)
	require.True(t, back.Due)
	q := send(t, p, back.Patch)
	require.Equal(t, pub.LifecycleStateNormal, pods.LifecycleState(q))
	require.Equal(t, corev1.ConditionTrue, pods.Condition(q, pub.KruisePodReady).Status)
	require.Equal(t, "[]", pods.Condition(q, pub.KruisePodReady).Message)
}

func sortJSON(t *testing.T, text string) string {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

// TestANewPodsGatesAreAnsweredWhateverItsKubeletWrites: a Pod that was not answered yet is being started, and its version changes
// all the time. Any other Pod may be in an update that was not seen.
func TestANewPodsGatesAreAnsweredWhateverItsKubeletWrites(t *testing.T) {
	fresh := func(state pub.LifecycleStateType, edits ...func(*corev1.Pod)) *corev1.Pod {
		p := livePod()
		p.ResourceVersion, p.Labels[pub.LifecycleStateKey], p.Status.Conditions = "7", string(state), nil
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: pub.InPlaceUpdateReady}, {ConditionType: pub.KruisePodReady}}
		for _, e := range edits {
			e(p)
		}
		return p
	}
	answered := func(gate corev1.PodConditionType) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: gate, Status: corev1.ConditionTrue}}
		}
	}
	recorded := func(p *corev1.Pod) { p.Annotations = map[string]string{pub.InPlaceUpdateStateKey: `{}`} }
	for name, c := range map[string]struct {
		pod *corev1.Pod
		any bool
	}{
		"a Pod that is made Normal":         {fresh(pub.LifecycleStateNormal), true},
		"a Pod that becomes Normal":         {fresh(pub.LifecycleStatePreparingNormal), true},
		"its image gate is answered":        {fresh(pub.LifecycleStateNormal, answered(pub.InPlaceUpdateReady)), false},
		"its lifecycle gate is answered":    {fresh(pub.LifecycleStateNormal, answered(pub.KruisePodReady)), false},
		"it was updated":                    {fresh(pub.LifecycleStateNormal, recorded), false},
		"it is about to be updated":         {fresh(pub.LifecycleStatePreparingUpdate), false},
		"somebody has taken its label away": {fresh(""), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := step(c.pod, now)
			require.True(t, s.Due)
			require.Equal(t, !c.any, strings.Contains(string(s.Patch.Body), `"resourceVersion":"7"`), string(s.Patch.Body))
		})
	}
}

// A resize was put off, which opens the gate, and somebody has spoiled the label by which the Pod is in an update. Its container
// does not say what it has: it was not started yet.
func TestAResizeIsNotForgottenWithALabel(t *testing.T) {
	p := livePod()
	p.Labels[pub.LifecycleStateKey] = "garbage"
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: pub.InPlaceUpdateReady}}
	p.Status.Conditions = []corev1.PodCondition{{Type: pub.InPlaceUpdateReady, Status: corev1.ConditionTrue}}
	p.Status.ContainerStatuses[0].Resources = nil
	name := p.Spec.Containers[0].Name
	p.Annotations = map[string]string{pub.InPlaceUpdateStateKey: `{"revision":"x","updateResources":true,"containerResources":{"` + name + `":{"limits":{"cpu":"7"}}}}`}
	require.True(t, IsCompleted(p))
	require.Contains(t, step(p, now).Resize, name)
}
