package cloneset

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

var schedules = flag.Int("schedules", 20000, "how many random schedules TestSimulation runs")

// TestSimulation drives the controller through random schedules: specs that change at any moment, hooks, caches that lag,
// a kubelet that works whenever it likes, writes that are refused or lose their answer, a process that dies between any
// two writes. In half of the clusters Pods also fail and vanish by themselves; in the others the budgets hold at every
// moment. Once the disturbances stop the set comes to rest by its own timers and events, as its spec says, and then
// nothing is written any more.
//
// FLOTILLA_SEED=n runs schedule n alone and prints its story.
func TestSimulation(t *testing.T) {
	modelcluster.RunSchedules(t, *schedules, func(seed uint64) modelcluster.Schedule { return newSimulation(seed) })
}

// simulation is one random schedule.
type simulation struct {
	*fixture
	modelcluster.Simulation
	// hostile: Pods fail by themselves, so that no budget can be checked.
	hostile bool
	// bounds hold for all specs that the controller may be acting on.
	bounds bounds
	// versions of revisions that exist or have existed. A name stands for one content.
	versions map[string]string
}

// bounds are what the controller may do at the worst, by any of the specs since the set last rested.
type bounds struct {
	pods        int
	replicas    int
	unavailable int
	// minReady are the longest and the shortest minReadySeconds.
	minReady, minReadyLeast int32
	// current: the controller has seen the present spec.
	current bool
	// available may not become fewer; it rises with what is reached.
	available int
	updated   map[string]int
}

func newSimulation(seed uint64) *simulation {
	random := rand.New(rand.NewPCG(seed, 1))
	options := Options{PartitionRollback: seed%5 == 0, RecreateForClaims: seed%7 == 0}
	s := &simulation{
		fixture:    fixtureOf(nil, options, random.IntN),
		Simulation: modelcluster.Simulation{Random: random, Seed: seed, Faults: true, Crashes: seed%3 == 0},
		hostile:    seed%2 == 1, bounds: bounds{updated: map[string]int{}}, versions: map[string]string{},
	}
	s.Disturb(s.fixture.Cluster)
	s.Changed = s.checkChange
	return s
}

func (s *simulation) fail(format string, args ...any) {
	s.Failf("%s\nwanted %+v, bounds %+v, status %+v", fmt.Sprintf(format, args...), s.numbers(), s.bounds, s.Set().Status)
}

// Play is the schedule.
func (s *simulation) Play() {
	s.create(int32(s.Random.IntN(8)), s.setUp())
	s.begin()
	edits := 1 + s.Random.IntN(3)
	for i := range edits {
		for range 10 + s.Random.IntN(45) {
			s.step()
		}
		s.Edit(s.randomEdit(i == edits-1))
		s.begin()
	}
	for range 20 + s.Random.IntN(50) {
		s.step()
	}
	s.Faults = false
	s.Finish(s.check, s.answerHook)
	s.checkEnd()
}

// begin takes a new spec into the bounds.
func (s *simulation) begin() {
	n, b := s.numbers(), &s.bounds
	if len(s.bounds.updated) == 0 {
		b.replicas, b.minReadyLeast = n.replicas, s.Set().Spec.MinReadySeconds
	}
	b.pods = max(b.pods, len(s.Active()), n.replicas+n.maxSurge)
	b.replicas = min(b.replicas, n.replicas)
	b.unavailable = max(b.unavailable, n.maxUnavailable)
	// A longer minReadySeconds makes Pods unavailable by itself.
	b.available = min(b.available, b.replicas-b.unavailable, s.Available())
	wanted := version(&s.Set().Spec.Template.ObjectMeta, &s.Set().Spec.Template.Spec)
	b.minReady = max(b.minReady, s.Set().Spec.MinReadySeconds)
	b.minReadyLeast = min(b.minReadyLeast, s.Set().Spec.MinReadySeconds)
	b.updated[wanted] = max(b.updated[wanted], s.at(wanted), n.replicas-n.partition+n.maxSurge)
	if s.current() == wanted {
		// There is no older revision to hold Pods at.
		b.updated[wanted] = b.pods
	}
	s.Tellf("user: %s, %+v, %s", wanted, n, describe(s.Set()))
}

func describe(set *v1beta1.CloneSet) string {
	r := set.Spec.UpdateStrategy.RollingUpdate
	return fmt.Sprintf("type %s, policy %s, paused %v, hooks %v, delete %v", set.Spec.UpdateStrategy.Type, r.PodUpdatePolicy, r.Paused,
		set.Spec.Lifecycle != nil, set.Spec.ScaleStrategy.PodsToDelete)
}

// version tells revisions apart: all that schedules change of a template.
func version(meta *metav1.ObjectMeta, spec *corev1.PodSpec) string {
	return spec.Containers[0].Image + meta.Labels["v"] + "/" + spec.Containers[0].Resources.Limits.Cpu().String() + "/" + spec.Containers[1].Image
}

