package statefulset

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

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
// moment. Reserved ordinals never get a Pod, Pods are created in order where that is promised, and no claim goes whose
// ordinal is wanted. Once the disturbances stop the set comes to rest by its own timers and events, as its spec says, and
// then nothing is written any more.
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
	bounds  bounds
}

// bounds are what the controller may do at the worst, by any of the specs that it may be acting on.
type bounds struct {
	begun bool
	// wanted are ordinals that some spec wants, kept those that all want.
	wanted, kept sets.Set[int32]
	unavailable  int
	// minReady are the longest and the shortest minReadySeconds.
	minReady, minReadyLeast int32
	// current: the controller has seen the present spec.
	current bool
	// available Pods of kept ordinals may not become fewer; it rises with what is reached.
	available int
	// claims are those of kept ordinals.
	claims map[string]types.UID
}

func newSimulation(seed uint64) *simulation {
	random := rand.New(rand.NewPCG(seed, 1))
	s := &simulation{
		fixture:    newFixture(nil),
		Simulation: modelcluster.Simulation{Random: random, Seed: seed, Faults: true, Crashes: seed%3 == 0},
		hostile:    seed%2 == 1,
		bounds:     bounds{wanted: sets.Set[int32]{}, kept: sets.Set[int32]{}, claims: map[string]types.UID{}},
	}
	s.Disturb(s.fixture.Cluster)
	// Mostly a sync does not get to all that is missing.
	s.controller.createAtOnce = 1 + s.Random.IntN(4)
	lose := s.After
	s.After = func(verb, resource, name string) error {
		s.checkWrite(verb, resource, name)
		return lose(verb, resource, name)
	}
	s.Changed = s.checkChange
	return s
}

func (s *simulation) fail(format string, args ...any) {
	s.Failf("%s\nstate %s, wanted %+v, bounds %+v, status %+v", fmt.Sprintf(format, args...), s.state(), s.numbers(), s.bounds, s.Set().Status)
}

// Play is the schedule.
func (s *simulation) Play() {
	s.create(int32(s.Random.IntN(6)), s.setUp())
	s.begin()
	edits := 1 + s.Random.IntN(3)
	for i := range edits {
		for range 10 + s.Random.IntN(45) {
			s.Step(s.interfere, s.answerHook)
			s.check()
		}
		s.Edit(s.randomEdit(i == edits-1))
		s.begin()
	}
	for range 20 + s.Random.IntN(50) {
		s.Step(s.interfere, s.answerHook)
		s.check()
	}
	s.Faults = false
	s.comeBack()
	s.Finish(s.check, s.answerHook)
	s.checkEnd()
}

// numbers are those of the present spec.
func (s *simulation) numbers() numbers { return numbersOf(s.Set()) }

func numbersOf(set *v1beta1.StatefulSet) numbers {
	set = set.DeepCopy()
	v1beta1.SetDefaults_StatefulSet(set)
	n, err := resolve(&set.Spec)
	must(err)
	return n
}

func (n *numbers) ordinals() []int32 { return slices.Collect(n.wanted.All()) }

// begin takes a new spec into the bounds.
func (s *simulation) begin() {
	n, b := s.numbers(), &s.bounds
	wanted := sets.New(n.ordinals()...)
	if !b.begun {
		b.begun, b.kept, b.minReadyLeast = true, wanted, n.minReadySeconds
	}
	b.wanted, b.kept = b.wanted.Union(wanted), b.kept.Intersection(wanted)
	b.unavailable = max(b.unavailable, n.maxUnavailable)
	b.minReady, b.minReadyLeast = max(b.minReady, n.minReadySeconds), min(b.minReadyLeast, n.minReadySeconds)
	b.available = min(b.available, len(b.kept)-b.unavailable, s.seenAvailable())
	for name := range b.claims {
		if _, ordinal, ok := parentAndOrdinal(name); !ok || !b.kept.Has(ordinal) {
			delete(b.claims, name)
		}
	}
	version := versionOf(&s.Set().Spec.Template.ObjectMeta, &s.Set().Spec.Template.Spec)
	s.Tellf("user: %s, %+v, %s", version, n, describe(s.Set()))
}

