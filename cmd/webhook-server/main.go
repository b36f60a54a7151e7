// Command webhook-server converts objects between the versions of the API, and defaults and validates them.
package main

import (
	"context"

	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/conversion"
	"github.com/flotilla-k8s/flotilla/internal/webhook"
)

func main() {
	options := webhook.DefaultOptions()
	app.Main(app.Component{
		Name:            "webhook-server",
		Short:           "Converts objects of apps.kruise.io between the versions of the API, and defaults and validates them",
		ConcurrentSyncs: 1,
		EveryReplica:    true,
		AddFlags:        options.AddFlags,
		Check:           options.Check,
		New: func(env *app.Env) (app.Runnable, error) {
			server, err := webhook.New(env, *options)
			if err != nil {
				return nil, err
			}
			server.Handle("/convert", options.Conversions(), func(ctx context.Context, body []byte) ([]byte, int, error) {
				return conversion.Handle(ctx, body, server)
			})
			for _, kind := range server.Kinds() {
				server.Admit(kind)
			}
			server.AdmitPods()
			return server, nil
		},
	})
}
