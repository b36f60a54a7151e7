package cloneset

import (
	"github.com/spf13/pflag"

	"github.com/flotilla-k8s/flotilla/internal/app"
)

// Options are the controller's own flags.
type Options struct {
	// PartitionRollback: raising partition takes updated Pods back to the current revision.
	PartitionRollback bool
	// RecreateForClaims: a template update that comes with other volumeClaimTemplates replaces Pods instead of updating
	// them in place.
	RecreateForClaims bool
}

// AddFlags adds the flags.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.PartitionRollback, "partition-rollback", o.PartitionRollback,
		"take updated Pods back to the current revision when a CloneSet's partition is raised")
	f.BoolVar(&o.RecreateForClaims, "recreate-on-claim-template-change", o.RecreateForClaims,
		"replace Pods instead of updating them in place when volumeClaimTemplates changed together with the template")
}

// New builds the controller.
func (o *Options) New(env *app.Env) (app.Runnable, error) { return newController(env, *o) }
