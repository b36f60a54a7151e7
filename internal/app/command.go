package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

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
	// LeaseDuration, RenewDeadline and RetryPeriod are the defaults of the lease; zero: the usual ones.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// EndsWithLease: a process that has lost its lease ends in order, so that it begins anew with nothing in memory.
	EndsWithLease bool
	// EveryReplica: all replicas work, without a leader.
	EveryReplica bool
	// AddFlags adds the component's own flags; may be nil.
	AddFlags func(*pflag.FlagSet)
	// Check says what is wrong with the component's own flags; may be nil.
	Check func() error
	// New builds the component.
	New func(*Env) (Runnable, error)
	// Queries are subcommands that read and print, with the component's flags.
	Queries []Query
}

// Query is a subcommand that only reads.
type Query struct {
	// Name and Short are how it is called and what it does, in one line.
	Name, Short string
	// Run prints the answer. An error is what is wrong with what it looked at, too.
	Run func(ctx context.Context, env *Env, out io.Writer) error
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

// Liver is a component that knows when only a new process can help.
type Liver interface {
	// Alive says why the process is to be ended; nil: it is not.
	Alive() error
}

const (
	exitFailure = 1
	exitUsage   = 2
)

// errUsage marks what the caller of the process has to correct.
var errUsage = errors.New("usage")

// Usage marks an error of a component as one that the caller of the process has to correct.
func Usage(err error) error { return fmt.Errorf("%w: %w", errUsage, err) }

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
	text := strings.ReplaceAll(strings.TrimPrefix(err.Error(), errUsage.Error()+": "), "\n", "; ")
	text = strings.Join(strings.Fields(text), " ")
	if errors.Is(err, errUsage) {
		fmt.Fprintf(os.Stderr, "%s: %s (--help lists the flags)\n", command.Name(), text)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", command.Name(), text)
	return exitFailure
}

func newCommand(c Component) *cobra.Command {
	options := defaultOptions(cmp.Or(c.Lease, c.Name), c.ConcurrentSyncs)
	options.LeaderElect, options.endsWithLease = !c.EveryReplica, c.EndsWithLease
	options.LeaseDuration = cmp.Or(c.LeaseDuration, options.LeaseDuration)
	options.RenewDeadline = cmp.Or(c.RenewDeadline, options.RenewDeadline)
	options.RetryPeriod = cmp.Or(c.RetryPeriod, options.RetryPeriod)
	valid := func() error { return check(options, c.Check) }
	command := bareCommand(c.Name, c.Short, valid, func(ctx context.Context, _ io.Writer) error { return serve(ctx, c, options) })
	command.CompletionOptions.DisableDefaultCmd = true
	options.addFlags(command.Flags())
	if c.AddFlags != nil {
		c.AddFlags(command.Flags())
	}
	for _, q := range c.Queries {
		query := bareCommand(q.Name, q.Short, valid, func(ctx context.Context, out io.Writer) error { return ask(ctx, c.Name, q.Run, options, out) })
		query.Flags().AddFlagSet(command.Flags())
		command.AddCommand(query)
	}
	return command
}

// check says what is wrong with the flags. own is the check of the component's own; may be nil.
func check(options *Options, own func() error) error {
	err := options.validate()
	if own != nil {
		err = errors.Join(err, own())
	}
	if err != nil {
		return fmt.Errorf("%w: %s", errUsage, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

func subcommands(command *cobra.Command) []string {
	var names []string
	for _, c := range command.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// bareCommand has no flags yet.
func bareCommand(name, short string, valid func() error, run func(context.Context, io.Writer) error) *cobra.Command {
	command := &cobra.Command{
		Use:           name,
		Short:         short,
		Version:       fmt.Sprintf("%s %s", version.Get().GitVersion, version.Get().GoVersion),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			allowed := "only flags are"
			if names := subcommands(command); len(names) > 0 {
				allowed = "flags and " + strings.Join(names, ", ") + " are"
			}
			return fmt.Errorf("%w: unexpected argument %q: %s allowed", errUsage, args[0], allowed)
		},
		RunE: func(command *cobra.Command, _ []string) error {
			if err := valid(); err != nil {
				return err
			}
			return run(command.Context(), command.OutOrStdout())
		},
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(PlainFlagError(err)) })
	return command
}