// current is the version that partition holds Pods at; that of the spec as long as there is none.
func (s *simulation) current() string {
	if v := s.versionOf(s.Set().Status.CurrentRevision); v != "" {
		return v
	}
	return version(&s.Set().Spec.Template.ObjectMeta, &s.Set().Spec.Template.Spec)
}

// versionOf is the version of a revision; "" if it does not exist.
func (s *simulation) versionOf(name string) string {
	if o := s.Objects[resourceRevisions][namespace+"/"+name]; o != nil && s.versions[name] == "" {
		template, err := revision.Decode(o.(*appsv1.ControllerRevision).Data.Raw)
		must(err)
		s.versions[name] = version(&template.ObjectMeta, &template.Spec)
	}
	return s.versions[name]
}

// at counts the Pods of a version. One that is updated batch by batch may look like another in between.
func (s *simulation) at(v string) int {
	n := 0
	for _, p := range s.Active() {
		if of := s.versionOf(pods.RevisionOf(p)); version(&p.ObjectMeta, &p.Spec) == v && (of == "" || of == v) {
			n++
		}
	}
	return n
}

func (s *simulation) broken() int {
	n := 0
	for _, p := range s.Active() {
		if !modelcluster.Works(p.Spec.Containers[0]) {
			n++
		}
	}
	return n
}

// numbers are those of the present spec.
func (s *simulation) numbers() numbers {
	set := s.Set().DeepCopy()
	v1beta1.SetDefaults_CloneSet(set)
	n, err := resolve(&set.Spec)
	must(err)
	return n
}

// step lets one of the parties do one thing.
func (s *simulation) step() {
	s.Step(s.interfere, s.answerHook)
	s.check()
}

// check holds the bounds at every moment.
func (s *simulation) check() {
	if s.hostile {
		return
	}
	b := &s.bounds
	if is := s.isCurrent(); is != b.current && b.minReady != b.minReadyLeast {
		// What an older spec has taken down may have been all that counts as available now.
		b.current, b.available = is, min(b.available, s.AvailableAfter(b.minReady))
	}
	if n := len(s.Active()) - s.excluded(); n > b.pods {
		s.fail("%d Pods exist, at most %d are allowed", n, b.pods)
	}
	available := s.AvailableAfter(b.minReadyLeast)
	if available < b.available {
		s.fail("%d Pods are available, at least %d must be", available, b.available)
	}
	b.available = max(b.available, min(s.seenAvailable(), b.replicas-b.unavailable))
	wanted := version(&s.Set().Spec.Template.ObjectMeta, &s.Set().Spec.Template.Spec)
	if n := s.at(wanted) - s.excluded(); n > b.updated[wanted] && n > len(s.Active())-s.numbers().partition && s.current() != wanted {
		s.fail("%d Pods are at %s, at most %d may be", n, wanted, b.updated[wanted])
	}
}

// isCurrent says whether the controller's cache shows the present spec.
func (s *simulation) isCurrent() bool {
	item, exists, err := s.controller.sets.GetStore().GetByKey(namespace + "/" + s.Set().Name)
	must(err)
	return exists && item.(*v1beta1.CloneSet).Generation == s.Set().Generation
}

// excluded are Pods that wait for their deletion, where they do not count as existing.
func (s *simulation) excluded() int {
	n := 0
	for _, p := range s.Active() {
		if s.Set().Spec.ScaleStrategy.ExcludePreparingDelete && pods.LifecycleState(p) == pub.LifecycleStatePreparingDelete {
			n++
		}
	}
	return n
}

// seenAvailable are the available Pods that the caches show and that still are. Of others the controller cannot know.
func (s *simulation) seenAvailable() int {
	n := 0
	for _, o := range s.controller.pods.GetStore().List() {
		p := o.(*corev1.Pod)
		is, ok := s.Objects[resourcePods][namespace+"/"+p.Name].(*corev1.Pod)
		if ok && s.isCounted(p) && s.isCounted(is) {
			n++
		}
	}
	return n
}

func (s *simulation) isCounted(p *corev1.Pod) bool {
	return pods.IsActive(p) && s.IsOwned(p) && pods.IsAvailable(p, s.bounds.minReady, s.Clock.Now())
}

// checkChange sees every write to a Pod.
func (s *simulation) checkChange(before, after object) {
	was, ok := before.(*corev1.Pod)
	if !ok {
		return
	}
	is := after.(*corev1.Pod)
	for i := range is.Spec.Containers {
		if was.Spec.Containers[i].Image == is.Spec.Containers[i].Image {
			continue
		}
		if pods.IsConditionTrue(was, "InPlaceUpdateReady") {
			s.fail("the image of %s was changed while its gate was open", is.Name)
		}
	}
}

