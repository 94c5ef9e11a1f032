// Gvrwatch watches any Kubernetes resource by name from the command line.
//
// Its exit status is 0 at a normal end, 1 on errors, and 2 if the command line
// alone is wrong.
package main

import (
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
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	// A second signal kills, in case the end hangs; but not one that comes with the
	// first, as from timeout(1), which signals the program and its group.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	// A reader that leaves (| head) shall be an error of Write, not the death of a
	// program that has a server to stop and a folder to remove. (Notify, since a
	// program that this one runs for credentials would inherit Ignore.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	tuneMemory()
	status := run(ctx, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(status)
}

// ends are the signals that end the program: not those that nohup, or the shell
// for a job in the background, has it ignore.
func endSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

const (
	statusOK    = 0
	statusError = 1
	statusUsage = 2
)

// run is the whole program but for the process it runs in. The end of ctx is a
// normal end.
func run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	silenceClientGo()
	out := &output{w: streams.Out}
	streams.Out = out
	root := newRoot(streams)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var failure *runError
	switch {
	case errors.Is(out.err, syscall.EPIPE):
		return statusOK // nobody reads any more
	case out.err != nil:
		printError(streams.ErrOut, out.err)
		return statusError
	case err == nil:
		return statusOK
	case errors.As(err, &failure):
		printError(streams.ErrOut, err)
		return statusError
	}
	// Everything that is no runError was found in the command line.
	printError(streams.ErrOut, err)
	fmt.Fprintf(streams.ErrOut, "See '%s --help'.\n", cmd.CommandPath())
	return statusUsage
}

// runError is an error that the command line alone could not show.
type runError struct{ error }

func (e *runError) Unwrap() error { return e.error }

// failed marks err, if there is one, as no mistake of the command line.
func asRunError(err error) error {
	if err == nil {
		return nil
	}
	return &runError{err}
}

// complain writes err in one line, whatever is in it.
func printError(w io.Writer, err error) {
	fmt.Fprintf(w, "gvrwatch: %s\n", strings.Join(strings.Fields(err.Error()), " "))
}

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:   "gvrwatch",
		Short: "Watch any Kubernetes resource by name",
		Long: "Gvrwatch watches any Kubernetes resource by name, custom resources included, and goes on\n" +
			"through closed connections, server restarts and expired versions without losing a deletion.",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newResources(streams), newWatch(streams), newCheckpoint(streams), newDevserver(streams), newDemo(streams))
	return root
}
