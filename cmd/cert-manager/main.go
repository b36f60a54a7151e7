// Command cert-manager is the cert-rotator: it keeps the certificates of the webhooks, and the caBundles that make the API
// server trust them.
package main

import (
	"time"

	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/certs"
)

func main() {
	options := certs.DefaultOptions()
	app.Main(app.Component{
		Name:            "cert-manager",
		Short:           "Keeps the certificates of the webhooks, and the caBundles that make the API server trust them",
		ConcurrentSyncs: 1,
		Lease:           "flotilla-cert-rotator",
		LeaseDuration:   30 * time.Second,
		RenewDeadline:   20 * time.Second,
		RetryPeriod:     5 * time.Second,
		EndsWithLease:   true,
		AddFlags:        options.AddFlags,
		Check:           options.Check,
		New:             options.New,
		Queries: []app.Query{
			{Name: "status", Short: "Print authorities, serving certificate, targets and what is due; exit code 1 unless all is published and nothing overdue", Run: options.Status},
			{Name: "bundle", Short: "Print the certificates that every caBundle is to hold", Run: options.Bundle},
		},
	})
}
