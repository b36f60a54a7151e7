package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/version"
)

// Component is what a process runs.
type Component struct {
	// Name of the binary.
	Name string
	// Short says in one line what it does.
	Short string
	// ConcurrentSyncs is the default of that flag.
	ConcurrentSyncs int
	// Lease is the default name of the leader's lease; empty: the name of the binary.
	Lease string
	// EveryReplica: all replicas work, without a leader.
	EveryReplica bool
	// AddFlags adds the component's own flags; may be nil.
	AddFlags func(*pflag.FlagSet)
	// Check says what is wrong with the component's own flags; may be nil.
	Check func() error
	// New builds the component.
	New func(*Env) (Runnable, error)
}

// Runnable is a component that has been built.
type Runnable interface {
	// Start fills the caches and returns when they are full or the context ends. It is called once; what it starts ends
	// with the context.
	Start(ctx context.Context) error
	// Work works until the context ends and returns when what it had begun is finished. It may be called again: a leader
	// that lost its lease may become leader anew.
	Work(ctx context.Context, workers int)
}

// Readier is a component that is not always ready once its caches are full.
type Readier interface {
	// Ready says why the process is not to be asked; nil: it may be.
	Ready() error
}

const (
	exitFailure = 1
	exitUsage   = 2
)

// errUsage marks what the caller of the process has to correct.
var errUsage = errors.New("usage")

// Main runs a component and ends the process.
func Main(c Component) {
	os.Exit(run(newCommand(c), os.Args[1:]))
}

func run(command *cobra.Command, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	// One line, whatever the error looks like.
	text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), errUsage.Error()+": ")), " ")
	if errors.Is(err, errUsage) {
		fmt.Fprintf(os.Stderr, "%s: %s (--help lists the flags)\n", command.Name(), text)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", command.Name(), text)
	return exitFailure
}

func newCommand(c Component) *cobra.Command {
	options := defaultOptions(cmp.Or(c.Lease, c.Name), c.ConcurrentSyncs)
	options.LeaderElect = !c.EveryReplica
	command := bareCommand(c.Name, c.Short, func() error { return errors.Join(options.validate(), check(c.Check)) },
		func(ctx context.Context) error { return serve(ctx, c, options) })
	options.addFlags(command.Flags())
	if c.AddFlags != nil {
		c.AddFlags(command.Flags())
	}
	return command
}

func check(own func() error) error {
	if own == nil {
		return nil
	}
	return own()
}

// bareCommand has no flags yet.
func bareCommand(name, short string, check func() error, run func(context.Context) error) *cobra.Command {
	command := &cobra.Command{
		Use:           name,
		Short:         short,
		Version:       fmt.Sprintf("%s %s", version.Get().GitVersion, version.Get().GoVersion),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%w: unexpected argument %q: only flags are allowed", errUsage, args[0])
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error {
			if err := check(); err != nil {
				return fmt.Errorf("%w: %s", errUsage, strings.ReplaceAll(err.Error(), "\n", "; "))
			}
			return run(command.Context())
		},
	}
	command.CompletionOptions.DisableDefaultCmd = true
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	return command
}
