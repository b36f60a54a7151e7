package deploy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/internal/pods"
	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// answers is a readiness gate: simulated nodes know nothing of the probes of a process.
const answers corev1.PodConditionType = "example.com/answers"

// backends run a webhook-server for each of its Pods, as the kubelets would, and forward connections to those that the Service has as ready,
// as kube-proxy would.
type backends struct {
	t        *testing.T
	dir      string
	listener net.Listener
	work     sync.WaitGroup

	mu        sync.Mutex
	processes map[types.UID]*backend
	ready     []types.UID
}

type backend struct {
	address string
	process *localcluster.Process
	ends    bool
}

// startBackends works until the test ends.
func startBackends(t *testing.T) *backends {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &backends{t: t, dir: t.TempDir(), listener: l, processes: map[types.UID]*backend{}}
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactoryWithOptions(cluster.Kube, 0, informers.WithNamespace(system))
	handle := func(informer cache.SharedInformer, do func(any)) {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: do, UpdateFunc: func(_, o any) { do(o) }, DeleteFunc: func(o any) {
				if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				do(o)
			},
		})
		require.NoError(t, err)
	}
	podInformer, slices := factory.Core().V1().Pods(), factory.Discovery().V1().EndpointSlices()
	handle(podInformer.Informer(), func(o any) {
		p := o.(*corev1.Pod)
		_, err := podInformer.Lister().Pods(system).Get(p.Name)
		b.see(ctx, p, err == nil)
	})
	handle(slices.Informer(), func(any) {
		list, err := slices.Lister().List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: "flotilla-webhook"}))
		if err != nil {
			t.Error(err)
		}
		b.route(list)
	})
	factory.Start(ctx.Done())
	b.work.Go(b.accept)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		l.Close()
		b.mu.Lock()
		for _, p := range b.processes {
			end(t, p.process, "webhook-server")
		}
		b.mu.Unlock()
		b.work.Wait()
	})
	return b
}

func (b *backends) address() string { return b.listener.Addr().String() }

// haveEnded waits until no more processes run than there are to be.
func (b *backends) haveEnded(t *testing.T, left int) {
	t.Helper()
	harness.Eventually(t, "the end of the processes of drained nodes", harness.Patience, func(context.Context) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.processes) > left {
			return fmt.Errorf("%d processes run", len(b.processes))
		}
		return nil
	})
}

// see starts the process of a Pod that has a node, and ends that of one that goes.
func (b *backends) see(ctx context.Context, p *corev1.Pod, exists bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	running := b.processes[p.UID]
	switch goes := !exists || pods.IsTerminating(p); {
	case ctx.Err() != nil || !pods.HasGate(p, answers):
	case running == nil && !goes && p.Spec.NodeName != "":
		b.start(ctx, p)
	case running != nil && goes && !running.ends:
		running.ends = true
		b.work.Go(func() { b.end(ctx, p, running.process) })
	}
}

// end lets a process finish what it does. Until the Service knows, connections still reach it.
func (b *backends) end(ctx context.Context, p *corev1.Pod, process *localcluster.Process) {
	err := process.Stop(time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second)
	if err != nil && ctx.Err() == nil {
		b.t.Errorf("the process of %s: %v: %s", p.Name, err, process.Tail(20))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.processes, p.UID)
}

func (b *backends) start(ctx context.Context, p *corev1.Pod) {
	var addresses [3]string
	for i := range addresses {
		var err error
		if addresses[i], err = localcluster.FreeAddress(); err != nil {
			b.t.Error(err)
			return
		}
	}
	dir, err := os.MkdirTemp(b.dir, p.Name)
	if err != nil {
		b.t.Error(err)
		return
	}
	process, err := start(ctx, &p.Spec, dir, "webhook-server",
		"--bind-address="+addresses[0], "--health-probe-bind-address="+addresses[1], "--metrics-bind-address="+addresses[2], "--pprof-bind-address=0")
	if err != nil {
		b.t.Errorf("the process of %s: %v", p.Name, err)
		return
	}
	b.processes[p.UID] = &backend{address: addresses[0], process: process}
	b.work.Go(func() {
		err := localcluster.Await(ctx, harness.Patience, func(ctx context.Context) error {
			_, err := localcluster.Get(ctx, "http://"+addresses[1]+"/readyz")
			return err
		})
		if err == nil {
			patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":"True"}]}}`, answers)
			_, err = cluster.Kube.CoreV1().Pods(system).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		}
		if err != nil && ctx.Err() == nil {
			b.t.Logf("%s does not become ready: %v", p.Name, err)
		}
	})
}

// route takes over whom the Service has as ready.
func (b *backends) route(list []*discoveryv1.EndpointSlice) {
	var ready []types.UID
	for _, s := range list {
		for _, e := range s.Endpoints {
			if e.TargetRef != nil && ptr.Deref(e.Conditions.Ready, true) && !slices.Contains(ready, e.TargetRef.UID) {
				ready = append(ready, e.TargetRef.UID)
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = ready
}

// pick is one that the Service would call. It may be ending: who decides that and who forwards are not the same.
func (b *backends) pick() (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var addresses []string
	for _, uid := range b.ready {
		if p := b.processes[uid]; p != nil {
			addresses = append(addresses, p.address)
		}
	}
	if len(addresses) == 0 {
		return "", false
	}
	return addresses[rand.IntN(len(addresses))], true
}

func (b *backends) accept() {
	for {
		in, err := b.listener.Accept()
		if err != nil {
			return
		}
		address, ok := b.pick()
		if !ok {
			in.Close()
			continue
		}
		b.work.Go(func() { forward(in, address) })
	}
}

func forward(in net.Conn, address string) {
	defer in.Close()
	out, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer out.Close()
	harness.Join(in, out)
}
