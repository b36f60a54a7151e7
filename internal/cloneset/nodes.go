package cloneset

import (
	"context"
	"sync"
	"time"

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
	begun    time.Time
}

func newNodeCache(env *app.Env) *nodeCache {
	return &nodeCache{env: env}
}

// nodesWithin is how long Nodes that are being read for the first time are waited for. Where they cannot be read Pods are
// spread by node only.
const nodesWithin = 5 * time.Second

// labels are those of all nodes by name; nil while they cannot be read, and whether they may be soon.
func (n *nodeCache) labels(ctx context.Context) (byName map[string]map[string]string, coming bool) {
	n.once.Do(func() { n.begin(ctx) })
	if n.informer == nil || !n.informer.HasSynced() {
		return nil, n.informer != nil && n.env.Clock.Since(n.begun) < nodesWithin
	}
	out := map[string]map[string]string{}
	for _, o := range n.informer.GetStore().List() {
		if node, ok := o.(*corev1.Node); ok {
			out[node.Name] = node.Labels
		}
	}
	return out, false
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
	n.informer, n.begun = informer, n.env.Clock.Now()
	// It serves all sets from now on, so it must outlive the sync that needed it first.
	factory.StartWithContext(context.WithoutCancel(ctx))
}

func trimNode(o any) (any, error) {
	if node, ok := o.(*corev1.Node); ok {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, ResourceVersion: node.ResourceVersion, Labels: node.Labels}}, nil
	}
	return o, nil
}