func describe(set *v1beta1.StatefulSet) string {
	r := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateStatefulSetStrategy{})
	return fmt.Sprintf("%s, type %s, policy %s, paused %v, unordered %v, hooks %v, claims %d %v", set.Spec.PodManagementPolicy, set.Spec.UpdateStrategy.Type,
		r.PodUpdatePolicy, r.Paused, r.UnorderedUpdate != nil, set.Spec.Lifecycle != nil, len(set.Spec.VolumeClaimTemplates), deletesClaims(set))
}

// versionOf tells revisions apart: all that schedules change of a template.
func versionOf(meta *metav1.ObjectMeta, spec *corev1.PodSpec) string {
	return spec.Containers[0].Resources.Limits.Cpu().String() + spec.Containers[0].Image + meta.Labels["v"] + "/" + spec.Containers[1].Image
}

// keptAvailable are the available Pods of ordinals that all specs want.
func (s *simulation) keptAvailable(minReadySeconds int32) int {
	n := 0
	for _, p := range s.Active() {
		if s.isKept(p) && pods.IsAvailable(p, minReadySeconds, s.Clock.Now()) {
			n++
		}
	}
	return n
}

func (s *simulation) isKept(p *corev1.Pod) bool {
	_, ordinal, ok := parentAndOrdinal(p.Name)
	return ok && s.bounds.kept.Has(ordinal)
}

// seenAvailable are those of them that the caches show and that still are. Of others the controller cannot know.
func (s *simulation) seenAvailable() int {
	n := 0
	for _, o := range s.controller.pods.GetStore().List() {
		p := o.(*corev1.Pod)
		if is := s.Pod(p.Name); is != nil && s.counts(p) && s.counts(is) {
			n++
		}
	}
	return n
}

func (s *simulation) counts(p *corev1.Pod) bool {
	return pods.IsActive(p) && s.IsOwned(p) && s.isKept(p) && pods.IsAvailable(p, s.bounds.minReady, s.Clock.Now())
}

// check holds at every moment.
func (s *simulation) check() {
	for _, c := range s.Claims() {
		if _, ordinal, ok := parentAndOrdinal(c.Name); ok && s.bounds.kept.Has(ordinal) && c.DeletionTimestamp == nil {
			if s.bounds.claims[c.Name] == "" {
				s.bounds.claims[c.Name] = c.UID
			}
		}
	}
	for name, uid := range s.bounds.claims {
		if c := s.Claim(name); c == nil || c.UID != uid {
			s.fail("claim %s is gone, although its ordinal is wanted", name)
		}
	}
	if s.hostile {
		return
	}
	b := &s.bounds
	if is := s.isCurrent(); is != b.current && b.minReady != b.minReadyLeast {
		// What an older spec has taken down may have been all that counts as available now.
		b.current, b.available = is, min(b.available, s.seenAvailable())
	}
	if available := s.keptAvailable(b.minReadyLeast); available < b.available {
		s.fail("%d Pods of wanted ordinals are available, at least %d must be", available, b.available)
	}
	b.available = max(b.available, min(s.seenAvailable(), len(b.kept)-b.unavailable))
}

// checkWrite sees every write of the controller.
func (s *simulation) checkWrite(verb, resource, name string) {
	if verb != "create" || resource != modelcluster.Pods {
		return
	}
	_, ordinal, _ := parentAndOrdinal(name)
	if !s.bounds.wanted.Has(ordinal) {
		s.fail("Pod %s was created, which no spec wants", name)
	}
	seen := s.seen()
	s.checkPartition(s.Pod(name))
	if !isOrdered(&s.Set().Spec) {
		return
	}
	n := numbersOf(seen)
	for lower := range n.wanted.All() {
		if lower >= ordinal {
			break
		}
		o, exists, err := s.controller.pods.GetStore().GetByKey(namespace + "/" + podName(seen, lower))
		must(err)
		if !exists || !pods.IsAvailable(o.(*corev1.Pod), n.minReadySeconds, s.Clock.Now()) {
			s.fail("Pod %s was created before Pod %d was available", name, lower)
		}
	}
}

