package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	flotillainformers "github.com/flotilla-k8s/flotilla/apis/client/informers/externalversions"
	"github.com/flotilla-k8s/flotilla/internal/admission/sidecarset"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/injection"
	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// Where an administrator says which annotations may be patched.
const (
	settingsName = "kruise-configuration"
	whiteListKey = "SidecarSet_PatchPodMetadata_WhiteList"
)

// Sidecars is what is known of the cluster's SidecarSets: they themselves, which Pods they select, the revisions that are kept
// of them, and what an administrator allows them.
type Sidecars struct {
	sets, revisions, settings cache.SharedIndexInformer
	namespaces                *Namespaces
	// indexed tells whether the index holds all that were listed.
	indexed cache.InformerSynced
	mu      sync.RWMutex
	index   *injection.Index
	// known is each set as it was when it could be read last, unreadable why one cannot be read now, by name.
	known        map[string]*v1beta1.SidecarSet
	unreadable   map[string]string
	patchAllowed bool
	log          logr.Logger
	starts       []func(context.Context)
}

// newSidecars reads nothing before it is started.
func newSidecars(env *app.Env, o Options, namespaces *Namespaces) (*Sidecars, error) {
	in := func(tweak func(*metav1.ListOptions)) kubeinformers.SharedInformerFactory {
		return kubeinformers.NewSharedInformerFactoryWithOptions(env.Kube, 0,
			kubeinformers.WithNamespace(o.HistoryNamespace), kubeinformers.WithTweakListOptions(tweak), kubeinformers.WithInformerName(env.Informers))
	}
	ours := flotillainformers.NewSharedInformerFactoryWithOptions(env.Flotilla, 0, flotillainformers.WithInformerName(env.Informers))
	history := in(func(l *metav1.ListOptions) { l.LabelSelector = pub.SidecarSetNameKey })
	settings := in(func(l *metav1.ListOptions) {
		l.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, settingsName).String()
	})
	s := &Sidecars{
		sets: ours.Apps().V1beta1().SidecarSets().Informer(), revisions: history.Apps().V1().ControllerRevisions().Informer(),
		settings: settings.Core().V1().ConfigMaps().Informer(), patchAllowed: o.PatchPodMetadataAllowed,
		log: env.Log, namespaces: namespaces, index: injection.NewIndex(),
		known: map[string]*v1beta1.SidecarSet{}, unreadable: map[string]string{},
		starts: []func(context.Context){ours.StartWithContext, history.StartWithContext, settings.StartWithContext},
	}
	registration, err := s.sets.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: s.put, UpdateFunc: func(_, o any) { s.put(o) }, DeleteFunc: s.remove})
	errs := []error{err}
	for _, i := range []cache.SharedIndexInformer{s.sets, s.revisions, s.settings} {
		errs = append(errs, i.SetTransform(trim), i.SetWatchErrorHandlerWithContext(env.WatchFailed))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("setting up the informers: %w", err)
	}
	s.indexed = registration.HasSynced
	if err := env.Metrics.Register(newUnreadableSets(s)); err != nil {
		return nil, fmt.Errorf("registering a metric: %w", err)
	}
	return s, nil
}

func (s *Sidecars) put(o any) {
	set, ok := o.(*v1beta1.SidecarSet)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[set.Name]; known != nil && known.UID != set.UID {
		s.drop(set.Name)
	}
	why := kube.Unreadable(set)
	if why == "" {
		delete(s.unreadable, set.Name)
		s.known[set.Name] = set
		s.index.Put(set)
		return
	}
	s.unreadable[set.Name] = why
	what := "a SidecarSet cannot be read; it selects Pods as before"
	if s.known[set.Name] == nil {
		what = "a SidecarSet cannot be read, and what it was before is not known: it selects no Pod"
	}
	s.log.Info(what, "sidecarset", set.Name, "reason", why)
}

