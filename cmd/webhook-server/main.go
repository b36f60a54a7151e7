// Command webhook-server converts objects between the versions of the API.
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
		Short:           "Converts objects of apps.kruise.io between the versions of the API",
		ConcurrentSyncs: 1,
		EveryReplica:    true,
		AddFlags:        options.AddFlags,
		Check:           options.Check,
		New: func(env *app.Env) (app.Runnable, error) {
			var server *webhook.Server
			convert := func(_ context.Context, body []byte) ([]byte, int, error) {
				return conversion.Handle(body, server.Observe)
			}
			var err error
			server, err = webhook.New(env, *options, []webhook.Route{{Path: "/convert", Limit: options.ConversionLimit(), Handle: convert}})
			return server, err
		},
	})
}
