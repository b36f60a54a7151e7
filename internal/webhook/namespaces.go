package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/app"
)

// namespaceWithin is how long the API server is asked for a namespace.
const namespaceWithin = time.Second

// Namespaces are the labels of the cluster's.
type Namespaces struct {
	informer cache.SharedIndexInformer
	factory  kubeinformers.SharedInformerFactory
	live     kubernetes.Interface
}

func newNamespaces(env *app.Env) (*Namespaces, error) {
	factory := kubeinformers.NewSharedInformerFactoryWithOptions(env.Kube, 0, kubeinformers.WithInformerName(env.Informers))
	informer := factory.Core().V1().Namespaces().Informer()
	if err := errors.Join(informer.SetTransform(trimNamespace), informer.SetWatchErrorHandlerWithContext(env.WatchFailed)); err != nil {
		return nil, fmt.Errorf("setting up the informer of Namespaces: %w", err)
	}
	return &Namespaces{informer: informer, factory: factory, live: env.Kube}, nil
}

// Synced says why not all are known yet. A watch that fails later does not make it so again.
func (n *Namespaces) Synced() error {
	if !n.informer.HasSynced() {
		return errors.New("the Namespaces have not been listed yet")
	}
	return nil
}

// Labels are those of a namespace; nobody may change them. One that is not known may have been made a moment ago, so the API
// server is asked for it.
func (n *Namespaces) Labels(ctx context.Context, name string) (map[string]string, error) {
	known, there, err := n.informer.GetStore().GetByKey(name)
	if ns, ok := known.(*corev1.Namespace); err == nil && there && ok {
		return ns.Labels, nil
	}
	ctx, cancel := context.WithTimeout(ctx, namespaceWithin)
	defer cancel()
	ns, err := n.live.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading Namespace %s: %w", name, err)
	}
	return ns.Labels, nil
}

// trimNamespace leaves what is read.
func trimNamespace(o any) (any, error) {
	ns, ok := o.(*corev1.Namespace)
	if !ok {
		return o, nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name, ResourceVersion: ns.ResourceVersion, Labels: ns.Labels}}, nil
}
