package cloneset

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/pods"
)

const seedVariable = "FLOTILLA_SEED"

// seeds are those of the environment, or random ones.
func seeds(t *testing.T, n int) []uint64 {
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return []uint64{seed}
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = rand.Uint64()
	}
	return out
}

// errCrash ends a sync as a killed process does.
var errCrash = errors.New("crash")

// simulation drives the controller through a random schedule: caches that lag, a kubelet that works whenever it likes,
// writes that fail or lose their answer, a process that dies between any two writes.
type simulation struct {
	*testing.T
	*model
	random *rand.Rand
	seed   uint64
	// worst is the highest number of Pods that the spec has allowed since the set last rested.
	worst int
	crash bool
	log   []string
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	random := rand.New(rand.NewPCG(seed, 1))
	s := &simulation{T: t, random: random, seed: seed, model: newModel(random.IntN)}
	s.before = func(verb, resource, name string) error {
		switch {
		case s.chance(30) && s.crash:
			panic(errCrash)
		case s.chance(20):
			return apierrors.NewInternalError(errors.New("refused"))
		case s.chance(20):
			return apierrors.NewConflict(v1beta1.Resource(resource), name, errors.New("changed"))
		}
		return nil
	}
	s.after = func(verb, resource, name string) error {
		s.log = append(s.log, verb+" "+resource+" "+name)
		if s.chance(30) && s.crash {
			panic(errCrash)
		}
		if s.chance(30) {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	return s
}

// chance is once in n times.
func (s *simulation) chance(n int) bool { return s.random.IntN(n) == 0 }

// step lets one of the parties do one thing.
func (s *simulation) step() {
	switch s.random.IntN(10) {
	case 0, 1, 2:
		s.syncOrDie()
	case 3, 4:
		s.show(s.shown + 1 + s.random.IntN(1+s.lag()))
	case 5:
		s.clock.Step(time.Duration(s.random.IntN(2000)) * time.Millisecond)
	default:
		if list := s.podList(); len(list) > 0 {
			s.tick(list[s.random.IntN(len(list))])
		}
	}
}

func (s *simulation) syncOrDie() {
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); !ok || !errors.Is(err, errCrash) {
				panic(r)
			}
			s.log = append(s.log, "crash")
			s.restart()
		}
	}()
	// What fails is tried again; here that is a later step.
	_, _ = s.sync()
}

// budget are the numbers of the present spec.
func (s *simulation) budget() numbers {
	set := s.set().DeepCopy()
	v1beta1.SetDefaults_CloneSet(set)
	n, err := resolve(&set.Spec)
	require.NoError(s, err)
	return n
}

func (s *simulation) fail(format string, args ...any) {
	s.Helper()
	s.Fatalf("seed %d: %s\nwanted %+v, status %+v\nPods %s, %d in all, %d available, %d changes unseen\n%s", s.seed, fmt.Sprintf(format, args...),
		s.budget(), s.set().Status, s.images(), len(s.podList()), s.available(), s.lag(), strings.Join(s.log[max(0, len(s.log)-60):], "\n"))
}

// rest steps until nothing is left to do, and checks the invariants on the way.
func (s *simulation) rest(check func()) {
	s.Helper()
	for range 20000 {
		s.step()
		check()
		if s.chance(50) && s.isResting() {
			return
		}
	}
	s.fail("it does not come to rest")
}

func (s *simulation) isResting() bool {
	c := s.set().Status
	n := s.budget()
	return c.ObservedGeneration == s.set().Generation && int(c.Replicas) == n.replicas && int(c.AvailableReplicas) == n.replicas &&
		int(c.UpdatedReplicas) >= n.replicas-n.partition && len(s.active()) == n.replicas && s.lag() == 0 && s.available() == n.replicas &&
		s.running() == n.replicas
}

// running leaves out Pods that have ended: they stay.
func (s *simulation) running() int {
	n := 0
	for _, p := range s.podList() {
		if !pods.IsTerminal(p) {
			n++
		}
	}
	return n
}