// isCurrent says whether the controller's cache shows the present spec.
func (s *simulation) isCurrent() bool {
	item, exists, err := s.controller.sets.GetStore().GetByKey(namespace + "/" + setName)
	must(err)
	return exists && item.(*v1beta1.StatefulSet).Generation == s.Set().Generation
}

// seen is the set as the controller's cache shows it.
func (s *simulation) seen() *v1beta1.StatefulSet {
	item, _, err := s.controller.sets.GetStore().GetByKey(namespace + "/" + setName)
	must(err)
	return item.(*v1beta1.StatefulSet)
}

// checkPartition checks a Pod that was just created or taken to another revision.
func (s *simulation) checkPartition(p *corev1.Pod) {
	set := s.seen()
	if isUnordered(&set.Spec) || isOnDelete(&set.Spec) {
		return
	}
	n := numbersOf(set)
	_, ordinal, _ := parentAndOrdinal(p.Name)
	rank, wanted := n.wanted.Rank(ordinal)
	template := &set.Spec.Template
	isNew := versionOf(&p.ObjectMeta, &p.Spec) == versionOf(&template.ObjectMeta, &template.Spec)
	held := s.Objects[modelcluster.Revisions][namespace+"/"+set.Status.CurrentRevision]
	if held == nil || !wanted || rank >= n.partition || !isNew {
		return
	}
	current, err := revision.Decode(held.(*appsv1.ControllerRevision).Data.Raw)
	must(err)
	if versionOf(&current.ObjectMeta, &current.Spec) != versionOf(&template.ObjectMeta, &template.Spec) {
		s.fail("Pod %s of rank %d is made new, the partition is %d", p.Name, rank, n.partition)
	}
}

// checkChange sees every change of a Pod by the controller.
func (s *simulation) checkChange(before, after modelcluster.Object) {
	was, ok := before.(*corev1.Pod)
	if !ok {
		return
	}
	is := after.(*corev1.Pod)
	if was.Spec.Containers[0].Image != is.Spec.Containers[0].Image && pods.RevisionOf(was) != pods.RevisionOf(is) {
		s.checkPartition(is)
	}
	for i := range is.Spec.Containers {
		if was.Spec.Containers[i].Image != is.Spec.Containers[i].Image && pods.IsConditionTrue(was, pub.InPlaceUpdateReady) {
			s.fail("the image of %s was changed while its gate was open", is.Name)
		}
	}
}

// doomed are Pods that cannot work as they are. One that serves although no node would give it more is none while the
// partition keeps it.
func (s *simulation) doomed(n numbers) int {
	count := 0
	for _, p := range s.Active() {
		if s.isDoomed(p, n) {
			count++
		}
	}
	return count
}

func (s *simulation) isDoomed(p *corev1.Pod, n numbers) bool {
	c := p.Spec.Containers[0]
	return !modelcluster.Works(c) || modelcluster.IsInfeasible(c) && (!s.isAvailable(p) || !s.isHeldBack(p, n))
}

// isHeldBack says whether the partition keeps the Pod at its revision, whatever becomes of others.
func (s *simulation) isHeldBack(p *corev1.Pod, n numbers) bool {
	_, ordinal, _ := parentAndOrdinal(p.Name)
	rank, wanted := n.wanted.Rank(ordinal)
	return wanted && rank < n.partition && !isUnordered(&s.Set().Spec)
}

// heldDown is how many Pods that the partition keeps, or may keep, count against the budget of updates.
func (s *simulation) heldDown(n numbers) int {
	count, isAny := 0, isUnordered(&s.Set().Spec)
	for _, p := range s.Active() {
		isKept := s.isHeldBack(p, n) || isAny && !pods.AtRevision(p, s.Set().Status.UpdateRevision)
		if isKept && (!s.isAvailable(p) || !inplace.IsCompleted(p)) {
			count++
		}
	}
	return min(count, n.partition)
}

