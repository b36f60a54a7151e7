package webhook

import (
	"errors"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/admission/statefulset"
	"github.com/flotilla-k8s/flotilla/internal/app"
)

// StorageClasses are those of the cluster, as far as admission looks at them.
type StorageClasses struct {
	informer cache.SharedIndexInformer
	factory  kubeinformers.SharedInformerFactory
}

func newStorageClasses(env *app.Env) (*StorageClasses, error) {
	factory := kubeinformers.NewSharedInformerFactory(env.Kube, 0)
	informer := factory.Storage().V1().StorageClasses().Informer()
	if err := errors.Join(informer.SetTransform(trimClass), informer.SetWatchErrorHandlerWithContext(env.WatchFailed)); err != nil {
		return nil, fmt.Errorf("setting up the informer of StorageClasses: %w", err)
	}
	return &StorageClasses{informer: informer, factory: factory}, nil
}

// List returns all. They are shared: nobody may change them.
func (c *StorageClasses) List() []*storagev1.StorageClass {
	var out []*storagev1.StorageClass
	for _, o := range c.informer.GetStore().List() {
		if class, ok := o.(*storagev1.StorageClass); ok {
			out = append(out, class)
		}
	}
	return out
}

// Synced says why the list is not complete yet. A watch that fails later does not make it so again.
func (c *StorageClasses) Synced() error {
	if !c.informer.HasSynced() {
		return errors.New("the StorageClasses have not been listed yet")
	}
	return nil
}

// trimClass leaves what is read.
func trimClass(o any) (any, error) {
	class, ok := o.(*storagev1.StorageClass)
	if !ok {
		return o, nil
	}
	out := &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: class.Name, ResourceVersion: class.ResourceVersion, CreationTimestamp: class.CreationTimestamp},
		AllowVolumeExpansion: class.AllowVolumeExpansion,
	}
	if value, ok := class.Annotations[statefulset.IsDefaultClass]; ok {
		out.Annotations = map[string]string{statefulset.IsDefaultClass: value}
	}
	return out, nil
}