func (s *simulation) checkEnd() {
	n, status, set := s.numbers(), s.Set().Status, s.Set()
	old := 0
	for _, p := range s.Active() {
		if !pods.AtRevision(p, status.UpdateRevision) {
			old++
		}
	}
	frozen := isPaused(&set.Spec) || isOnDelete(&set.Spec)
	switch {
	case s.broken() > old:
		s.fail("%d Pods do not work, but only %d are old", s.broken(), old)
	case !frozen && old > n.partition && s.broken() == 0:
		s.fail("%d Pods are at old revisions, the partition is %d", old, n.partition)
	case !frozen && s.options.PartitionRollback && status.CurrentRevision != status.UpdateRevision && old < n.partition && s.broken() == 0:
		s.fail("%d Pods are at old revisions, the partition that takes Pods back is %d", old, n.partition)
	case status.ObservedGeneration != set.Generation || int(status.AvailableReplicas) != s.Available() || int(status.UpdatedReplicas) != len(s.Active())-old:
		s.fail("the status is wrong")
	case s.isFailing():
		s.fail("a failure shows that is over")
	}
	if s.broken() == 0 && (!frozen || s.preparing() == 0) {
		s.checkFulfilled(n)
	}
	for _, p := range s.Pods() {
		if p.DeletionTimestamp != nil {
			s.fail("Pod %s is still terminating", p.Name)
		}
	}
	s.checkClaims()
	s.checkContents()
	s.CheckRest(s.check, s.answerHook)
}

// checkFulfilled is for sets all of whose Pods can work. What cannot stays where the spec says that it is not to be touched.
func (s *simulation) checkFulfilled(n numbers) {
	switch names := s.Set().Spec.ScaleStrategy.PodsToDelete; {
	case len(s.Active()) != n.replicas || s.Available() != n.replicas:
		s.fail("%d Pods and %d available remain, %d were wanted", len(s.Active()), s.Available(), n.replicas)
	case s.conditionOf(v1beta1.CloneSetConditionReady).Status != corev1.ConditionTrue:
		s.fail("it is not Ready")
	case len(names) > 0 && n.maxSurge+n.maxUnavailable > 0:
		s.fail("podsToDelete still names %v", names)
	}
}

// preparing are Pods that wait for an update that was put off.
func (s *simulation) preparing() int {
	n := 0
	for _, p := range s.Active() {
		if pods.LifecycleState(p) == pub.LifecycleStatePreparingUpdate {
			n++
		}
	}
	return n
}

func (s *simulation) isFailing() bool {
	return s.conditionOf(v1beta1.CloneSetConditionFailedScale).Status == corev1.ConditionTrue ||
		s.conditionOf(v1beta1.CloneSetConditionFailedUpdate).Status == corev1.ConditionTrue
}

func (s *simulation) checkClaims() {
	if len(s.Set().Spec.VolumeClaimTemplates) == 0 {
		return
	}
	for _, p := range s.Active() {
		claim := s.Objects[resourceClaims][namespace+"/data-"+p.Name]
		if claim == nil {
			s.fail("Pod %s has no claim", p.Name)
		}
	}
	for _, claim := range s.Objects[resourceClaims] {
		if s.Objects[resourcePods][namespace+"/"+strings.TrimPrefix(claim.GetName(), "data-")] == nil && !s.Set().Spec.ScaleStrategy.EnablePVCReuse && s.belongsToSet(claim) {
			s.fail("claim %s is left over", claim.GetName())
		}
	}
}

func (s *simulation) belongsToSet(o object) bool {
	for _, r := range o.GetOwnerReferences() {
		if r.UID == s.Set().UID {
			return true
		}
	}
	return false
}

// checkContents checks that Pods run what their revisions say. What no node can give is left out.
func (s *simulation) checkContents() {
	for _, p := range s.Active() {
		stored, ok := s.Objects[resourceRevisions][namespace+"/"+pods.RevisionOf(p)].(*appsv1.ControllerRevision)
		// Until all images of an update are there, what comes after them is not sent.
		if !ok || !inplace.IsCompleted(p) && !canBePulled(p) {
			continue
		}
		template, err := revision.Decode(stored.Data.Raw)
		must(err)
		for i, want := range template.Spec.Containers {
			has := p.Spec.Containers[i]
			if has.Image != want.Image {
				s.fail("Pod %s at %s: container %s runs %s instead of %s", p.Name, stored.Name, want.Name, has.Image, want.Image)
			}
			if !modelcluster.IsInfeasible(want) && has.Resources.Limits.Cpu().Cmp(*want.Resources.Limits.Cpu()) != 0 {
				s.fail("Pod %s at %s: container %s has %s CPU instead of %s", p.Name, stored.Name, want.Name, has.Resources.Limits.Cpu(), want.Resources.Limits.Cpu())
			}
		}
		if p.Labels["v"] != template.Labels["v"] {
			s.fail("Pod %s at %s: label v is %q instead of %q", p.Name, stored.Name, p.Labels["v"], template.Labels["v"])
		}
	}
}

func canBePulled(p *corev1.Pod) bool {
	return !slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return strings.Contains(c.Image, modelcluster.Broken) })
}