// brokenFreely is how many Pods do not serve that nothing keeps. Without an order the partition may keep any that is old.
func (s *simulation) brokenFreely(n numbers) int {
	count := 0
	for _, p := range s.Active() {
		if s.isDoomed(p, n) && !s.isHeldBack(p, n) && !s.isAvailable(p) {
			count++
		}
	}
	if isUnordered(&s.Set().Spec) {
		count -= n.partition
	}
	return max(0, count)
}

// mayRest says whether the spec lets Pods be that do not work: while paused, with OnDelete, below the partition, and where
// those that are managed in order wait for somebody.
func (s *simulation) mayRest(n numbers) bool {
	spec := &s.Set().Spec
	if s.isFrozen() {
		return true
	}
	// Pods that serve wait for the budget, which others may hold that the partition keeps.
	if s.heldDown(n) >= n.maxUnavailable && s.brokenFreely(n) == 0 {
		return true
	}
	if !isOrdered(spec) {
		if isUnordered(spec) {
			return s.doomed(n) <= n.partition
		}
		return !slices.ContainsFunc(s.Active(), func(p *corev1.Pod) bool { return s.isDoomed(p, n) && !s.isHeldBack(p, n) })
	}
	var condemned []*corev1.Pod
	for _, p := range sorted(s.Active()) {
		_, ordinal, _ := parentAndOrdinal(p.Name)
		_, wanted := n.wanted.Rank(ordinal)
		switch {
		case !wanted:
			condemned = append(condemned, p)
		case !s.isAvailable(p):
			// It holds up all that come after it.
			return s.isHeldBack(p, n) || s.isMerelyNotReady(p)
		}
	}
	// Of several that are broken and are to go the highest waits for the others.
	last := len(condemned) - 1
	return last > 0 && !s.isAvailable(condemned[last]) && slices.ContainsFunc(condemned[:last], func(p *corev1.Pod) bool { return !s.isAvailable(p) })
}

func (s *simulation) isAvailable(p *corev1.Pod) bool {
	return pods.IsAvailable(p, s.numbers().minReadySeconds, s.Clock.Now())
}

// isMerelyNotReady is for Pods of the current revision that run: they might become ready.
func (s *simulation) isMerelyNotReady(p *corev1.Pod) bool {
	return pods.AtRevision(p, s.Set().Status.CurrentRevision) && p.Status.Phase == corev1.PodRunning && p.Spec.Containers[0].Image == modelcluster.Unready
}

func (s *simulation) checkEnd() {
	n, status, set := s.numbers(), s.Set().Status, s.Set()
	refused := s.isRefused()
	if s.doomed(n) == 0 {
		if !refused && s.heldDown(n) < n.maxUnavailable && (!s.isFrozen() || s.preparing() == 0) {
			s.checkFulfilled(n)
		}
	} else if !refused && !s.mayRest(n) {
		s.fail("%d Pods do not work, although nothing keeps them", s.doomed(n))
	}
	if status.ObservedGeneration != set.Generation || int(status.AvailableReplicas) != s.Available() || int(status.Replicas) != s.owned() {
		s.fail("the status is wrong")
	}
	if s.conditionOf(v1beta1.FailedCreatePod).Status == corev1.ConditionTrue || !refused && s.conditionOf(v1beta1.FailedUpdatePod).Status == corev1.ConditionTrue {
		s.fail("a failure shows that is over")
	}
	for _, p := range s.Pods() {
		if p.DeletionTimestamp != nil {
			s.fail("Pod %s is still terminating", p.Name)
		}
	}
	s.checkClaims(n)
	s.CheckRest(s.check, s.answerHook)
}

// isRefused says that the last spec asks for what its policy does not allow.
func (s *simulation) isRefused() bool {
	r := s.Set().Spec.UpdateStrategy.RollingUpdate
	return r != nil && r.PodUpdatePolicy == v1beta1.InPlaceOnlyPodUpdateStrategyType && slices.ContainsFunc(s.Active(), s.lacksVolume)
}

