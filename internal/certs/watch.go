package certs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensioninformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// watched is the informer of one named object.
type watched struct {
	kind, name string
	informer   cache.SharedIndexInformer
	start      func(context.Context)
}

// target is a watched object that carries caBundles.
type target struct {
	kind, name string
	store      cache.Store
}

// watch builds an informer for each object by its name: nothing else is ever read.
func (r *Rotator) watch() error {
	for _, name := range []string{r.options.CASecret, r.options.TLSSecret} {
		f := kubeinformers.NewSharedInformerFactoryWithOptions(r.env.Kube, 0,
			kubeinformers.WithNamespace(r.options.Namespace), kubeinformers.WithTweakListOptions(named(name)))
		r.watched = append(r.watched, watched{"Secret", name, f.Core().V1().Secrets().Informer(), f.StartWithContext})
	}
	for _, name := range r.options.Mutating {
		f := kubeinformers.NewSharedInformerFactoryWithOptions(r.env.Kube, 0, kubeinformers.WithTweakListOptions(named(name)))
		r.watched = append(r.watched, watched{KindMutating, name, f.Admissionregistration().V1().MutatingWebhookConfigurations().Informer(), f.StartWithContext})
	}
	for _, name := range r.options.Validating {
		f := kubeinformers.NewSharedInformerFactoryWithOptions(r.env.Kube, 0, kubeinformers.WithTweakListOptions(named(name)))
		r.watched = append(r.watched, watched{KindValidating, name, f.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer(), f.StartWithContext})
	}
	for _, name := range r.options.CRDs {
		f := extensioninformers.NewSharedInformerFactoryWithOptions(r.env.Extensions, 0, extensioninformers.WithTweakListOptions(named(name)))
		r.watched = append(r.watched, watched{KindCRD, name, f.Apiextensions().V1().CustomResourceDefinitions().Informer(), f.StartWithContext})
	}
	var errs []error
	for _, w := range r.watched {
		if w.kind == "Secret" {
			r.secrets[w.name] = w.informer.GetStore()
		} else {
			r.targets = append(r.targets, &target{w.kind, w.name, w.informer.GetStore()})
		}
		_, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: r.wake, UpdateFunc: func(_, o any) { r.wake(o) }, DeleteFunc: r.wake,
		})
		errs = append(errs, err, w.informer.SetTransform(trim), w.informer.SetWatchErrorHandlerWithContext(r.env.WatchFailed))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("setting up the informers: %w", err)
	}
	return nil
}

func named(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

// wake asks for a pass at once: a wiped bundle does not wait.
func (r *Rotator) wake(any) { r.loop.Add(r.key()) }

// trim leaves of a CRD what is read. Its schemas are large.
func trim(o any) (any, error) {
	crd, ok := o.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return o, nil
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: crd.Name, UID: crd.UID, ResourceVersion: crd.ResourceVersion, Generation: crd.Generation, Annotations: crd.Annotations,
			ManagedFields: managers(crd.ManagedFields),
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: crd.Spec.Names.Kind}, Conversion: crd.Spec.Conversion,
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: crd.Status.Conditions, StoredVersions: crd.Status.StoredVersions},
	}, nil
}

// managers keeps who wrote when, and what only where it is about a caBundle.
func managers(fields []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	out := make([]metav1.ManagedFieldsEntry, len(fields))
	for i, m := range fields {
		out[i] = metav1.ManagedFieldsEntry{Manager: m.Manager, Time: m.Time}
		if m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), "f:caBundle") {
			out[i].FieldsV1 = m.FieldsV1
		}
	}
	return out
}

// Start fills the caches of the Secrets. Those of targets may fill later: a resource that cannot be watched holds up no
// other.
func (r *Rotator) Start(ctx context.Context) error {
	var secrets []cache.InformerSynced
	for _, w := range r.watched {
		w.start(ctx)
		if w.kind == "Secret" {
			secrets = append(secrets, w.informer.HasSynced)
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), secrets...) {
		return fmt.Errorf("the caches of the Secrets did not fill: %w", context.Cause(ctx))
	}
	// A moment for the targets, so that the first pass sees them where it can.
	soon, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for _, w := range r.watched {
		cache.WaitForCacheSync(soon.Done(), w.informer.HasSynced)
	}
	return nil
}

// startPatience is how long the caches of targets are waited for.
const startPatience = time.Second

func (r *Rotator) cachedSecret(name string) *corev1.Secret {
	item, exists, err := r.secrets[name].GetByKey(r.options.Namespace + "/" + name)
	if s, ok := item.(*corev1.Secret); err == nil && exists && ok {
		return s
	}
	return nil
}

// observedTarget is a target as Plan sees it, with what patching it takes.
type observedTarget struct {
	Target
	*target
	reading reading
	memory  *remembered
	object  metav1.Object
}

// read reads all targets.
func (r *Rotator) read(steady time.Time) []observedTarget {
	out := make([]observedTarget, len(r.targets))
	parsed := map[string][]Certificate{}
	for i, t := range r.targets {
		id := t.kind + "/" + t.name
		m := r.memory[id]
		if m == nil {
			m = &remembered{}
			r.memory[id] = m
		}
		out[i] = r.readTarget(t, m, steady, parsed)
	}
	return out
}

func (r *Rotator) readTarget(t *target, m *remembered, steady time.Time, parsed map[string][]Certificate) observedTarget {
	o := observedTarget{Target: Target{Kind: t.kind, Name: t.name, NotBefore: m.notBefore}, target: t, memory: m, reading: reading{state: Absent}}
	item, exists, err := t.store.GetByKey(t.name)
	if err != nil || !exists {
		m.vanish(steady)
		o.Lost = m.lost
		return o
	}
	object, ok := item.(metav1.Object)
	if !ok {
		return o
	}
	if m.patched != nil && m.patched.GetUID() == object.GetUID() && isOlder(object, m.patched) {
		object = m.patched
	} else {
		m.patched = nil
	}
	o.object = object
	switch x := object.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		o.reading = r.ours.readHooks(x.Annotations, mutatingHooks(x))
	case *admissionv1.ValidatingWebhookConfiguration:
		o.reading = r.ours.readHooks(x.Annotations, validatingHooks(x))
	case *apiextensionsv1.CustomResourceDefinition:
		o.reading = r.ours.readCRD(x)
		for _, c := range x.Status.Conditions {
			if c.Type == "StorageMigrating" && c.Status == apiextensionsv1.ConditionTrue {
				o.MigratingSince = c.LastTransitionTime.Time
			}
		}
	}
	o.Managed, o.Bundles = len(o.reading.entries) > 0, o.reading.bundles(parsed)
	m.see(object, o.Bundles, steady)
	o.TrustedSince, o.Lost = m.trusted, m.lost
	return o
}

// isOlder says whether a cached object is from before another state of it.
func isOlder(cached, other metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), other.GetResourceVersion())
	return err == nil && order < 0
}
