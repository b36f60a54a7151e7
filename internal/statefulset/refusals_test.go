package statefulset

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

// What the API server refuses for one object, by a policy or a webhook of somebody else, is tried again less and less often, and
// holds up as little else as it can.

// refuse has these verbs on a Pod refused.
func (f *fixture) refuse(pod string, verbs ...string) {
	f.Before = func(verb, resource, name string) error {
		if resource == modelcluster.Pods && name == pod && slices.Contains(verbs, strings.TrimPrefix(verb, "dry-run ")) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("a policy says no"))
		}
		return nil
	}
}

// try lets the set and its cluster work for a while in which not everything succeeds.
func (f *fixture) try(times int, each time.Duration) {
	f.Helper()
	for range times {
		f.ShowAll()
		// What is refused is no failure of the test.
		_, _ = f.Sync()
		f.Settle()
		f.Wait(each)
	}
}

// bustle has somebody change a Pod each second, which wakes the set.
func (f *fixture) bustle(seconds int) {
	f.Helper()
	for range seconds {
		f.try(1, time.Second)
		f.EditPod(name(0), func(p *corev1.Pod) { p.Labels["n"] += "x" })
	}
}

func (f *fixture) warnings(reason string) int {
	return strings.Count(strings.Join(f.Events, "\n"), "Warning "+reason)
}

func TestOrderedUpdatesKeepTheirOrderWhenOneIsRefused(t *testing.T) {
	for what, policy := range map[string]edit{"recreated": func(*v1beta1.StatefulSet) {}, "in place": inPlace} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			f.start(3, policy)
			f.refuse(name(2), "delete", "patch", "patch/status")
			f.Edit(image("b"))
			f.try(20, 10*time.Second)
			require.Equal(t, "0:a 1:a 2:a", f.state(), "nobody overtakes the highest")
			f.Before = nil
			f.try(20, time.Minute)
			require.Equal(t, "0:b 1:b 2:b", f.state())
		})
	}
}

func TestOnePodThatCannotBeMovedOnHoldsUpNoOthers(t *testing.T) {
	f := newFixture(t)
	f.start(3, parallel, preUpdate)
	f.Edit(image("b"), partition(2))
	f.Rest()
	f.release(2)
	f.Rest()
	require.Equal(t, "0:a 1:a 2:b", f.state())
	f.satisfy(2)
	f.refuse(name(2), "patch", "patch/status")
	f.markDelete(1)
	f.Edit(partition(0), unavailable("3"))
	f.try(10, time.Minute)
	require.Equal(t, pub.LifecycleStateUpdated, f.stateOf(2))
	require.Equal(t, pub.LifecycleStatePreparingUpdate, f.stateOf(0))
	require.Equal(t, "0:a 1:b 2:b", f.state(), "the labelled Pod was deleted")
}

func TestRefusedDeletionsAreTriedLessAndLessOften(t *testing.T) {
	f := newFixture(t)
	f.start(4, parallel)
	f.refuse(name(3), "delete")
	f.Edit(replicas(3))
	f.bustle(60)
	require.Less(t, f.Writes["delete pods"], 15)
	require.Less(t, f.warnings("FailedDelete"), 15)
	require.Equal(t, corev1.ConditionTrue, f.conditionOf(v1beta1.FailedUpdatePod).Status)
	f.Before = nil
	f.try(2, 2*time.Minute)
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
	require.Equal(t, corev1.ConditionFalse, f.conditionOf(v1beta1.FailedUpdatePod).Status)
}

func TestALabelledPodThatCannotBeDeletedGivesWayToOthers(t *testing.T) {
	f := newFixture(t)
	f.start(4, parallel)
	f.refuse(name(3), "delete")
	f.markDelete(3)
	f.Edit(image("b"))
	f.try(60, 10*time.Second)
	require.Equal(t, "0:b 1:b 2:b 3:a", f.state())
}

func TestRefusedOwnersOfClaimsAreTriedLessAndLessOften(t *testing.T) {
	f := newFixture(t)
	f.start(4, parallel, claimTemplate("www", "1Gi"))
	f.Refuse("patch", modelcluster.Claims, nil)
	f.Edit(retain("Delete", "Delete"), replicas(3))
	f.bustle(60)
	require.Less(t, f.Writes["patch persistentvolumeclaims"], 60, "for four claims")
	require.Equal(t, "0 1 2 3", f.ordinals(), "no Pod goes before its claim is to go with it")
	f.Before = nil
	f.try(2, 2*time.Minute)
	f.Rest()
	require.Equal(t, "0 1 2", f.ordinals())
	require.Nil(t, f.Claim("www-web-3"))
}

func TestAFailureShowsUntilWhatFailedSucceeds(t *testing.T) {
	f := newFixture(t)
	f.start(5, parallel, inPlace)
	f.refuse(name(4), "patch", "patch/status")
	f.Edit(image("b"))
	var seen []corev1.ConditionStatus
	watch := func(times int) {
		for range times {
			f.try(1, 10*time.Millisecond)
			if s := f.conditionOf(v1beta1.FailedUpdatePod).Status; len(seen) == 0 || seen[len(seen)-1] != s {
				seen = append(seen, s)
			}
		}
	}
	watch(30)
	require.Equal(t, []corev1.ConditionStatus{corev1.ConditionTrue}, seen)
	f.Before = nil
	f.Wait(5 * time.Minute)
	watch(5)
	require.Equal(t, []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}, seen)
	require.Equal(t, "0:b 1:b 2:b 3:b 4:b", f.state())
}

func TestThatThereIsNoRevisionIsWrittenOnce(t *testing.T) {
	f := newFixture(t)
	f.create(2)
	f.Refuse("create", modelcluster.Revisions, nil)
	f.try(5, time.Second)
	require.Equal(t, 1, f.Writes["patch/status statefulsets"])
	f.Before = nil
	f.Rest()
	require.Equal(t, "0 1", f.ordinals())
}
