package app

import (
	"context"
	"errors"
	"os"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Task is work that ends by itself: nothing listens, nobody leads.
type Task struct {
	// Name of the binary.
	Name string
	// Short says in one line what it does.
	Short string
	// AddFlags adds the task's own flags; may be nil.
	AddFlags func(*pflag.FlagSet)
	// Check says what is wrong with the task's own flags; may be nil.
	Check func() error
	// Run does the work. An error is one line to the user, and the exit code 1.
	Run func(context.Context, *Env) error
}

// MainTask runs a task and ends the process.
func MainTask(t Task) {
	os.Exit(run(newTaskCommand(t), os.Args[1:]))
}

func newTaskCommand(t Task) *cobra.Command {
	options := defaultOptions(t.Name, 1)
	options.LeaderElect = false
	command := bareCommand(t.Name, t.Short, func() error { return errors.Join(options.validate(), check(t.Check)) },
		func(ctx context.Context) error {
			env, _, closeEnv, err := connect(t.Name, options)
			if err != nil {
				return err
			}
			defer closeEnv()
			env.Metrics = prometheus.NewRegistry()
			return t.Run(logr.NewContext(ctx, env.Log), env)
		})
	options.addClientFlags(command.Flags())
	if t.AddFlags != nil {
		t.AddFlags(command.Flags())
	}
	return command
}
