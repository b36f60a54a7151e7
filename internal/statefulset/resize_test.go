package statefulset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
)

func cpu(q string) edit {
	return func(s *v1beta1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(q)}
		s.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	}
}

// An update that the node cannot satisfy never ends by itself, so that nobody is to wait for it.
func TestAPodWhoseNodeHasTooLittleIsReplaced(t *testing.T) {
	for _, policy := range []edit{func(*v1beta1.StatefulSet) {}, parallel} {
		f := newFixture(t)
		f.start(2, policy, inPlace, cpu("2"))
		uid := f.Pod(name(1)).UID
		f.Edit(cpu("200"))
		for range 20 {
			f.Pass()
			require.GreaterOrEqual(t, len(f.Active()), 1)
		}
		require.NotEqual(t, uid, f.Pod(name(1)).UID)
	}
}

func TestAPodWhoseNodeHasTooLittleWaitsForItsHook(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel, inPlace, cpu("2"), preDelete)
	uid := f.Pod(name(1)).UID
	f.Edit(cpu("200"))
	f.Rest()
	require.Equal(t, held{name(1): pub.LifecycleStatePreparingDelete}, f.lifecycle())
	f.release(1)
	f.Pass()
	f.Pass()
	require.NotEqual(t, uid, f.Pod(name(1)).UID)
}

// A Pod that is refused its resources is not taken back while it waits for its hook, only to be refused again.
func TestAPodThatIsRefusedItsResourcesWaitsForItsHook(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel, inPlace, cpu("2"), preDelete)
	uid := f.Pod(name(1)).UID
	f.Edit(cpu("3"))
	f.Refuse("patch/resize", "pods", nil)
	f.Rest()
	require.Equal(t, held{name(1): pub.LifecycleStatePreparingDelete}, f.lifecycle())
	require.Equal(t, 1, strings.Count(strings.Join(f.Events, "\n"), EventFailedUpdateInPlace))
	f.release(1)
	f.Rest()
	require.NotEqual(t, uid, f.Pod(name(1)).UID)
}

func TestAPodWhoseNodeHasTooLittleIsReplacedWhateverItsLabelSays(t *testing.T) {
	f := newFixture(t)
	f.start(2, parallel, inPlace, cpu("2"))
	uid := f.Pod(name(1)).UID
	f.Edit(cpu("200"))
	f.sync()
	require.Equal(t, pub.LifecycleStateUpdating, f.stateOf(1))
	f.label(1, pub.LifecycleStateKey, "garbage")
	for range 5 {
		f.Pass()
	}
	require.NotEqual(t, uid, f.Pod(name(1)).UID)
}

// Pods that serve although what their update gave them has not arrived count against the budget, and yet no more of them may
// be taken out of service than it has room for.
func TestPodsThatServeInTheMiddleOfAnUpdateGoOneByOne(t *testing.T) {
	f := newFixture(t)
	f.start(4, parallel, inPlace, cpu("2"), unavailable("4"))
	f.Edit(cpu("3"))
	f.sync()
	for i := range 4 {
		f.label(i, pub.LifecycleStateKey, string(pub.LifecycleStateNormal))
		require.False(t, inplace.IsCompleted(f.Pod(name(i))))
	}
	require.Equal(t, 4, f.Available())
	f.Edit(image("b"), unavailable("1"))
	f.sync()
	require.Equal(t, 3, f.Available())
	f.Rest()
	require.Equal(t, "0:b 1:b 2:b 3:b", f.state())
}

// While Pods are not to be replaced, those whose nodes have no room serve with what they have. If they may be replaced later, that is
// within the budget and in the order of updates.
func TestPodsThatServeAreReplacedForTheirResourcesWithinTheBudget(t *testing.T) {
	mayReplace := rolling(func(r *v1beta1.RollingUpdateStatefulSetStrategy) {
		r.PodUpdatePolicy = v1beta1.InPlaceIfPossiblePodUpdateStrategyType
	})
	for what, c := range map[string]struct {
		edits []edit
		gone  string
	}{
		"parallel":     {edits: []edit{parallel, unavailable("2")}, gone: "3 4"},
		"in order":     {gone: "4"},
		"paused":       {edits: []edit{parallel, paused(true)}},
		"by deletions": {edits: []edit{parallel, onDelete}},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			f.start(5, append([]edit{inPlaceOnly, cpu("2"), unavailable("5")}, c.edits[:min(len(c.edits), 1)]...)...)
			f.Edit(cpu("200"))
			f.Rest()
			require.Equal(t, 5, f.Available(), "they serve with what they have")
			f.Edit(append([]edit{mayReplace}, c.edits...)...)
			f.sync()
			require.Equal(t, c.gone, f.terminating())
		})
	}
}

func TestAChangeOfMereMetadataCostsNoBudget(t *testing.T) {
	f := newFixture(t)
	f.start(6, parallel, inPlace)
	f.Edit(func(s *v1beta1.StatefulSet) { s.Spec.Template.Labels["v"] = "2" })
	before := f.Writes["patch/status statefulsets"]
	f.sync()
	for i := range 6 {
		require.Equal(t, "2", f.Pod(name(i)).Labels["v"])
	}
	require.Equal(t, 6, f.Available())
	f.Rest()
	require.LessOrEqual(t, f.Writes["patch/status statefulsets"]-before, 2)
}
