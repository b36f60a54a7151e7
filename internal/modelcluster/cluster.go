package modelcluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	flotillafake "github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned/fake"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// The resources that the model itself works on. Any other can be stored too.
const (
	Pods           = "pods"
	Claims         = "persistentvolumeclaims"
	Revisions      = "controllerrevisions"
	StorageClasses = "storageclasses"
)

// The owner that tests are about.
const (
	Namespace = "default"
	Name      = "web"
)

// Epoch is when the model's time begins.
var Epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// change is one entry of the watch history.
type change struct {
	resource string
	key      string
	// object is nil for a removal.
	object  Object
	version string
}

// Cluster is an API server with all that lives around it. It is not for use by several goroutines, except by the
// controller's requests.
type Cluster struct {
	// Objects are what is stored, by resource and by key: namespace/name, or the name where there is no namespace. They are
	// replaced, never changed.
	Objects map[string]map[string]Object
	Clock   *clocktesting.FakeClock
	// Alarm knows when the owner is to be synced next.
	Alarm *Alarm

	// Before is asked before every write and may refuse it; After is told of every write and may lose its answer. Verbs are
	// such as "create", "patch/status" and "dry-run patch". Reading is asked before every read.
	Before  func(verb, resource, name string) error
	After   func(verb, resource, name string) error
	Reading func(resource, name string) error
	// Changed is told of every change that the controller makes to an object that exists.
	Changed func(before, after Object)
	// Writes counts the attempts by verb and resource, such as "patch/status pods".
	Writes map[string]int
	// Events are such as "Warning FailedCreate message".
	Events []string

	// Expansion says how claims grow.
	Expansion Expansion
	// ProtectClaims keeps claims that are deleted as long as Pods use them.
	ProtectClaims bool

	mu      sync.Mutex
	kind    Kind
	built   Built
	watches map[string]kube.Watched
	history []change
	version int
	shown   int
	// uids counts the stored objects by their UID.
	uids map[types.UID]int
	// steady holds the versions of Pods that running does not change.
	steady map[types.UID]string
	// unsettled holds the keys of claims with which the model has something left to do.
	unsettled map[string]bool
}

// New makes an empty cluster with a controller of the kind.
func New(kind Kind) *Cluster {
	m := &Cluster{
		Objects: map[string]map[string]Object{}, Writes: map[string]int{}, Clock: clocktesting.NewFakeClock(Epoch), kind: kind,
		uids: map[types.UID]int{}, steady: map[types.UID]string{}, unsettled: map[string]bool{},
	}
	m.Restart()
	return m
}

// Restart is a new process of the controller, with caches that show all there is.
func (m *Cluster) Restart() {
	core, flotilla := &kubefake.Clientset{}, &flotillafake.Clientset{}
	core.AddReactor("*", "*", m.react)
	flotilla.AddReactor("*", "*", m.react)
	m.Alarm = &Alarm{cluster: m}
	m.built = m.kind.Build(&app.Env{
		Component: m.kind.Resource, Log: logr.Discard(), Clock: m.Clock, Kube: core, Flotilla: flotilla,
		Recorder: &recorder{cluster: m}, Metrics: prometheus.NewRegistry(),
		WatchFailed: func(context.Context, *cache.Reflector, error) {},
	}, m.Alarm)
	m.watches = map[string]kube.Watched{}
	for _, w := range m.built.Watched {
		m.watches[w.Resource.Resource] = w
	}
	m.shown = 0
	m.ShowAll()
}

// Sync runs the controller once on the caches as they are.
func (m *Cluster) Sync() (time.Duration, error) {
	return m.built.Sync(context.Background(), cache.NewObjectName(Namespace, Name))
}

// Owner is the owner that tests are about.
func (m *Cluster) Owner() Object { return m.Objects[m.kind.Resource][Namespace+"/"+Name] }

// Apply creates or edits the owner as a user does.
func (m *Cluster) Apply(edit func(owner Object)) {
	owner := m.kind.New()
	owner.SetNamespace(Namespace)
	owner.SetName(Name)
	owner.SetUID(OwnerUID)
	if old := m.Owner(); old != nil {
		owner = copyOf(old)
	}
	owner.SetGeneration(owner.GetGeneration() + 1)
	edit(owner)
	m.Put(m.kind.Resource, owner)
}

