package cloneset

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/internal/revision"
)

const seedVariable = "FLOTILLA_SEED"

var schedules = flag.Int("schedules", 20000, "how many random schedules TestSimulation runs")

// errCrash ends a sync as a killed process does.
var errCrash = errors.New("crash")

// TestSimulation drives the controller through random schedules: specs that change at any moment, hooks, caches that lag,
// a kubelet that works whenever it likes, writes that are refused or lose their answer, a process that dies between any
// two writes. In half of the clusters Pods also fail and vanish by themselves; in the others the budgets hold at every
// moment. Once the disturbances stop the set comes to rest by its own timers and events, as its spec says, and then
// nothing is written any more.
//
// FLOTILLA_SEED=n runs schedule n alone and prints its story.
func TestSimulation(t *testing.T) {
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		s := newSimulation(seed)
		failure := s.run()
		again := newSimulation(seed)
		again.run()
		require.Equal(t, s.story, again.story, "a schedule happens the same each time")
		t.Log(s.tell(1 << 20))
		require.Empty(t, failure)
		return
	}
	n := *schedules
	if testing.Short() {
		n /= 20
	}
	// The models are small and short-lived.
	defer debug.SetGCPercent(debug.SetGCPercent(2000))
	first := rand.Uint64() >> 8
	t.Logf("%d schedules from seed %d on", n, first)
	var next, failed atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && failed.Load() < 3; i = next.Add(1) - 1 {
				s := newSimulation(first + uint64(i))
				if failure := s.run(); failure != "" {
					failed.Add(1)
					t.Errorf("%s\n%s", failure, s.tell(80))
				}
			}
		})
	}
	workers.Wait()
}

// simulation is one random schedule.
type simulation struct {
	*fixture
	random *rand.Rand
	seed   uint64
	// hostile: Pods fail by themselves, so that no budget can be checked.
	hostile bool
	faults  bool
	crashes bool

	// bounds hold for all specs that the controller may be acting on.
	bounds bounds
	// replacement is what a crash interrupts.
	story []string
}

// bounds are what the controller may do at the worst, by any of the specs since the set last rested.
type bounds struct {
	pods        int
	replicas    int
	unavailable int
	// minReady are the longest and the shortest minReadySeconds.
	minReady, minReadyLeast int32
	// available may not become fewer; it rises with what is reached.
	available int
	updated   map[string]int
}

// failure is how a check ends a schedule.
type failure string

