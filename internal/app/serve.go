package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // informers, REST client, leader election
	_ "k8s.io/component-base/metrics/prometheus/version"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned"
	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// Env is what a component is built from.
type Env struct {
	Component string
	Log       logr.Logger
	Clock     clock.WithTicker
	// Namespace is the only one to watch; empty: all.
	Namespace string
	// Kube speaks protobuf, Flotilla JSON.
	Kube     kubernetes.Interface
	Flotilla versioned.Interface
	// Extensions reads and patches CRDs.
	Extensions apiextensions.Interface
	// ServerTime is the API server's clock.
	ServerTime *ServerTime
	// Metadata reads what all objects have in common.
	Metadata metadata.Interface
	Recorder record.EventRecorder
	// Metrics is for the component's own metrics.
	Metrics prometheus.Registerer
	// Informers is the name of the informers in metrics; nil: they have none.
	Informers *cache.InformerName
	// WatchFailed is the error handler of all informers.
	WatchFailed cache.WatchErrorHandlerWithContext
}

func serve(ctx context.Context, c Component, o *Options) error {
	env, config, end, err := connect(c.Name, o)
	if err != nil {
		return err
	}
	defer end()
	registry := prometheus.NewRegistry()
	env.Metrics = registry
	component, err := c.New(env)
	if err != nil {
		return fmt.Errorf("building the component: %w", err)
	}
	web := &servers{log: env.Log, component: component}
	defer web.stop()
	if err := web.start(o, registry); err != nil {
		return Usage(err)
	}
	env.Log.Info("starting", "component", c.Name, "version", version.Get().GitVersion, "server", config.Host, "namespace", o.Namespace)
	return live(logr.NewContext(ctx, env.Log), component, web, config, o)
}

// ask runs what ends by itself.
func ask(ctx context.Context, name string, run func(context.Context, *Env, io.Writer) error, o *Options, out io.Writer) error {
	env, _, end, err := connect(name, o)
	if err != nil {
		return err
	}
	defer end()
	env.Metrics = prometheus.NewRegistry()
	return run(logr.NewContext(ctx, env.Log), env, out)
}

// connect builds all that talks to the API server. The returned function ends it.
func connect(name string, o *Options) (env *Env, config *rest.Config, end func(), err error) {
	log, err := newLogger(o.LogFormat, o.Verbosity)
	if err != nil {
		return nil, nil, nil, err
	}
	klog.SetLogger(logr.New(quiet{log.WithName("client-go").GetSink()}))
	if config, err = loadConfig(o); err != nil {
		return nil, nil, nil, Usage(err)
	}
	// The API server's warnings are about templates that users wrote; they get them when they write.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.UserAgent = fmt.Sprintf("%s/%s", name, version.Get().GitVersion)
	link := newConnection(log)
	config.Wrap(link.wrap)
	serverTime := &ServerTime{}
	config.Wrap(serverTime.listen)
	if env, end, err = newEnv(name, log, config, o); err != nil {
		return nil, nil, nil, err
	}
	env.WatchFailed, env.ServerTime = link.watchFailed, serverTime
	return env, config, end, nil
}

// live fills the caches, works, and returns when the context has ended and all work with it.
func live(ctx context.Context, component Runnable, web *servers, config *rest.Config, o *Options) error {
	log := logr.FromContextOrDiscard(ctx)
	// Caches stay current until the last sync is over.
	caches, stopCaches := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCaches()
	started := make(chan error, 1)
	go func() { started <- component.Start(caches) }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-started:
		if errors.Is(err, errUsage) {
			return err
		}
		if err != nil {
			return fmt.Errorf("starting: %w", err)
		}
	}
	web.ready.Store(true)
	log.Info("the caches are full")
	work := func(ctx context.Context) { component.Work(ctx, o.ConcurrentSyncs) }
	if o.LeaderElect {
		if err := lead(ctx, config, o, work); err != nil {
			return err
		}
	} else {
		work(ctx)
	}
	log.Info("stopped")
	return nil
}

func loadConfig(o *Options) (*rest.Config, error) {
	if o.Kubeconfig == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return limit(config, o), nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, noKubeconfig(o.Kubeconfig, rules.Precedence)
	case err != nil && o.Kubeconfig == "":
		return nil, fmt.Errorf("$%s must name a readable kubeconfig, or --kubeconfig another one: %w", clientcmd.RecommendedConfigPathEnvVar, err)
	case err != nil:
		return nil, fmt.Errorf("--kubeconfig must name a readable kubeconfig: %w", err)
	}
	return limit(config, o), nil
}

// noKubeconfig says where no cluster was found.
func noKubeconfig(named string, elsewhere []string) error {
	if named != "" {
		return fmt.Errorf("--kubeconfig is %q: must name a kubeconfig with a cluster in its current context", named)
	}
	return fmt.Errorf("no cluster is known: --kubeconfig is not given, this is no Pod, and there is no kubeconfig in %s: "+
		"give --kubeconfig=FILE, or export %s=FILE", strings.Join(elsewhere, ", "), clientcmd.RecommendedConfigPathEnvVar)
}

func limit(config *rest.Config, o *Options) *rest.Config {
	config.QPS, config.Burst = o.QPS, o.Burst
	if o.QPS > 0 && o.Burst == 0 {
		config.Burst = max(1, int(2*o.QPS))
	}
	return config
}

func newEnv(component string, log logr.Logger, config *rest.Config, o *Options) (*Env, func(), error) {
	core := rest.CopyConfig(config)
	core.ContentType = runtime.ContentTypeProtobuf
	core.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(core)
	if err != nil {
		return nil, nil, fmt.Errorf("building the core client: %w", err)
	}
	flotilla, err := kube.NewFlotilla(config)
	if err != nil {
		return nil, nil, err
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("building the metadata client: %w", err)
	}
	extensions, err := apiextensions.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("building the client for CRDs: %w", err)
	}
	recorder, closeEvents, err := newRecorder(component, client)
	if err != nil {
		return nil, nil, err
	}
	name, err := cache.NewInformerName(component)
	if err != nil {
		return nil, nil, fmt.Errorf("naming the informers: %w", err)
	}
	return &Env{
		Component: component, Log: log, Clock: clock.RealClock{}, Namespace: o.Namespace,
		Kube: client, Flotilla: flotilla, Metadata: meta, Extensions: extensions, Recorder: recorder, Informers: name,
	}, closeEvents, nil
}

// newRecorder returns a recorder, and a function that sends what is left and ends it.
func newRecorder(component string, client kubernetes.Interface) (record.EventRecorder, func(), error) {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		return nil, nil, fmt.Errorf("building the scheme: %w", err)
	}
	if err := v1beta1.AddToScheme(s); err != nil {
		return nil, nil, fmt.Errorf("building the scheme: %w", err)
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	var once sync.Once
	return broadcaster.NewRecorder(s, corev1.EventSource{Component: component}), func() { once.Do(broadcaster.Shutdown) }, nil
}

// newIdentity is a new name for this process.
func newIdentity() string { return identity(string(uuid.NewUUID())) }