// OwnerUID is that of the owner that Apply creates first.
const OwnerUID types.UID = "set"

// Pods are all Pods, by name.
func (m *Cluster) Pods() []*corev1.Pod { return sorted[*corev1.Pod](m.Objects[Pods]) }

// Claims are all claims, by name.
func (m *Cluster) Claims() []*corev1.PersistentVolumeClaim {
	return sorted[*corev1.PersistentVolumeClaim](m.Objects[Claims])
}

func sorted[T Object](objects map[string]Object) []T {
	list := make([]T, 0, len(objects))
	for _, o := range objects {
		list = append(list, o.(T))
	}
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list
}

// Pod is the Pod of that name; nil if there is none.
func (m *Cluster) Pod(name string) *corev1.Pod { return find[*corev1.Pod](m, Pods, name) }

// Claim is the claim of that name; nil if there is none.
func (m *Cluster) Claim(name string) *corev1.PersistentVolumeClaim {
	return find[*corev1.PersistentVolumeClaim](m, Claims, name)
}

func find[T Object](m *Cluster, resource, name string) (object T) {
	if o := m.Objects[resource][Namespace+"/"+name]; o != nil {
		object = o.(T)
	}
	return object
}

// EditPod changes a Pod, its status too, as somebody other than the controller.
func (m *Cluster) EditPod(name string, edit func(*corev1.Pod)) {
	p := m.Pod(name).DeepCopy()
	edit(p)
	m.Put(Pods, p)
}

// EditClaim changes a claim, its status too, as somebody other than the controller.
func (m *Cluster) EditClaim(name string, edit func(*corev1.PersistentVolumeClaim)) {
	c := m.Claim(name).DeepCopy()
	edit(c)
	m.Put(Claims, c)
}

// DeletePod is kubectl delete pod.
func (m *Cluster) DeletePod(name string) { m.Delete(Pods, Namespace+"/"+name) }

// Put stores an object as it is, except for its version. What is being deleted and has no finalizers goes; Pods wait for
// their kubelet.
func (m *Cluster) Put(resource string, o Object) {
	m.version++
	o.SetResourceVersion(strconv.Itoa(m.version))
	key := cache.MetaObjectToName(o).String()
	if m.Objects[resource] == nil {
		m.Objects[resource] = map[string]Object{}
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && resource != Pods {
		m.Remove(resource, key)
		return
	}
	if old := m.Objects[resource][key]; old != nil {
		m.uids[old.GetUID()]--
	}
	m.uids[o.GetUID()]++
	m.Objects[resource][key] = o
	m.history = append(m.history, change{resource: resource, key: key, object: o})
	m.notice(key, o)
}

// Remove makes an object vanish, whatever its finalizers. The garbage collector follows.
func (m *Cluster) Remove(resource, key string) {
	old := m.Objects[resource][key]
	m.version++
	delete(m.Objects[resource], key)
	delete(m.unsettled, key)
	m.history = append(m.history, change{resource: resource, key: key, version: strconv.Itoa(m.version)})
	if old != nil {
		m.uids[old.GetUID()]--
		m.collect(resource, old.GetUID())
	}
}

// Delete is kubectl delete: the object goes at once, or is marked if it has finalizers or is a Pod.
func (m *Cluster) Delete(resource, key string) {
	old := m.Objects[resource][key]
	if old.GetDeletionTimestamp() != nil {
		return
	}
	o := copyOf(old)
	o.SetDeletionTimestamp(&metav1.Time{Time: m.Clock.Now()})
	m.Put(resource, o)
}

func copyOf(o Object) Object {
	return o.DeepCopyObject().(Object)
}

type recorder struct {
	record.EventRecorder
	cluster *Cluster
	mu      sync.Mutex
}

func (r *recorder) Event(o runtime.Object, kind, reason, message string) {
	r.Eventf(o, kind, reason, "%s", message)
}

func (r *recorder) Eventf(_ runtime.Object, kind, reason, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cluster.Events = append(r.cluster.Events, kind+" "+reason+" "+fmt.Sprintf(format, args...))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
