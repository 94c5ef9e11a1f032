// Gvrwatch watches any Kubernetes resource by name from the command line.
//
// It exits with status 0 at a normal end, 1 after an error, and 2 if the command line itself is invalid.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/execute"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	context.AfterFunc(ctx, killAtNextSignal)
	// If the reader of stdout exits (| head), Write must return an error: SIGPIPE would kill the program before it
	// commits its checkpoint and ends its commands. Not signal.Ignore, because credential plugins would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	tuneMemory()
	status := run(ctx, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(status)
}

// killAtNextSignal ends the program and the commands of --exec at the next signal, in case they hang. One that arrives
// within a second of the first does not: timeout(1) signals the program and its group.
func killAtNextSignal() {
	time.Sleep(time.Second)
	next := make(chan os.Signal, 1)
	signal.Notify(next, endSignals()...)
	<-next
	execute.Kill()
	os.Exit(statusKilled)
}

// endSignals returns the signals that end the program. It leaves out those that the process already ignores: nohup, and
// the shell of a background job, start it that way.
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
	statusOK     = 0
	statusError  = 1
	statusUsage  = 2
	statusKilled = 130 // as of a program that SIGINT has ended
)

// run runs the program with args and returns its exit status. The end of ctx is a normal end.
func run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	out := screen.New(streams.Out, streams.ErrOut, ctx.Done())
	streams.Out, streams.ErrOut = out.Out, out.ErrOut
	root := newRoot(streams, out)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var failure *runError
	switch {
	case errors.Is(out.Out.Err(), syscall.EPIPE), errors.Is(out.Out.Err(), screen.ErrUnread):
		return statusOK // the reader of stdout has exited, or a signal has ended the program
	case out.Out.Err() != nil:
		printMessage(streams.ErrOut, "%v", out.Out.Err())
		return statusError
	case err == nil:
		return statusOK
	case errors.As(err, &failure):
		printMessage(streams.ErrOut, "%v", err)
		return statusError
	}
	// Any error that is not a runError is a mistake in the command line.
	err = explainCommand(cmd, err)
	printMessage(streams.ErrOut, "%v", err)
	fmt.Fprintf(streams.ErrOut, "See '%s --help'.\n", cmd.CommandPath())
	return statusUsage
}

// runError is an error that occurred after the command line was checked. The exit status is 1.
type runError struct{ error }

func (e *runError) Unwrap() error { return e.error }

// asRunError wraps err in a runError, unless it is nil.
func asRunError(err error) error {
	if err == nil {
		return nil
	}
	return &runError{err}
}

// isPlugin reports whether kubectl runs the program: kubectl gvrwatch runs kubectl-gvrwatch.
func isPlugin(program string) bool { return strings.HasPrefix(filepath.Base(program), "kubectl-") }

func newRoot(streams genericiooptions.IOStreams, out *screen.Screen) *cobra.Command {
	root := &cobra.Command{
		Use:   "gvrwatch",
		Short: "Watch any Kubernetes resource by name",
		Long: "Gvrwatch watches any Kubernetes resource by name, custom resources included. It resumes after closed\n" +
			"connections, server restarts and expired versions, and reports every deletion.",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version, _ := cmd.Flags().GetBool("version"); version {
				return asRunError(printVersions(streams, thisProgram(), "", false))
			}
			return cmd.Help()
		},
	}
	root.Flags().Bool("version", false, "Print the versions of the program and of the libraries in it.")
	if isPlugin(os.Args[0]) {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gvrwatch"}
	}
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(explainFlag)
	watch := newWatch(streams, out)
	root.AddCommand(newResources(streams), newGet(streams, out), watch, newTop(streams, out), newWait(streams),
		newReplay(streams, out), newTimeline(streams), newCheckpoint(streams), newVersion(streams))
	addHelp(root, watch)
	return root
}
