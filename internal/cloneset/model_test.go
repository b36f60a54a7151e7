package cloneset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	flotillafake "github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned/fake"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// object is what the model stores.
type object interface {
	metav1.Object
	runtime.Object
}

// change is one entry of the model's watch history.
type change struct {
	resource string
	key      string
	// object is nil for a removal.
	object  object
	version string
}

// model is an API server with a kubelet, in memory. The controller's caches show its history up to a point that the test
// moves, so they may lag as far as the test likes.
type model struct {
	mu      sync.Mutex
	objects map[string]map[string]object
	history []change
	version int
	clock   *clocktesting.FakeClock

	// before is asked before every write and may refuse it; after is told of every write and may lose its answer; reading
	// is asked before every read.
	before  func(verb, resource, name string) error
	after   func(verb, resource, name string) error
	reading func(resource, name string) error
	// changed is told of every change that the controller makes to an object.
	changed func(before, after object)
	// writes counts by verb, resource and subresource.
	writes map[string]int
	events []string

	// steady holds the versions of Pods that running does not change.
	steady map[types.UID]string

	options    Options
	controller *Controller
	alarm      *alarm
	watches    map[string]kube.Watched
	shown      int
	random     func(int) int
}

const (
	resourcePods      = "pods"
	resourceClaims    = "persistentvolumeclaims"
	resourceRevisions = "controllerrevisions"
	resourceSets      = "clonesets"
)

// epoch is when the model's time begins.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func newModel(options Options, random func(int) int) *model {
	m := &model{
		objects: map[string]map[string]object{}, writes: map[string]int{}, steady: map[types.UID]string{}, options: options, random: random,
		clock: clocktesting.NewFakeClock(epoch),
	}
	m.restart()
	return m
}

// restart is a new process with fresh caches.
func (m *model) restart() {
	core, flotilla := &kubefake.Clientset{}, &flotillafake.Clientset{}
	core.AddReactor("*", "*", m.react)
	flotilla.AddReactor("*", "*", m.react)
	recorder := &recorder{model: m}
	built, err := newController(&app.Env{
		Component: "cloneset-controller", Log: logr.Discard(), Clock: m.clock, Kube: core, Flotilla: flotilla,
		Recorder: recorder, Metrics: prometheus.NewRegistry(),
		WatchFailed: func(context.Context, *cache.Reflector, error) {},
	}, m.options)
	if err != nil {
		panic(err)
	}
	m.controller = built
	m.controller.can = inplace.Abilities{Resize: true}
	m.controller.random, m.controller.parallel = m.random, 1
	// The model wakes the controller itself. What the queue has started must end, or it piles up over the schedules.
	built.loop.(*kube.Loop).ShutDown() //nolint:forcetypeassert // newController has just made it.
	m.alarm = &alarm{model: m}
	m.controller.loop = m.alarm
	m.watches = map[string]kube.Watched{}
	for _, w := range m.controller.watched {
		m.watches[w.Resource.Resource] = w
	}
	m.shown = 0
	m.show(len(m.history))
}

type recorder struct {
	record.EventRecorder
	model *model
}

func (r *recorder) Event(o runtime.Object, kind, reason, message string) {
	r.Eventf(o, kind, reason, "%s", message)
}

func (r *recorder) Eventf(_ runtime.Object, kind, reason, format string, args ...any) {
	r.model.events = append(r.model.events, kind+" "+reason+" "+fmt.Sprintf(format, args...))
}

// show moves the caches on to a point of the history, and tells the controller of it.
func (m *model) show(until int) {
	for ; m.shown < min(until, len(m.history)); m.shown++ {
		c := m.history[m.shown]
		store, handler := m.watches[c.resource].Informer.GetStore(), m.watches[c.resource].Handler
		old, exists, err := store.GetByKey(c.key)
		if err != nil {
			panic(err)
		}
		switch {
		case c.object != nil && exists:
			fresh := m.trimmed(c)
			must(store.Update(fresh))
			handler.OnUpdate(old, fresh)
		case c.object != nil:
			fresh := m.trimmed(c)
			must(store.Add(fresh))
			handler.OnAdd(fresh, false)
		case exists:
			// A watch delivers a removal with the version at which it happened.
			gone := old.(object).DeepCopyObject().(object)
			gone.SetResourceVersion(c.version)
			must(store.Delete(gone))
			handler.OnDelete(gone)
		}
	}
}

