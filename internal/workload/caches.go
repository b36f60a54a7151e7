package workload

import (
	"context"
	"fmt"

	kubeinformers "k8s.io/client-go/informers"

	flotillainformers "github.com/flotilla-k8s/flotilla/apis/client/informers/externalversions"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/inplace"
	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// Caches are what a controller of workloads decides by.
type Caches struct {
	// Core and Ours make the informers, of one namespace or of all.
	Core kubeinformers.SharedInformerFactory
	Ours flotillainformers.SharedInformerFactory
	// Watched are the informers that wake owners.
	Watched []kube.Watched

	env *app.Env
}

// NewCaches builds no informer yet.
func NewCaches(env *app.Env) Caches {
	return Caches{
		env: env,
		Core: kubeinformers.NewSharedInformerFactoryWithOptions(env.Kube, 0,
			kubeinformers.WithNamespace(env.Namespace), kubeinformers.WithInformerName(env.Informers)),
		Ours: flotillainformers.NewSharedInformerFactoryWithOptions(env.Flotilla, 0,
			flotillainformers.WithNamespace(env.Namespace), flotillainformers.WithInformerName(env.Informers)),
	}
}

// Watch says which event wakes which owner. Nothing is read before Fill.
func (c *Caches) Watch(watched ...kube.Watched) error {
	c.Watched = watched
	return kube.SetUp(watched, c.env.WatchFailed)
}

// Fill fills the caches, and finds out what the cluster offers.
func (c *Caches) Fill(ctx context.Context) (inplace.Abilities, error) {
	resize, err := kube.HasSubresource(ctx, c.env.Kube.Discovery(), "v1", "pods/resize")
	if err != nil {
		return inplace.Abilities{}, fmt.Errorf("asking whether Pods can be resized in place: %w", err)
	}
	c.Core.StartWithContext(ctx)
	c.Ours.StartWithContext(ctx)
	return inplace.Abilities{Resize: resize}, kube.Fill(ctx, c.Watched)
}

// Work runs a loop until the context ends. It begins when the caches show all that another leader may have done.
func (c *Caches) Work(ctx context.Context, loop Loop, workers int) {
	if err := kube.CatchUp(ctx, c.env.Metadata, c.env.Namespace, kube.Sources(c.Watched)); err != nil {
		return
	}
	loop.Run(ctx, workers)
}