func (s *Sidecars) remove(o any) {
	key, err := cache.DeletionHandlingObjectToName(o)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key.Name)
}

// drop forgets a set. The lock is held.
func (s *Sidecars) drop(name string) {
	delete(s.known, name)
	delete(s.unreadable, name)
	s.index.Remove(name)
}

// Selecting are the sets that select a Pod of those labels, in the order of their names; nobody may change them. An error
// means that the labels of its namespace matter and cannot be known now.
func (s *Sidecars) Selecting(ctx context.Context, namespace string, labels map[string]string) ([]*v1beta1.SidecarSet, error) {
	s.mu.RLock()
	selecting, dependent := s.index.Find(namespace, labels)
	s.mu.RUnlock()
	if len(dependent) == 0 {
		return selecting, nil
	}
	own, err := s.namespaces.Labels(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for _, set := range dependent {
		if injection.Selects(set.Spec.NamespaceSelector, own) {
			selecting = append(selecting, set)
		}
	}
	slices.SortFunc(selecting, func(a, b *v1beta1.SidecarSet) int { return cmp.Compare(a.Name, b.Name) })
	return selecting, nil
}

func trim(object any) (any, error) {
	if m, err := meta.Accessor(object); err == nil {
		kube.TrimMeta(m)
	}
	return object, nil
}

func (s *Sidecars) start(ctx context.Context) {
	s.namespaces.factory.StartWithContext(ctx)
	for _, start := range s.starts {
		start(ctx)
	}
}

// Ready says what has not been read yet.
func (s *Sidecars) Ready() error {
	switch {
	case !s.indexed():
		return errors.New("SidecarSets have not been read yet")
	case !s.revisions.HasSynced():
		return errors.New("ControllerRevisions of SidecarSets have not been read yet")
	case !s.settings.HasSynced():
		return fmt.Errorf("ConfigMap %s has not been looked for yet", settingsName)
	}
	return s.namespaces.Synced()
}

// Cluster is what is known now. Nothing in it may be changed.
func (s *Sidecars) Cluster() *sidecarset.Cluster {
	c := &sidecarset.Cluster{Revisions: all[*appsv1.ControllerRevision](s.revisions), PatchAllowed: s.patchAllowed}
	s.mu.RLock()
	c.Sets = slices.Collect(maps.Values(s.known))
	for _, name := range slices.Sorted(maps.Keys(s.unreadable)) {
		if s.known[name] == nil {
			c.Unknown = append(c.Unknown, name)
		}
	}
	s.mu.RUnlock()
	for _, m := range all[*corev1.ConfigMap](s.settings) {
		if list, there := m.Data[whiteListKey]; there {
			c.WhiteList = ptr.To(list)
		}
	}
	return c
}

// unreadableSets tells of sets that cannot be read.
type unreadableSets struct {
	sidecars *Sidecars
	desc     *prometheus.Desc
}

func newUnreadableSets(s *Sidecars) *unreadableSets {
	return &unreadableSets{s, prometheus.NewDesc("flotilla_sidecarset_unreadable",
		"1 for a SidecarSet that cannot be read: it selects Pods as before, or none if what it was is not known.", []string{"name"}, nil)}
}

// Describe names the metric.
func (u *unreadableSets) Describe(out chan<- *prometheus.Desc) { out <- u.desc }

// Collect reads it.
func (u *unreadableSets) Collect(out chan<- prometheus.Metric) {
	u.sidecars.mu.RLock()
	defer u.sidecars.mu.RUnlock()
	for name := range u.sidecars.unreadable {
		out <- prometheus.MustNewConstMetric(u.desc, prometheus.GaugeValue, 1, name)
	}
}

func all[T any](informer cache.SharedIndexInformer) []T {
	var out []T
	for _, o := range informer.GetStore().List() {
		if typed, ok := o.(T); ok {
			out = append(out, typed)
		}
	}
	return out
}