func (s *simulation) randomSpec(generation int) edit {
	replicas := int32(s.random.IntN(12))
	values := []string{"0", "1", "2", "3", "20%", "50%", "100%"}
	maxUnavailable, maxSurge := values[s.random.IntN(len(values))], values[s.random.IntN(len(values))]
	if maxUnavailable == "0" && maxSurge == "0" {
		maxUnavailable = "1"
	}
	part := values[s.random.IntN(len(values))]
	inPlaceWanted := s.chance(2)
	return func(set *v1beta1.CloneSet) {
		set.Spec.Replicas = &replicas
		r := set.Spec.UpdateStrategy.RollingUpdate
		*r = v1beta1.RollingUpdateCloneSetStrategy{}
		u, g, p := intstr.Parse(maxUnavailable), intstr.Parse(maxSurge), intstr.Parse(part)
		r.MaxUnavailable, r.MaxSurge, r.Partition = &u, &g, &p
		if inPlaceWanted {
			inPlace(set)
		}
		set.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("image-%d", generation)
	}
}

// TestSimulation rolls a set through many specs. In an undisturbed cluster (Pods fail only by what the controller does)
// no Pod is ever too many, and no more are unavailable than the spec allows.
func TestSimulation(t *testing.T) {
	for _, seed := range seeds(t, 150) {
		s := newSimulation(t, seed)
		s.crash = seed%2 == 0
		f := &fixture{T: t, model: s.model}
		f.create(int32(s.random.IntN(12)))
		s.worst = s.budget().replicas
		least := 0
		check := func() { s.checkInvariants(&least) }
		s.rest(check)
		for generation := range 4 {
			f.edit(s.randomSpec(generation))
			n := s.budget()
			s.worst = max(s.worst, n.replicas, len(s.active())) + n.maxSurge
			// What was available before the change counts until it is exceeded.
			least = min(s.available(), n.replicas) - n.maxUnavailable
			s.rest(check)
			s.worst = n.replicas + n.maxSurge
			s.checkRest(n)
		}
	}
}

// checkInvariants: least is how many Pods must be available; it rises with what has been reached.
func (s *simulation) checkInvariants(least *int) {
	s.Helper()
	if n := len(s.active()); n > s.worst {
		s.fail("%d Pods exist, at most %d are allowed", n, s.worst)
	}
	available := s.available()
	if available < *least {
		s.fail("%d Pods are available, at least %d must be", available, *least)
	}
	n := s.budget()
	*least = max(*least, min(available, n.replicas)-n.maxUnavailable)
	ids := map[string]bool{}
	for _, p := range s.podList() {
		if ids[p.Name] {
			s.fail("two Pods are called %s", p.Name)
		}
		ids[p.Name] = true
	}
}

func (s *simulation) checkRest(n numbers) {
	s.Helper()
	old := 0
	for _, p := range s.active() {
		if !pods.AtRevision(p, s.set().Status.UpdateRevision) {
			old++
		}
		if p.Status.Phase != corev1.PodRunning {
			s.fail("Pod %s is %s", p.Name, p.Status.Phase)
		}
	}
	if old > n.partition {
		s.fail("%d Pods are at old revisions, the partition is %d", old, n.partition)
	}
}

// TestSimulationOfADisturbedCluster also deletes and breaks Pods at random. The set still comes to rest.
func TestSimulationOfADisturbedCluster(t *testing.T) {
	for _, seed := range seeds(t, 60) {
		s := newSimulation(t, seed)
		s.crash = true
		f := &fixture{T: t, model: s.model}
		f.create(int32(1+s.random.IntN(10)), claimTemplate, func(set *v1beta1.CloneSet) {
			set.Spec.ScaleStrategy.EnablePVCReuse = s.chance(2)
			// Different volumes of one name would need an API server that refuses them.
			set.Spec.Template.Spec.Volumes = nil
		})
		for generation := range 3 {
			for range 60 {
				s.step()
				s.disturb(f)
			}
			f.edit(s.randomSpec(generation))
		}
		s.rest(func() {})
		for _, p := range s.active() {
			id := strings.TrimPrefix(p.Name, setName+"-")
			if s.objects[resourceClaims][namespace+"/data-web-"+id] == nil {
				s.fail("Pod %s has no claim", p.Name)
			}
		}
	}
}

func (s *simulation) disturb(f *fixture) {
	list := s.active()
	if len(list) == 0 || !s.chance(10) {
		return
	}
	name := list[s.random.IntN(len(list))].Name
	switch s.random.IntN(4) {
	case 0:
		f.deletePod(name)
	case 1:
		s.remove(resourcePods, namespace+"/"+name)
	case 2:
		s.edit(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	case 3:
		f.markDelete(name)
	}
}
