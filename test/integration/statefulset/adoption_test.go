package statefulset

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// ownedBy waits until the Pod, still the same one, has that controller; nil: none.
func (e *env) ownedBy(ordinal int, pod types.UID, owner types.UID) {
	e.Helper()
	harness.Eventually(e, fmt.Sprintf("Pod %d with the owner %q", ordinal, owner), harness.Patience, func(context.Context) error {
		p := e.pod(ordinal)
		if p.UID != pod {
			return errors.New("another Pod took its place")
		}
		now := types.UID("")
		if r := metav1.GetControllerOf(p); r != nil {
			now = r.UID
		}
		if now != owner {
			return fmt.Errorf("the owner is %q", now)
		}
		return nil
	})
}

func TestScenario113And114_APodThatLeavesAndComesBackIsTheSame(t *testing.T) {
	e := newRunningEnv(t)
	set := e.create(newSet(2))
	e.settled("0:a 1:a")
	uid := e.pod(0).UID
	e.patchPod(0, `{"ownerReferences":null}`)
	e.ownedBy(0, uid, set.UID)
	e.patchPod(0, `{"labels":{"app":"debug"}}`)
	e.ownedBy(0, uid, "")
	e.patchPod(0, `{"labels":{"app":"web"}}`)
	e.ownedBy(0, uid, set.UID)
	e.settled("0:a 1:a")
	require.Equal(t, uid, e.pod(0).UID)
}

func TestASetThatIsDeletedAlonePassesItsPodsOn(t *testing.T) {
	e := newRunningEnv(t)
	e.create(newSet(2))
	e.settled("0:a 1:a")
	before := uids(e.pods())
	orphan := metav1.DeletePropagationOrphan
	require.NoError(t, e.sets().Delete(t.Context(), setName, metav1.DeleteOptions{PropagationPolicy: &orphan}))
	harness.Eventually(t, "the end of the set", harness.Patience, func(ctx context.Context) error {
		if _, err := e.sets().Get(ctx, setName, metav1.GetOptions{}); err == nil {
			return errors.New("it is still there")
		}
		return nil
	})
	set := e.create(newSet(2))
	for i, uid := range before {
		e.ownedBy(i, uid, set.UID)
	}
	e.settled("0:a 1:a")
	require.Equal(t, before, uids(e.pods()))
}
