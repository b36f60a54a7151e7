package modelcluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-k8s/flotilla/internal/pods"
)

// Fixture is a cluster with what tests ask of it. S is the type of the kind's owners.
type Fixture[S Object] struct {
	*testing.T
	*Cluster
	// Fewest and Most are the numbers of available and of active Pods after every pass since Watch; Counts are those of
	// active Pods, each time that it changed.
	Fewest, Most int
	Counts       []int
}

// NewFixture makes an empty cluster. t may be nil where nothing is asked that can fail.
func NewFixture[S Object](t *testing.T, kind Kind) *Fixture[S] {
	f := &Fixture[S]{T: t, Cluster: New(kind)}
	f.Watch()
	return f
}

// Pseudorandom returns numbers below its argument that look random and are the same each time.
func Pseudorandom() func(int) int {
	n := 0
	return func(below int) int {
		n = (n*1103515245 + 12345) & 0x7fffffff
		return (n >> 8) % below
	}
}

// Set is the owner.
func (f *Fixture[S]) Set() S { return f.Owner().(S) }

// Edit creates or changes the owner in one write, as a user does.
func (f *Fixture[S]) Edit(edits ...func(S)) {
	f.Apply(func(owner Object) {
		for _, e := range edits {
			e(owner.(S))
		}
	})
}

// Start creates the owner and waits until it rests.
func (f *Fixture[S]) Start(edits ...func(S)) {
	f.Helper()
	f.Edit(edits...)
	f.Rest()
	f.Watch()
}

// Watch begins the figures anew.
func (f *Fixture[S]) Watch() { f.Fewest, f.Most, f.Counts = 1<<30, 0, nil }

// Pass is one sync on current caches, after which everybody else does what they have to do.
func (f *Fixture[S]) Pass() {
	f.Helper()
	f.ShowAll()
	_, err := f.Sync()
	require.NoError(f, err)
	f.Observe()
	f.Settle()
}

// Observe takes the present numbers of Pods into the figures.
func (f *Fixture[S]) Observe() {
	n := len(f.Active())
	f.Fewest, f.Most = min(f.Fewest, f.Available()), max(f.Most, n)
	if len(f.Counts) == 0 || f.Counts[len(f.Counts)-1] != n {
		f.Counts = append(f.Counts, n)
	}
}

// Rest passes until nothing happens any more.
func (f *Fixture[S]) Rest() {
	f.Helper()
	for range 300 {
		before := f.Changes()
		f.Pass()
		if f.Changes() == before {
			return
		}
	}
	f.Fatalf("no rest: %s, events %v", f.Images(), f.Events)
}

// Wait moves the clock. Nobody does anything.
func (f *Fixture[S]) Wait(d time.Duration) { f.Clock.Step(d) }

// Refuse makes the API server refuse that verb for that resource, rehearsals too, except for the names that unless is true
// of; nil: for all.
func (f *Fixture[S]) Refuse(verb, resource string, unless func(name string) bool) {
	f.Before = func(v, r, name string) error {
		if strings.TrimPrefix(v, "dry-run ") == verb && r == resource && (unless == nil || !unless(name)) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: r}, name, errors.New("a policy says no"))
		}
		return nil
	}
}

// Once is a hook that fails for the first write of that verb to that resource.
func Once(verb, resource string, err error) (hook func(verb, resource, name string) error, failed func() bool) {
	done := false
	return func(v, r, _ string) error {
		if v == verb && r == resource && !done {
			done = true
			return err
		}
		return nil
	}, func() bool { return done }
}

// Total is the number of all writes that were attempted.
func (m *Cluster) Total() int {
	n := 0
	for _, count := range m.Writes {
		n += count
	}
	return n
}

// Active are the Pods of the owner that count, by name.
func (m *Cluster) Active() []*corev1.Pod {
	return slices.DeleteFunc(m.Pods(), func(p *corev1.Pod) bool { return !pods.IsActive(p) || !m.IsOwned(p) })
}

// IsOwned says whether the owner controls the Pod.
func (m *Cluster) IsOwned(p *corev1.Pod) bool { return metav1.IsControlledBy(p, m.Owner()) }

// Available is the number of available Pods.
func (m *Cluster) Available() int { return m.AvailableAfter(m.kind.MinReadySeconds(m.Owner())) }

// AvailableAfter is what Available would be with another minReadySeconds.
func (m *Cluster) AvailableAfter(minReadySeconds int32) int {
	n := 0
	for _, p := range m.Active() {
		if pods.IsAvailable(p, minReadySeconds, m.Clock.Now()) {
			n++
		}
	}
	return n
}

// Images counts the active Pods by the image of their first container, such as "3a2b".
func (m *Cluster) Images() string {
	count := map[string]int{}
	for _, p := range m.Active() {
		count[p.Spec.Containers[0].Image]++
	}
	out := ""
	for _, image := range slices.Sorted(maps.Keys(count)) {
		out += fmt.Sprint(count[image], image)
	}
	return out
}

// Names are those of the active Pods.
func (m *Cluster) Names() []string {
	var names []string
	for _, p := range m.Active() {
		names = append(names, p.Name)
	}
	return names
}

// WithImage is the name of an active Pod whose first container has that image.
func (f *Fixture[S]) WithImage(image string) string {
	for _, p := range f.Active() {
		if p.Spec.Containers[0].Image == image {
			return p.Name
		}
	}
	f.Fatalf("no Pod at %s", image)
	return ""
}
