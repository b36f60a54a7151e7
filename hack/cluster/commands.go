package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/binaries"
	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/local"
	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

const maxNodes = 5000

// usageError is a command line that is wrong. Its message is one line that begins with the command and says what is allowed.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{message: cmd.CommandPath() + ": " + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "A real Kubernetes with simulated nodes on this machine",
		SilenceErrors: true,
		SilenceUsage:  true,
		// Without a function here cobra would print help and call it success.
		RunE: func(cmd *cobra.Command, args []string) error {
			names := commandNames(cmd)
			if len(args) > 0 {
				return usagef(cmd, "unknown command %q; allowed: %s", args[0], names)
			}
			return usagef(cmd, "a command is missing; allowed: %s (see --help)", names)
		},
		Args: cobra.ArbitraryArgs,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Hidden: true})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef(cmd, "%v; allowed: %s", plain(err), allowed(cmd))
	})
	root.AddCommand(buildCommand(), upCommand(), downCommand(), kubeconfigCommand(), statusCommand(), runCommand())
	return root
}

func commandNames(cmd *cobra.Command) string {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return strings.Join(names, ", ")
}

// allowed is what may come after a command.
func allowed(cmd *cobra.Command) string {
	if cmd.HasSubCommands() {
		return commandNames(cmd) + ", and --help"
	}
	return flagNames(cmd)
}

// plain says of a value that cannot be read what it must be, instead of how reading it failed.
func plain(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	must := map[string]string{"int": "an integer", "bool": "true or false"}[invalid.GetFlag().Value.Type()]
	if must == "" {
		return err
	}
	return fmt.Errorf("--%s is %q: must be %s", invalid.GetFlag().Name, invalid.GetValue(), must)
}

func flagNames(cmd *cobra.Command) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Value.Type() != "bool" {
			what, _ := pflag.UnquoteUsage(f)
			name += " " + what
		}
		names = append(names, name)
	})
	return strings.Join(names, ", ")
}

// noArguments refuses arguments beside flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(cmd, "unexpected argument %q; allowed: %s", args[0], flagNames(cmd))
	}
	return nil
}

func dirFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("dir", "", "the `DIR` of the cluster's files")
}

func requireDir(cmd *cobra.Command, dir string) error {
	if dir == "" {
		return usagef(cmd, "--dir DIR is required; allowed: %s", flagNames(cmd))
	}
	return nil
}

// buildCommand is for whoever runs under a time limit of their own afterwards.
func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use: "build", Short: "Compile what a cluster is made of, if it is not there yet", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := binaries.Ensure(cmd.Context(), sources, cmd.ErrOrStderr())
			return err
		},
	}
}

func upCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "up", Short: "Start a cluster, or join the one that runs", Args: noArguments}
	dir := dirFlag(cmd)
	nodes := cmd.Flags().Int("sim-nodes", 5, fmt.Sprintf("`N` simulated nodes, 0 to %d", maxNodes))
	port := cmd.Flags().Int("api-port", 0, "the `PORT` of the API server, 1024 to 65535 (default: any that is free)")
	realNode := cmd.Flags().Bool("real-node", false, "add a node that runs real containers (not available yet)")
	without := cmd.Flags().StringSlice("without-controllers", nil, "comma-separated `NAMES` of controllers of kube-controller-manager that are not to run")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireDir(cmd, *dir); err != nil {
			return err
		}
		if *nodes < 0 || *nodes > maxNodes {
			return usagef(cmd, "--sim-nodes %d is out of range; allowed: 0 to %d", *nodes, maxNodes)
		}
		if *port != 0 && (*port < 1024 || *port > 65535) {
			return usagef(cmd, "--api-port %d is out of range; allowed: 1024 to 65535", *port)
		}
		if *realNode {
			return errors.New("--real-node is not available yet; leave it out to get simulated nodes")
		}
		slices.Sort(*without)
		set, err := binaries.Ensure(cmd.Context(), sources, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		o := state.Options{SimNodes: *nodes, APIPort: *port, Without: slices.Compact(*without)}
		if err := local.Up(cmd.Context(), *dir, o, set, cmd.ErrOrStderr()); err != nil {
			return err
		}
		path, err := local.Kubeconfig(*dir)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s PATH=%s:$PATH\n", path, filepath.Join(filepath.Dir(path), "bin"))
		return nil
	}
	return cmd
}

func downCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "down", Short: "End a cluster and remove its files", Args: noArguments}
	dir := dirFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireDir(cmd, *dir); err != nil {
			return err
		}
		return local.Down(cmd.Context(), *dir, cmd.ErrOrStderr())
	}
	return cmd
}

func kubeconfigCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "kubeconfig", Short: "Print the path of the administrator's kubeconfig", Args: noArguments}
	dir := dirFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireDir(cmd, *dir); err != nil {
			return err
		}
		path, err := local.Kubeconfig(*dir)
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), path)
		}
		return err
	}
	return cmd
}

func statusCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show what runs", Args: noArguments}
	dir := dirFlag(cmd)
	cmd.Flags().Lookup("dir").Usage += " (default: every cluster in .cluster/)"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dirs := []string{*dir}
		if *dir == "" {
			files, err := filepath.Glob(filepath.Join(".cluster", "*", state.File))
			if err != nil || len(files) == 0 {
				return errors.Join(err, errors.New("no cluster in .cluster/; name its folder with --dir DIR"))
			}
			dirs = dirs[:0]
			for _, f := range files {
				dirs = append(dirs, filepath.Dir(f))
			}
		}
		return local.Status(cmd.Context(), dirs, cmd.OutOrStdout())
	}
	return cmd
}

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run --dir DIR --name NAME -- PATH ARGS...", Short: "Start a process that ends with the cluster",
		Args: cobra.ArbitraryArgs,
	}
	dir := dirFlag(cmd)
	name := cmd.Flags().String("name", "", "the `NAME` under which the process is recorded; one of that name is ended first")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := requireDir(cmd, *dir); err != nil {
			return err
		}
		if err := local.CheckName(*name); err != nil {
			return usagef(cmd, "%v", err)
		}
		if len(args) == 0 || cmd.ArgsLenAtDash() != 0 {
			return usagef(cmd, "what to run comes after --; allowed: %s", cmd.Use)
		}
		return local.Run(cmd.Context(), *dir, *name, args[0], args[1:], cmd.ErrOrStderr())
	}
	return cmd
}
