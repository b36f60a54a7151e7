package modelcluster

import (
	"errors"
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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// seedVariable names the environment variable with the only schedule to run.
const seedVariable = "FLOTILLA_SEED"

// ErrCrash is what a hook panics with to end a sync as a killed process does. SyncOrDie and RingOrDie survive it.
var ErrCrash = errors.New("crash")

// Simulation disturbs a cluster at random: a kind's own embeds it and adds what its users do and what must hold.
type Simulation struct {
	*Cluster
	Random *rand.Rand
	Seed   uint64
	// Faults: writes and reads fail, or lose their answer. Crashes: the process dies too.
	Faults, Crashes bool

	story []string
}

// Schedule is one random run of a kind.
type Schedule interface {
	// Play runs it. It panics, or calls Failf, if something is wrong.
	Play()
	// Common is the embedded simulation.
	Common() *Simulation
}

// failure is how a check ends a schedule.
type failure string

// RunSchedules plays n schedules with consecutive seeds, a twentieth of them with -short. FLOTILLA_SEED=n plays schedule n
// alone and prints its story.
func RunSchedules(t *testing.T, n int, begin func(seed uint64) Schedule) {
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		s, again := begin(seed), begin(seed)
		problem := play(s)
		play(again)
		require.Equal(t, s.Common().story, again.Common().story, "a schedule happens the same each time")
		t.Log(s.Common().tell(1 << 20))
		require.Empty(t, problem)
		return
	}
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
				s := begin(first + uint64(i))
				if problem := play(s); problem != "" {
					failed.Add(1)
					t.Errorf("%s\n%s", problem, s.Common().tell(80))
				}
			}
		})
	}
	workers.Wait()
}

// play returns what went wrong; "" if nothing did.
func play(s Schedule) (problem string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			problem = string(r)
		default:
			problem = fmt.Sprintf("%s=%d: panic: %v\n%s", seedVariable, s.Common().Seed, r, stack())
		}
	}()
	s.Play()
	return ""
}

func stack() string {
	buffer := make([]byte, 8192)
	return string(buffer[:runtime.Stack(buffer, false)])
}

// Disturb has the simulation disturb a cluster.
func (s *Simulation) Disturb(m *Cluster) {
	s.Cluster = m
	m.Before, m.After, m.Reading = s.refuse, s.lose, func(string, string) error {
		if s.Faults && s.Chance(20) {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
}

func (s *Simulation) refuse(_, resource, name string) error {
	if !s.Faults {
		return nil
	}
	group := schema.GroupResource{Resource: resource}
	switch n := s.Random.IntN(120); {
	case n < 3 && s.Crashes:
		panic(ErrCrash)
	case n < 6:
		return apierrors.NewInternalError(errors.New("a hiccup"))
	case n < 9:
		return apierrors.NewConflict(group, name, errors.New("changed"))
	case n < 12:
		return apierrors.NewForbidden(group, name, errors.New("a policy says no"))
	}
	return nil
}

func (s *Simulation) lose(verb, resource, name string) error {
	s.Tellf("%s %s %s", verb, resource, name)
	if !s.Faults {
		return nil
	}
	switch n := s.Random.IntN(120); {
	case n < 3 && s.Crashes:
		panic(ErrCrash)
	case n < 7:
		return io.ErrUnexpectedEOF
	}
	return nil
}

// Common is the simulation itself.
func (s *Simulation) Common() *Simulation { return s }

// Tellf adds a line to the story, with the time.
func (s *Simulation) Tellf(format string, args ...any) {
	s.story = append(s.story, fmt.Sprintf("%7.2fs ", s.Clock.Now().Sub(Epoch).Seconds())+fmt.Sprintf(format, args...))
}

// tell is the end of the story.
func (s *Simulation) tell(lines int) string {
	return strings.Join(s.story[max(0, len(s.story)-lines):], "\n")
}

// Chance is once in n times.
func (s *Simulation) Chance(n int) bool { return s.Random.IntN(n) == 0 }

// Failf ends the schedule: what is told is wrong.
func (s *Simulation) Failf(format string, args ...any) {
	for _, p := range s.Pods() {
		s.Tellf("%s: labels %v, annotations %v, conditions %v", p.Name, p.Labels, p.Annotations, p.Status.Conditions)
	}
	panic(failure(fmt.Sprintf("%s=%d: %s\nPods %s, %d in all, %d available, %d changes unseen", seedVariable, s.Seed,
		fmt.Sprintf(format, args...), s.Images(), len(s.Pods()), s.Available(), s.Lag())))
}

// Step lets one of the parties do one thing: the controller, its caches, the clock, the one who interferes, the provisioner
// or, mostly, the kubelet. A Pod for which the kubelet has nothing to do is offered to more.
func (s *Simulation) Step(interfere func(), more func(*corev1.Pod) bool) {
	switch n := s.Random.IntN(20); {
	case n < 6:
		if at, set := s.Alarm.Next(); set && !s.Alarm.IsDue() && s.Chance(2) {
			s.Clock.SetTime(at)
		}
		if s.Alarm.IsDue() {
			s.RingOrDie()
		}
	case n < 10:
		s.Show(s.Shown() + 1 + s.Random.IntN(1+s.Lag()))
	case n < 11:
		s.Clock.Step(time.Duration(s.Random.IntN(3500)) * time.Millisecond)
	case n < 12:
		interfere()
	default:
		s.stepOthers(more)
	}
}

func (s *Simulation) stepOthers(more func(*corev1.Pod) bool) {
	if claims := s.unsettledClaims(); len(claims) > 0 && s.Chance(4) {
		s.TickClaim(claims[s.Random.IntN(len(claims))])
		return
	}
	if list := s.Pods(); len(list) > 0 {
		p := list[s.Random.IntN(len(list))]
		if !s.Tick(p) {
			more(p)
		}
	}
}

// RingOrDie runs the sync that is due. A crash is a restart.
func (s *Simulation) RingOrDie() {
	crashed := s.OrDie(func() {
		if err := s.Alarm.Ring(); err != nil {
			s.Tellf("sync: %v", err)
		}
	})
	if crashed {
		s.Tellf("crash")
	}
}

// OrDie restarts the controller if what is done panics with ErrCrash, and says whether it did.
func (m *Cluster) OrDie(do func()) (crashed bool) {
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); !ok || !errors.Is(err, ErrCrash) {
				panic(r)
			}
			crashed = true
			m.Restart()
		}
	}()
	do()
	return false
}

// Finish lets time pass until nothing is left to do: a day at most. Only what the owner itself asked for wakes it. check is
// called all the time; more is as in Step.
func (s *Simulation) Finish(check func(), more func(*corev1.Pod) bool) {
	s.Tellf("the disturbances stop")
	horizon := s.Clock.Now().Add(24 * time.Hour)
	for range 3000 {
		s.SettleWith(more)
		s.ShowAll()
		check()
		at, set := s.Alarm.Next()
		switch {
		case s.Alarm.IsDue():
			s.RingOrDie()
		case set && at.Before(horizon):
			s.Clock.SetTime(at)
		default:
			return
		}
	}
	s.Failf("it does not come to rest")
}

// CheckRest fails if the owner, woken three more times, writes anything. check and more are as in Finish.
func (s *Simulation) CheckRest(check func(), more func(*corev1.Pod) bool) {
	before := s.Total()
	for range 3 {
		s.Alarm.Add(cache.NewObjectName(Namespace, Name))
		s.Finish(check, more)
	}
	if s.Total() != before {
		s.Failf("%d writes at rest", s.Total()-before)
	}
}