// trimmed is the object as the informer's transform leaves it.
func (m *model) trimmed(c change) any {
	out, err := m.watches[c.resource].Transform(c.object.DeepCopyObject())
	must(err)
	return out
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// lag is how many changes the caches do not show.
func (m *model) lag() int { return len(m.history) - m.shown }

func (m *model) put(resource string, o object) {
	m.version++
	o.SetResourceVersion(strconv.Itoa(m.version))
	key := o.GetNamespace() + "/" + o.GetName()
	if m.objects[resource] == nil {
		m.objects[resource] = map[string]object{}
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && resource != resourcePods {
		m.remove(resource, key)
		return
	}
	m.objects[resource][key] = o
	m.history = append(m.history, change{resource: resource, key: key, object: o})
}

func (m *model) remove(resource, key string) {
	if resource == resourcePods {
		m.collect(m.objects[resource][key].GetUID())
	}
	m.version++
	delete(m.objects[resource], key)
	m.history = append(m.history, change{resource: resource, key: key, version: strconv.Itoa(m.version)})
}

// collect removes the claims that a Pod was the only owner of, as the garbage collector does.
func (m *model) collect(pod types.UID) {
	for _, key := range slices.Sorted(maps.Keys(m.objects[resourceClaims])) {
		claim := m.objects[resourceClaims][key]
		if owners := claim.GetOwnerReferences(); len(owners) == 1 && owners[0].UID == pod {
			m.remove(resourceClaims, key)
		}
	}
}

// react answers the controller's requests.
func (m *model) react(action clienttesting.Action) (bool, runtime.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resource := action.GetResource().Resource
	name := nameOf(action)
	if action.GetVerb() == "get" {
		if m.reading != nil {
			if err := m.reading(resource, name); err != nil {
				return true, nil, err
			}
		}
		o := m.objects[resource][action.GetNamespace()+"/"+name]
		if o == nil {
			return true, nil, apierrors.NewNotFound(action.GetResource().GroupResource(), name)
		}
		return true, o.DeepCopyObject(), nil
	}
	verb := action.GetVerb()
	if isRehearsal(action) {
		verb = "dry-run " + verb
	}
	if sub := action.GetSubresource(); sub != "" {
		verb += "/" + sub
	}
	m.writes[verb+" "+resource]++
	if m.before != nil {
		if err := m.before(verb, resource, name); err != nil {
			return true, nil, err
		}
	}
	if isRehearsal(action) {
		return true, m.objects[resource][action.GetNamespace()+"/"+name], nil
	}
	o, err := m.write(action, resource, name)
	if err == nil && m.after != nil {
		err = m.after(verb, resource, name)
	}
	if err != nil {
		return true, nil, err
	}
	return true, o, nil
}

func isRehearsal(action clienttesting.Action) bool {
	a, ok := action.(clienttesting.PatchActionImpl)
	return ok && len(a.PatchOptions.DryRun) > 0
}

func nameOf(action clienttesting.Action) string {
	switch a := action.(type) {
	case clienttesting.CreateAction:
		return a.GetObject().(object).GetName()
	case clienttesting.PatchAction:
		return a.GetName()
	case clienttesting.DeleteAction:
		return a.GetName()
	case clienttesting.GetAction:
		return a.GetName()
	}
	return ""
}

func (m *model) write(action clienttesting.Action, resource, name string) (runtime.Object, error) {
	group := action.GetResource().GroupResource()
	key := action.GetNamespace() + "/" + name
	old := m.objects[resource][key]
	switch a := action.(type) {
	case clienttesting.CreateAction:
		if old != nil {
			return nil, apierrors.NewAlreadyExists(group, name)
		}
		o := a.GetObject().DeepCopyObject().(object)
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", m.version+1)))
		o.SetCreationTimestamp(metav1.NewTime(m.clock.Now()))
		if p, ok := o.(*corev1.Pod); ok {
			p.Status.Phase, p.Generation = corev1.PodPending, 1
		}
		m.put(resource, o)
		return o.DeepCopyObject(), nil
	case clienttesting.PatchAction:
		if old == nil {
			return nil, apierrors.NewNotFound(group, name)
		}
		o, err := m.patch(old, a)
		if err != nil {
			return nil, err
		}
		if equality.Semantic.DeepEqual(old, o) {
			return old.DeepCopyObject(), nil
		}
		if m.changed != nil {
			m.changed(old, o)
		}
		m.put(resource, o)
		return o.DeepCopyObject(), nil
	case clienttesting.DeleteAction:
		return nil, m.delete(a, resource, key, old)
	}
	return nil, fmt.Errorf("the model does not know %s %s", action.GetVerb(), resource)
}

func (m *model) delete(a clienttesting.DeleteAction, resource, key string, old object) error {
	group := a.GetResource().GroupResource()
	if old == nil {
		return apierrors.NewNotFound(group, a.GetName())
	}
	if p := a.GetDeleteOptions().Preconditions; p == nil || p.UID == nil {
		return errors.New("a deletion must name the UID")
	} else if *p.UID != old.GetUID() {
		return apierrors.NewConflict(group, a.GetName(), errors.New("other UID"))
	}
	if resource != resourcePods && len(old.GetFinalizers()) == 0 {
		m.remove(resource, key)
		return nil
	}
	if old.GetDeletionTimestamp() == nil {
		o := old.DeepCopyObject().(object)
		o.SetDeletionTimestamp(&metav1.Time{Time: m.clock.Now()})
		m.put(resource, o)
	}
	return nil
}

// patch applies preconditions as the API server does, and keeps a write to a subresource away from the rest.
func (m *model) patch(old object, a clienttesting.PatchAction) (object, error) {
	var body struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(a.GetPatch(), &body); err != nil {
		return nil, err
	}
	if v := body.Metadata; v.UID != "" && v.UID != old.GetUID() || v.ResourceVersion != "" && v.ResourceVersion != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(a.GetResource().GroupResource(), a.GetName(), errors.New("changed"))
	}
	if set, ok := old.(*v1beta1.CloneSet); ok && a.GetSubresource() == "status" {
		return patchStatus(set, a.GetPatch())
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	out := old.DeepCopyObject().(object)
	var after []byte
	if a.GetPatchType() == types.MergePatchType {
		after, err = jsonpatch.MergePatch(before, a.GetPatch())
	} else {
		after, err = strategicpatch.StrategicMergePatch(before, a.GetPatch(), out)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(after, zero(out)); err != nil {
		return nil, err
	}
	return separate(old, out, a.GetSubresource()), nil
}

// patchStatus leaves everything else alone: sets are written often. A number that is removed becomes zero (decoding null
// would leave it), a list is replaced.
func patchStatus(set *v1beta1.CloneSet, body []byte) (object, error) {
	out := set.DeepCopy()
	out.Status.Conditions = nil
	fresh := struct {
		Status *v1beta1.CloneSetStatus `json:"status"`
	}{&out.Status}
	if err := json.Unmarshal(bytes.ReplaceAll(body, []byte(":null"), []byte(":0")), &fresh); err != nil {
		return nil, err
	}
	if !bytes.Contains(body, []byte(`"conditions":`)) {
		out.Status.Conditions = set.Status.Conditions
	}
	return out, nil
}

// zero empties an object, so that decoding into it leaves nothing behind.
func zero(o object) object {
	switch t := o.(type) {
	case *corev1.Pod:
		*t = corev1.Pod{}
	case *corev1.PersistentVolumeClaim:
		*t = corev1.PersistentVolumeClaim{}
	case *appsv1.ControllerRevision:
		*t = appsv1.ControllerRevision{}
	case *v1beta1.CloneSet:
		*t = v1beta1.CloneSet{}
	}
	return o
}

func separate(old, fresh object, subresource string) object {
	switch t := fresh.(type) {
	case *corev1.Pod:
		was := old.(*corev1.Pod)
		switch subresource {
		case "status":
			t.Spec = was.Spec
		case "resize":
			resized := t.Spec.Containers
			t.Spec, t.Status = *was.Spec.DeepCopy(), was.Status
			for i := range t.Spec.Containers {
				t.Spec.Containers[i].Resources = resized[i].Resources
			}
			t.Generation++
		default:
			t.Status = was.Status
			if !equality.Semantic.DeepEqual(t.Spec, was.Spec) {
				t.Generation++
			}
		}
	case *v1beta1.CloneSet:
		if was := old.(*v1beta1.CloneSet); subresource == "status" {
			t.Spec = was.Spec
		} else {
			t.Status = was.Status
			t.Generation++
		}
	}
	return fresh
}

const namespace, setName = "default", "web"

func (m *model) set() *v1beta1.CloneSet {
	return m.objects[resourceSets][namespace+"/"+setName].(*v1beta1.CloneSet)
}

// apply creates or edits the set as a user does.
func (m *model) apply(edit func(*v1beta1.CloneSet)) {
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: setName, Namespace: namespace, UID: "set"}}
	if old := m.objects[resourceSets][namespace+"/"+setName]; old != nil {
		set = old.DeepCopyObject().(*v1beta1.CloneSet)
	}
	set.Generation++
	edit(set)
	m.put(resourceSets, set)
}

// pods are all Pods, by name.
func (m *model) podList() []*corev1.Pod {
	var list []*corev1.Pod
	for _, o := range m.objects[resourcePods] {
		list = append(list, o.(*corev1.Pod))
	}
	slices.SortFunc(list, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// edit changes a Pod as somebody other than the controller.
func (m *model) edit(name string, edit func(*corev1.Pod)) {
	p := m.objects[resourcePods][namespace+"/"+name].DeepCopyObject().(*corev1.Pod)
	edit(p)
	m.put(resourcePods, p)
}

// sync runs the controller once on the caches as they are.
func (m *model) sync() (time.Duration, error) {
	return m.controller.sync(context.Background(), cache.NewObjectName(namespace, setName))
}
