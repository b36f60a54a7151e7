package webhook

import (
	"context"
	"errors"
	"fmt"

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
	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// Where an administrator says which annotations may be patched.
const (
	settingsName = "kruise-configuration"
	whiteListKey = "SidecarSet_PatchPodMetadata_WhiteList"
)

// Sidecars is what is known of the cluster's SidecarSets: they themselves, the revisions that are kept of them, and what an
// administrator allows them.
type Sidecars struct {
	sets, revisions, settings cache.SharedIndexInformer
	patchAllowed              bool
	starts                    []func(context.Context)
}

// newSidecars reads nothing before it is started.
func newSidecars(env *app.Env, o Options) (*Sidecars, error) {
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
		starts: []func(context.Context){ours.StartWithContext, history.StartWithContext, settings.StartWithContext},
	}
	var errs []error
	for _, i := range []cache.SharedIndexInformer{s.sets, s.revisions, s.settings} {
		errs = append(errs, i.SetTransform(trim), i.SetWatchErrorHandlerWithContext(env.WatchFailed))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("setting up the informers: %w", err)
	}
	return s, nil
}

func trim(object any) (any, error) {
	if m, err := meta.Accessor(object); err == nil {
		kube.TrimMeta(m)
	}
	return object, nil
}

func (s *Sidecars) start(ctx context.Context) {
	for _, start := range s.starts {
		start(ctx)
	}
}

// Ready says what has not been read yet.
func (s *Sidecars) Ready() error {
	switch {
	case !s.sets.HasSynced():
		return errors.New("SidecarSets have not been read yet")
	case !s.revisions.HasSynced():
		return errors.New("ControllerRevisions of SidecarSets have not been read yet")
	case !s.settings.HasSynced():
		return fmt.Errorf("ConfigMap %s has not been looked for yet", settingsName)
	}
	return nil
}

// Cluster is what is known now. Nothing in it may be changed.
func (s *Sidecars) Cluster() *sidecarset.Cluster {
	c := &sidecarset.Cluster{
		Sets: all[*v1beta1.SidecarSet](s.sets), Revisions: all[*appsv1.ControllerRevision](s.revisions), PatchAllowed: s.patchAllowed,
	}
	for _, m := range all[*corev1.ConfigMap](s.settings) {
		if list, there := m.Data[whiteListKey]; there {
			c.WhiteList = ptr.To(list)
		}
	}
	return c
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