func newSimulation(seed uint64) *simulation {
	random := rand.New(rand.NewPCG(seed, 1))
	options := Options{PartitionRollback: seed%5 == 0, RecreateForClaims: seed%7 == 0}
	s := &simulation{
		fixture: &fixture{model: newModel(options, random.IntN)}, random: random, seed: seed,
		hostile: seed%2 == 1, crashes: seed%3 == 0, faults: true,
		bounds: bounds{updated: map[string]int{}},
	}
	s.before, s.after, s.reading = s.refuseAtRandom, s.loseAtRandom, func(string, string) error {
		if s.faults && s.chance(20) {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	s.changed = s.checkChange
	return s
}

func (s *simulation) refuseAtRandom(verb, resource, name string) error {
	if !s.faults {
		return nil
	}
	switch n := s.random.IntN(120); {
	case n < 3 && s.crashes:
		panic(errCrash)
	case n < 6:
		return apierrors.NewInternalError(errors.New("a hiccup"))
	case n < 9:
		return apierrors.NewConflict(v1beta1.Resource(resource), name, errors.New("changed"))
	case n < 12:
		return apierrors.NewForbidden(v1beta1.Resource(resource), name, errors.New("a policy says no"))
	}
	return nil
}

func (s *simulation) loseAtRandom(verb, resource, name string) error {
	s.tellf("%s %s %s", verb, resource, name)
	if !s.faults {
		return nil
	}
	switch n := s.random.IntN(120); {
	case n < 3 && s.crashes:
		panic(errCrash)
	case n < 7:
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (s *simulation) tellf(format string, args ...any) {
	s.story = append(s.story, fmt.Sprintf("%7.2fs ", s.clock.Now().Sub(epoch).Seconds())+fmt.Sprintf(format, args...))
}

// tell is the end of the story.
func (s *simulation) tell(lines int) string {
	return strings.Join(s.story[max(0, len(s.story)-lines):], "\n")
}

// chance is once in n times.
func (s *simulation) chance(n int) bool { return s.random.IntN(n) == 0 }

func (s *simulation) fail(format string, args ...any) {
	for _, p := range s.podList() {
		s.tellf("%s: labels %v, annotations %v, conditions %v", p.Name, p.Labels, p.Annotations, p.Status.Conditions)
	}
	panic(failure(fmt.Sprintf("%s=%d: %s\nwanted %+v, bounds %+v, status %+v\nPods %s, %d in all, %d available, %d changes unseen", seedVariable, s.seed,
		fmt.Sprintf(format, args...), s.numbers(), s.bounds, s.set().Status, s.images(), len(s.podList()), s.available(), s.lag())))
}

// run returns what went wrong; "" if nothing did.
func (s *simulation) run() (problem string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			problem = string(r)
		default:
			problem = fmt.Sprintf("%s=%d: panic: %v\n%s", seedVariable, s.seed, r, stack())
		}
	}()
	s.create(int32(s.random.IntN(8)), s.setUp())
	s.begin()
	edits := 1 + s.random.IntN(3)
	for i := range edits {
		for range 10 + s.random.IntN(45) {
			s.step()
		}
		s.apply(s.randomEdit(i == edits-1))
		s.begin()
	}
	for range 20 + s.random.IntN(50) {
		s.step()
	}
	s.faults = false
	s.finish()
	s.checkEnd()
	return ""
}

func stack() string {
	buffer := make([]byte, 8192)
	return string(buffer[:runtime.Stack(buffer, false)])
}

// begin takes a new spec into the bounds.
func (s *simulation) begin() {
	n, b := s.numbers(), &s.bounds
	if len(s.bounds.updated) == 0 {
		b.replicas, b.minReadyLeast = n.replicas, s.set().Spec.MinReadySeconds
	}
	b.pods = max(b.pods, len(s.active()), n.replicas+n.maxSurge)
	b.replicas = min(b.replicas, n.replicas)
	b.unavailable = max(b.unavailable, n.maxUnavailable)
	// A longer minReadySeconds makes Pods unavailable by itself.
	b.available = min(b.available, b.replicas-b.unavailable, s.available())
	wanted := version(&s.set().Spec.Template.ObjectMeta, &s.set().Spec.Template.Spec)
	b.minReady = max(b.minReady, s.set().Spec.MinReadySeconds)
	b.minReadyLeast = min(b.minReadyLeast, s.set().Spec.MinReadySeconds)
	b.updated[wanted] = max(b.updated[wanted], s.at(wanted), n.replicas-n.partition+n.maxSurge)
	if s.current() == wanted {
		// There is no older revision to hold Pods at.
		b.updated[wanted] = b.pods
	}
	s.tellf("user: %s, %+v, %s", wanted, n, describe(s.set()))
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
	template := &s.set().Spec.Template
	if o := s.objects[resourceRevisions][namespace+"/"+s.set().Status.CurrentRevision]; o != nil {
		var err error
		template, err = revision.Decode(o.(*appsv1.ControllerRevision).Data.Raw)
		must(err)
	}
	return version(&template.ObjectMeta, &template.Spec)
}

func (s *simulation) at(v string) int {
	n := 0
	for _, p := range s.active() {
		if version(&p.ObjectMeta, &p.Spec) == v {
			n++
		}
	}
	return n
}

func (s *simulation) broken() int {
	n := 0
	for _, p := range s.active() {
		if p.Spec.Containers[0].Image == "broken" {
			n++
		}
	}
	return n
}

// numbers are those of the present spec.
func (s *simulation) numbers() numbers {
	set := s.set().DeepCopy()
	v1beta1.SetDefaults_CloneSet(set)
	n, err := resolve(&set.Spec)
	must(err)
	return n
}

// step lets one of the parties do one thing.
func (s *simulation) step() {
	switch n := s.random.IntN(20); {
	case n < 6:
		if !s.alarm.isDue() && s.alarm.set && s.chance(2) {
			s.clock.SetTime(s.alarm.at)
		}
		if s.alarm.isDue() {
			s.syncOrDie()
		}
	case n < 10:
		s.show(s.shown + 1 + s.random.IntN(1+s.lag()))
	case n < 11:
		s.clock.Step(time.Duration(s.random.IntN(3500)) * time.Millisecond)
	case n < 12:
		s.interfere()
	default:
		if list := s.podList(); len(list) > 0 {
			p := list[s.random.IntN(len(list))]
			if !s.tick(p) {
				s.answerHook(p)
			}
		}
	}
	s.check()
}

func (s *simulation) syncOrDie() {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case error:
			if !errors.Is(r, errCrash) {
				panic(r)
			}
			s.tellf("crash")
			s.restart()
		default:
			panic(r)
		}
	}()
	if err := s.alarm.ring(); err != nil {
		s.tellf("sync: %v", err)
	}
}

