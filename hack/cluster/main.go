// Command cluster runs a real Kubernetes with simulated nodes on this machine, from Go modules alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	command := newCommand()
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if usage := (*usageError)(nil); errors.As(err, &usage) {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
	return exitFailed
}