// lacksVolume says that only another Pod can have all claims.
func (s *simulation) lacksVolume(p *corev1.Pod) bool {
	return slices.ContainsFunc(s.Set().Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool {
		return !slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == t.Name })
	})
}

// preparing are Pods that wait for an update that was put off.
func (s *simulation) preparing() int {
	n := 0
	for _, p := range s.Active() {
		if state := pods.LifecycleState(p); state == pub.LifecycleStatePreparingUpdate || state == pub.LifecycleStatePreparingDelete {
			n++
		}
	}
	return n
}

// owned are all Pods of the set, whatever their phase.
func (s *simulation) owned() int {
	n := 0
	for _, p := range s.Pods() {
		if s.IsOwned(p) {
			n++
		}
	}
	return n
}

// checkFulfilled is for sets all of whose Pods can work.
func (s *simulation) checkFulfilled(n numbers) {
	list := sorted(s.Active())
	var ordinals []int32
	for _, p := range list {
		_, ordinal, _ := parentAndOrdinal(p.Name)
		ordinals = append(ordinals, ordinal)
	}
	if !slices.Equal(ordinals, n.ordinals()) || s.Available() != n.replicas {
		s.fail("Pods %v and %d available remain, %v were wanted", ordinals, s.Available(), n.ordinals())
	}
	if s.conditionOf(v1beta1.StatefulSetConditionReady).Status != corev1.ConditionTrue {
		s.fail("it is not Ready")
	}
	old := 0
	for rank, p := range list {
		if pods.AtRevision(p, s.Set().Status.UpdateRevision) && !s.lacksVolume(p) {
			s.checkImages(p)
			continue
		}
		old++
		if !isUnordered(&s.Set().Spec) && rank >= n.partition && !s.isFrozen() {
			s.fail("Pod %s is old, the partition is %d", p.Name, n.partition)
		}
	}
	if old > n.partition && !s.isFrozen() {
		s.fail("%d Pods are old, the partition is %d", old, n.partition)
	}
	for _, p := range list {
		if state := pods.LifecycleState(p); state != "" && state != pub.LifecycleStateNormal && !s.isFrozen() {
			s.fail("Pod %s is in state %s", p.Name, state)
		}
	}
}

// checkImages checks that a Pod which says that it is at the update revision runs it.
func (s *simulation) checkImages(p *corev1.Pod) {
	for i, c := range s.Set().Spec.Template.Spec.Containers {
		if is := p.Spec.Containers[i].Image; is != c.Image || pods.ContainerStatus(p, c.Name).Image != c.Image {
			s.fail("container %s of Pod %s has image %s", c.Name, p.Name, is)
		}
	}
}

func (s *simulation) isFrozen() bool { return isPaused(&s.Set().Spec) || isOnDelete(&s.Set().Spec) }

// isUsed says whether a claim is of a template, or in its Pod. One that was made for a Pod without a place for it, by a template that
// is gone by now, is nobody's.
func (s *simulation) isUsed(c *corev1.PersistentVolumeClaim, ordinal int32) bool {
	p := s.Pod(podName(s.Set(), ordinal))
	return slices.Contains(claimNames(s.Set(), ordinal), c.Name) || p != nil && slices.Contains(claimsIn(s.Set(), p, ordinal), c.Name)
}

// checkClaims checks that every Pod has its claims and that those that nobody wants are gone.
func (s *simulation) checkClaims(n numbers) {
	for _, p := range s.Active() {
		_, ordinal, _ := parentAndOrdinal(p.Name)
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && s.Claim(claimName(s.Set(), v.Name, ordinal)) == nil {
				s.fail("Pod %s has no claim %s", p.Name, v.Name)
			}
		}
	}
	for _, c := range s.Claims() {
		_, ordinal, _ := parentAndOrdinal(c.Name)
		for _, r := range c.OwnerReferences {
			if r.Kind == "Pod" && slices.Contains(n.ordinals(), ordinal) && s.isUsed(c, ordinal) {
				s.fail("claim %s would go with its Pod", c.Name)
			}
		}
	}
}