// check holds the bounds at every moment.
func (s *simulation) check() {
	if s.hostile {
		return
	}
	b := &s.bounds
	if n := len(s.active()) - s.excluded(); n > b.pods {
		s.fail("%d Pods exist, at most %d are allowed", n, b.pods)
	}
	available := s.availableAfter(b.minReadyLeast)
	if available < b.available {
		s.fail("%d Pods are available, at least %d must be", available, b.available)
	}
	b.available = max(b.available, min(s.seenAvailable(), b.replicas-b.unavailable))
	wanted := version(&s.set().Spec.Template.ObjectMeta, &s.set().Spec.Template.Spec)
	if n := s.at(wanted) - s.excluded(); n > b.updated[wanted] && n > len(s.active())-s.numbers().partition && s.current() != wanted {
		s.fail("%d Pods are at %s, at most %d may be", n, wanted, b.updated[wanted])
	}
}

// excluded are Pods that wait for their deletion, where they do not count as existing.
func (s *simulation) excluded() int {
	n := 0
	for _, p := range s.active() {
		if s.set().Spec.ScaleStrategy.ExcludePreparingDelete && pods.LifecycleState(p) == pub.LifecycleStatePreparingDelete {
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
		is, ok := s.objects[resourcePods][namespace+"/"+p.Name].(*corev1.Pod)
		if ok && s.counts(p) && s.counts(is) {
			n++
		}
	}
	return n
}

func (s *simulation) counts(p *corev1.Pod) bool {
	return pods.IsActive(p) && s.owned(p) && pods.IsAvailable(p, s.bounds.minReady, s.clock.Now())
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

// finish lets time pass until nothing is left to do. Only what the set itself asked for wakes it.
func (s *simulation) finish() {
	s.tellf("the disturbances stop")
	horizon := s.clock.Now().Add(24 * time.Hour)
	for range 3000 {
		s.everybody()
		s.show(len(s.history))
		s.check()
		switch {
		case s.alarm.isDue():
			s.syncOrDie()
		case s.alarm.set && s.alarm.at.Before(horizon):
			s.clock.SetTime(s.alarm.at)
		default:
			return
		}
	}
	s.fail("it does not come to rest")
}

// everybody lets all but the controller finish what they have to do.
func (s *simulation) everybody() {
	for again := true; again; {
		again = false
		for _, p := range s.podList() {
			again = s.tick(p) || s.answerHook(p) || again
		}
	}
}

func (s *simulation) checkEnd() {
	n, status, set := s.numbers(), s.set().Status, s.set()
	old := 0
	for _, p := range s.active() {
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
	case status.ObservedGeneration != set.Generation || int(status.AvailableReplicas) != s.available() || int(status.UpdatedReplicas) != len(s.active())-old:
		s.fail("the status is wrong")
	case s.isFailing():
		s.fail("a failure shows that is over")
	}
	if s.broken() == 0 && (!frozen || s.preparing() == 0) {
		s.checkFulfilled(n)
	}
	for _, p := range s.podList() {
		if p.DeletionTimestamp != nil {
			s.fail("Pod %s is still terminating", p.Name)
		}
	}
	s.checkClaims()
	s.checkContents()
	before := s.total()
	for range 3 {
		s.alarm.Add(cache.NewObjectName(namespace, setName))
		s.finish()
	}
	if s.total() != before {
		s.fail("%d writes at rest", s.total()-before)
	}
}

// checkFulfilled is for sets all of whose Pods can work. What cannot stays where the spec says that it is not to be touched.
func (s *simulation) checkFulfilled(n numbers) {
	switch names := s.set().Spec.ScaleStrategy.PodsToDelete; {
	case len(s.active()) != n.replicas || s.available() != n.replicas:
		s.fail("%d Pods and %d available remain, %d were wanted", len(s.active()), s.available(), n.replicas)
	case s.conditionOf(v1beta1.CloneSetConditionReady).Status != corev1.ConditionTrue:
		s.fail("it is not Ready")
	case len(names) > 0 && n.maxSurge+n.maxUnavailable > 0:
		s.fail("podsToDelete still names %v", names)
	}
}

// preparing are Pods that wait for an update that was put off.
func (s *simulation) preparing() int {
	n := 0
	for _, p := range s.active() {
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
	if len(s.set().Spec.VolumeClaimTemplates) == 0 {
		return
	}
	for _, p := range s.active() {
		claim := s.objects[resourceClaims][namespace+"/data-"+p.Name]
		if claim == nil {
			s.fail("Pod %s has no claim", p.Name)
		}
	}
	for _, claim := range s.objects[resourceClaims] {
		if s.objects[resourcePods][namespace+"/"+strings.TrimPrefix(claim.GetName(), "data-")] == nil && !s.set().Spec.ScaleStrategy.EnablePVCReuse && s.belongsToSet(claim) {
			s.fail("claim %s is left over", claim.GetName())
		}
	}
}

func (s *simulation) belongsToSet(o object) bool {
	for _, r := range o.GetOwnerReferences() {
		if r.UID == s.set().UID {
			return true
		}
	}
	return false
}

// checkContents checks that Pods run what their revisions say. What no node can give is left out.
func (s *simulation) checkContents() {
	for _, p := range s.active() {
		stored, ok := s.objects[resourceRevisions][namespace+"/"+pods.RevisionOf(p)].(*appsv1.ControllerRevision)
		if !ok {
			continue
		}
		template, err := revision.Decode(stored.Data.Raw)
		must(err)
		for i, want := range template.Spec.Containers {
			has := p.Spec.Containers[i]
			if has.Image != want.Image {
				s.fail("Pod %s at %s: container %s runs %s instead of %s", p.Name, stored.Name, want.Name, has.Image, want.Image)
			}
			if !isInfeasible(want) && has.Resources.Limits.Cpu().Cmp(*want.Resources.Limits.Cpu()) != 0 {
				s.fail("Pod %s at %s: container %s has %s CPU instead of %s", p.Name, stored.Name, want.Name, has.Resources.Limits.Cpu(), want.Resources.Limits.Cpu())
			}
		}
		if p.Labels["v"] != template.Labels["v"] {
			s.fail("Pod %s at %s: label v is %q instead of %q", p.Name, stored.Name, p.Labels["v"], template.Labels["v"])
		}
	}
}
