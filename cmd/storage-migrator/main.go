// Command storage-migrator has all stored objects written in the storage version of their CRDs.
package main

import (
	"context"
	"io"

	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/migration"
)

func main() {
	options := migration.DefaultOptions()
	app.MainTask(app.Task{
		Name:     "storage-migrator",
		Short:    "Has all stored objects of apps.kruise.io written in the storage version of their CRDs, and ends",
		AddFlags: options.AddFlags,
		Check:    options.Check,
		Run: func(ctx context.Context, env *app.Env, _ io.Writer) error {
			m := &migration.Migrator{Options: *options, Kube: env.Kube, Metadata: env.Metadata, Extensions: env.Extensions}
			return m.Run(ctx)
		},
	})
}
