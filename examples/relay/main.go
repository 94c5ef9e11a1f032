// Relay publishes what happens to the objects of Kubernetes clusters to NATS JetStream. README.md says how it is used.
//
// It exits with status 0 at a normal end, 1 after an error, and 2 if the command line or the configuration is invalid.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal kills the program. One that arrives within a second does not: timeout(1) signals the group, too.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	silenceClientGo()
	// If the reader of stdout exits (| head), Write must return an error: SIGPIPE would kill the program.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// silenceClientGo discards klog's lines: the relay logs failures itself.
func silenceClientGo() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}

// failure is an error that is no mistake in the command line or the configuration: the exit status is 1.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	out, errOut = escaper{out}, escaper{errOut}
	root := newRoot(out, errOut)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	failed := failure{}
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return 0
	case errors.As(err, &failed):
		fmt.Fprintln(errOut, "relay:", err)
		return 1
	}
	fmt.Fprintf(errOut, "relay: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
	return 2
}

func newRoot(out, errOut io.Writer) *cobra.Command {
	f := &flags{}
	var dev, printConfig bool
	root := &cobra.Command{
		Use:   "relay",
		Short: "Publish what happens to the objects of Kubernetes clusters to NATS JetStream",
		Long: "Relay watches the selected resources of Kubernetes clusters, and publishes each change as a\n" +
			"CloudEvent to NATS JetStream, together with its position, so that nothing is lost or repeated when\n" +
			"it restarts. Several relays with the same configuration share the work. Without --nats it runs a\n" +
			"server of its own.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config(cmd)
			if err != nil {
				return err
			}
			if dev && len(cfg.Clusters) > 0 {
				return errors.New("--dev starts a cluster of its own: the configuration must have no other")
			}
			if printConfig {
				return printYAML(out, cfg)
			}
			if len(cfg.Clusters) > 0 { // what is wrong with them shows before NATS is there
				if _, err := relay.ConnectAll(cfg.Clusters); err != nil {
					return failure{err}
				}
			}
			return serve(cmd.Context(), *cfg, dev, sameLog(cmd), errOut)
		},
	}
	f.add(root)
	root.Flags().BoolVar(&dev, "dev", false,
		"Start an API server with two custom resources and a writer in this process, and publish it.")
	root.Flags().BoolVar(&printConfig, "print-config", false, "Print the configuration with its defaults, and exit.")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newTail(f, out), newView(f, out, errOut), newVerify(f, out, errOut), newStatus(f, out))
	return root
}
