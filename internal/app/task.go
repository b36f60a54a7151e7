package app

import (
	"context"
	"io"
	"os"

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
	Run func(context.Context, *Env, io.Writer) error
}

// MainTask runs a task and ends the process.
func MainTask(t Task) {
	os.Exit(run(newTaskCommand(t), os.Args[1:]))
}

func newTaskCommand(t Task) *cobra.Command {
	options := defaultOptions(t.Name, 1)
	options.LeaderElect = false
	command := bareCommand(t.Name, t.Short, func() error { return check(options, t.Check) },
		func(ctx context.Context, out io.Writer) error { return ask(ctx, t.Name, t.Run, options, out) })
	options.addClientFlags(command.Flags())
	if t.AddFlags != nil {
		t.AddFlags(command.Flags())
	}
	return command
}
