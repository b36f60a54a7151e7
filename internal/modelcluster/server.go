package modelcluster

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// request is one of the controller's.
type request struct {
	clienttesting.Action
	resource, name, key string
}

// react answers the controller's requests.
func (m *Cluster) react(action clienttesting.Action) (bool, runtime.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := nameOf(action)
	r := request{action, action.GetResource().Resource, name, cache.NewObjectName(action.GetNamespace(), name).String()}
	var o Object
	var err error
	if action.GetVerb() == "get" {
		o, err = m.read(r)
	} else {
		o, err = m.answer(r)
	}
	if err != nil || o == nil {
		return true, nil, err
	}
	return true, o.DeepCopyObject(), nil
}

func (m *Cluster) read(r request) (Object, error) {
	if m.Reading != nil {
		if err := m.Reading(r.resource, r.name); err != nil {
			return nil, err
		}
	}
	o := m.Objects[r.resource][r.key]
	if o == nil {
		return nil, apierrors.NewNotFound(r.GetResource().GroupResource(), r.name)
	}
	return o, nil
}

// answer carries a write out, with the faults that the test has arranged.
func (m *Cluster) answer(r request) (Object, error) {
	verb := r.GetVerb()
	rehearsal := isRehearsal(r.Action)
	if rehearsal {
		verb = "dry-run " + verb
	}
	if sub := r.GetSubresource(); sub != "" {
		verb += "/" + sub
	}
	m.Writes[verb+" "+r.resource]++
	if m.Before != nil {
		if err := m.Before(verb, r.resource, r.name); err != nil {
			return nil, err
		}
	}
	if rehearsal {
		return m.Objects[r.resource][r.key], nil
	}
	o, err := m.write(r)
	if err == nil && m.After != nil {
		err = m.After(verb, r.resource, r.name)
	}
	return o, err
}

func isRehearsal(action clienttesting.Action) bool {
	a, ok := action.(clienttesting.PatchActionImpl)
	return ok && len(a.PatchOptions.DryRun) > 0
}

func nameOf(action clienttesting.Action) string {
	switch a := action.(type) {
	case clienttesting.CreateAction:
		return a.GetObject().(Object).GetName()
	case clienttesting.PatchAction:
		return a.GetName()
	case clienttesting.DeleteAction:
		return a.GetName()
	case clienttesting.GetAction:
		return a.GetName()
	}
	return ""
}

func (m *Cluster) write(r request) (Object, error) {
	group := r.GetResource().GroupResource()
	old := m.Objects[r.resource][r.key]
	switch a := r.Action.(type) {
	case clienttesting.CreateAction:
		if old != nil {
			return nil, apierrors.NewAlreadyExists(group, r.name)
		}
		return m.create(r.resource, copyOf(a.GetObject().(Object))), nil
	case clienttesting.PatchAction:
		if old == nil {
			return nil, apierrors.NewNotFound(group, r.name)
		}
		o, err := m.patch(old, a)
		if err != nil {
			return nil, err
		}
		if equality.Semantic.DeepEqual(old, o) {
			return old, nil
		}
		if m.Changed != nil {
			m.Changed(old, o)
		}
		m.Put(r.resource, o)
		m.recollect(r.resource, r.key)
		return o, nil
	case clienttesting.DeleteAction:
		return nil, m.delete(a, r, old)
	}
	return nil, fmt.Errorf("the model does not know %s %s", r.GetVerb(), r.resource)
}

func (m *Cluster) create(resource string, o Object) Object {
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", m.version+1)))
	o.SetCreationTimestamp(metav1.NewTime(m.Clock.Now()))
	switch t := o.(type) {
	case *corev1.Pod:
		t.Status.Phase, t.Generation = corev1.PodPending, 1
	case *corev1.PersistentVolumeClaim:
		m.bind(t)
	}
	m.Put(resource, o)
	return o
}

func (m *Cluster) delete(a clienttesting.DeleteAction, r request, old Object) error {
	group := a.GetResource().GroupResource()
	if old == nil {
		return apierrors.NewNotFound(group, r.name)
	}
	if p := a.GetDeleteOptions().Preconditions; p == nil || p.UID == nil {
		return errors.New("a deletion must name the UID")
	} else if *p.UID != old.GetUID() {
		return apierrors.NewConflict(group, r.name, errors.New("other UID"))
	}
	m.Delete(r.resource, r.key)
	return nil
}
