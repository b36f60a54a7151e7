package cloneset

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/app"
)

// nodeCache watches Nodes from the first set on that spreads its Pods. Clusters without one pay nothing.
type nodeCache struct {
	env      *app.Env
	once     sync.Once
	informer cache.SharedIndexInformer
}

func newNodeCache(env *app.Env) *nodeCache {
	return &nodeCache{env: env}
}

// labels are those of all nodes by name; nil while they cannot be read.
func (n *nodeCache) labels(ctx context.Context) map[string]map[string]string {
	n.once.Do(func() { n.begin(ctx) })
	if n.informer == nil || !n.informer.HasSynced() {
		return nil
	}
	out := map[string]map[string]string{}
	for _, o := range n.informer.GetStore().List() {
		if node, ok := o.(*corev1.Node); ok {
			out[node.Name] = node.Labels
		}
	}
	return out
}

func (n *nodeCache) begin(ctx context.Context) {
	factory := kubeinformers.NewSharedInformerFactory(n.env.Kube, 0)
	informer := factory.Core().V1().Nodes().Informer()
	if err := informer.SetTransform(trimNode); err != nil {
		n.env.Log.Error(err, "Pods are spread by node only")
		return
	}
	if err := informer.SetWatchErrorHandlerWithContext(n.env.WatchFailed); err != nil {
		n.env.Log.Error(err, "Pods are spread by node only")
		return
	}
	n.informer = informer
	// It serves all sets from now on, so it must outlive the sync that needed it first.
	factory.StartWithContext(context.WithoutCancel(ctx))
}

func trimNode(o any) (any, error) {
	if node, ok := o.(*corev1.Node); ok {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, ResourceVersion: node.ResourceVersion, Labels: node.Labels}}, nil
	}
	return o, nil
}
